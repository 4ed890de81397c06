"""
The compiled lane for leafnodes, compared with the readable path.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.accounts.shadows import ImportedStream
from natsbroker.routes.modern import RouteAccount
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.subjects.renaming import Renaming
from natsbroker.testing.strategies import literalSubjects, patterns, payloads
from natsbroker.wire import ops
from natsbroker.wire.dialects import leaf, route
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.leafnodes.leaves import Broker, Wire
from tests.links.ears import Ear, Mouth
from tests.subjects.strategies import STREAM_REPLIES
from tests.support import COMPILED, PURE, Names, needsCompiled, pieces, using

HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"
QUEUES = st.sampled_from([b"q", b"r"])

Sent = tuple[bytes, bytes, bytes, bool, list[bytes]]

SENT = st.lists(
    st.tuples(
        literalSubjects(),
        st.just(b"") | literalSubjects() | STREAM_REPLIES,
        payloads(),
        st.booleans(),
        st.lists(QUEUES, max_size=2, unique=True),
    ),
    max_size=8,
)

#: Who listens: which of the parties, to what, in which group.
PARTIES = ("client", "sibling", "same cluster", "hub", "route", "routed leaf")
LISTENERS = st.lists(
    st.tuples(st.sampled_from(PARTIES), patterns(), st.just(b"") | QUEUES), max_size=6
)


def frames(sent: list[Sent]) -> bytes:
    """The frames of a leafnode."""
    data = b""
    for subject, reply, body, hasHeaders, queues in sent:
        header = len(HEADERS) if hasHeaders else 0
        message = Message(subject, HEADERS[:header] + body, reply, header)
        data += leaf.messageFrame(message, queues, True)
    return data


class RouteEar(Ear):
    """
    Another member of the cluster.
    """

    def __init__(self, names: Names, broker: Any, cluster: bytes) -> None:
        super().__init__(names, broker)
        self.account = RouteAccount(b"A", "A", self.outbox, "m", cluster, True)


def played(
    names: Names, sent: list[Sent], listeners: Any, cluster: str, isHub: bool, cuts: Any, only: Any
) -> dict[str, Any]:
    """The messages that all receivers get from a leafnode."""
    with using(names):
        broker = Broker()
        broker.decider.answer = Grant("A", publish=only)
        sender = broker.hub(cluster=cluster) if isHub else broker.spoke(cluster=cluster)
        others = {
            "sibling": broker.spoke(name="sibling", cluster="other"),
            "same cluster": broker.spoke(name="same", cluster=cluster or "x"),
            "hub": broker.hub(cluster="above"),
        }
        ears: dict[str, Ear] = {"client": Ear(names, broker)}
        member = RouteEar(names, broker, b"")
        ears["route"] = ears["routed leaf"] = member
        routed = type(member.account)(b"A", "A", member.outbox, "m", b"other", True)
        account = broker.buses.accounts["A"]
        for number, (party, pattern, queue) in enumerate(listeners):
            if party in others:
                weight = b" 1" if queue else b""
                others[party].send(b"LS+ %b %b%b\r\n" % (pattern, queue, weight))
            elif party == "client":
                tag = b"%d" % number
                broker.bus().subscribe(pattern, ears["client"], tag, queue)
            else:
                target = member.account if party == "route" else routed
                account.busFor(Kind.ROUTE).subscribe(pattern, target, b"A ", queue)
        for wire in (sender, *others.values()):
            wire.take()
        for piece in pieces(frames(sent), cuts):
            sender.send(piece)
        broker.settle()
        got: dict[str, Any] = {name: settled(wire) for name, wire in others.items()}
        got["sender"] = settled(sender)
        got["client"] = inOrder(ears["client"].heard)
        got["route"] = inOrder(member.heard)
        got["counts"] = (sender.leaf.decoder.messages, sender.leaf.decoder.messageBytes)
        return got


def settled(wire: Wire) -> list[Any]:
    """The messages of a leafnode."""
    return inOrder(wire.take())


def inOrder(data: bytes) -> list[Any]:
    """Frames, with the members of groups in a fixed order, because their choice is random."""
    received = []
    for frame in re.split(rb"(?<=\r\n)(?=(?:[RHL]?MSG|-ERR|INFO|LS[+-]) )", data):
        line, _, body = frame.partition(b"\r\n")
        received.append([sorted(line.split(b" ")), line.split(b" ")[0], body])
    return received


def fixed(listeners: Any) -> Any:
    """The same script with one member in each group, so that no member is chosen by chance."""
    seen: set[bytes] = set()
    kept = []
    for party, pattern, queue in listeners:
        if not queue or queue not in seen:
            kept.append((party, pattern, queue))
        if queue:
            seen.add(queue)
    return kept


@pytest.mark.slow
@needsCompiled
@settings(max_examples=150, deadline=None)
@given(
    SENT,
    LISTENERS.map(fixed),
    st.sampled_from(["", "LC"]),
    st.booleans(),
    st.lists(st.integers(0, 400), max_size=3),
    st.sampled_from([None, PermissionSet(None, [b"*"])]),
)
def test_sameBytesOnBothPaths(
    sent: list[Sent], listeners: Any, cluster: str, isHub: bool, cuts: list[int], only: Any
) -> None:
    """All receivers get the same bytes on both paths, wherever input is cut."""
    results = [
        played(names or PURE, sent, listeners, cluster, isHub, sorted(cuts), only)
        for names in (PURE, COMPILED)
    ]
    assert results[0] == results[1]


@needsCompiled
def test_runOfAClient() -> None:
    """
    A client's publishes with the same line are forwarded to a leafnode in order, with and without
    headers.
    """
    names = COMPILED or PURE
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    with using(names):
        broker = Broker()
        leaf = broker.spoke(name="leaf")
        leaf.send(b"LS+ foo\r\n")
        leaf.take()
        plain = b"PUB foo r 1\r\n%d\r\n"
        headed = b"HPUB foo 18 19\r\n" + block + b"%d\r\n"
        data = b"".join(line % number for line in (plain, headed) for number in range(9))
        assert Mouth(names, broker).say(data) == 18
        assert leaf.take() == data.replace(b"HPUB", b"HMSG").replace(b"PUB", b"LMSG")


@needsCompiled
@pytest.mark.parametrize("isHub", [False, True])
@pytest.mark.parametrize("cluster", ["", "LC"])
def test_takenByTheLane(isHub: bool, cluster: str) -> None:
    """The lane takes messages to clients, to other leafnodes, and to routes."""
    names = COMPILED or PURE
    with using(names):
        broker = Broker()
        sender = broker.hub(cluster=cluster) if isHub else broker.spoke(cluster=cluster)
        sibling = broker.spoke(name="sibling", cluster="other")
        sibling.send(b"LS+ foo\r\n")
        ear = Ear(names, broker)
        broker.bus().subscribe(b"foo", ear, b"1")
        member = RouteEar(names, broker, b"")
        bus = broker.buses.accounts["A"].busFor(Kind.ROUTE)
        bus.subscribe(b"foo", member.account, b"A ")
        sibling.take()
        calls: list[Any] = []
        sender.leaf.handlers[ops.LMSG] = lambda *frame: calls.append(frame)
        sender.send(b"LMSG foo 2\r\nhi\r\nLMSG foo rep 2\r\nho\r\n")
        assert calls == []
        assert sibling.take() == b"LMSG foo 2\r\nhi\r\nLMSG foo rep 2\r\nho\r\n"
        assert ear.heard == b"MSG foo 1 2\r\nhi\r\nMSG foo 1 rep 2\r\nho\r\n"
        first, second = Message(b"foo", b"hi"), Message(b"foo", b"ho", b"rep")
        told = [
            route.messageFrame(b"A", subject, (), True, cluster.encode())
            for subject in (first, second)
        ]
        assert member.heard == (b"" if isHub else b"".join(told))


@needsCompiled
def test_streamSubject() -> None:
    """
    The lane takes a JetStream consumer's messages for local clients. Messages that other brokers
    get too are left to the readable path, which keeps the reply subject.
    """
    names = COMPILED or PURE
    with using(names):
        broker = Broker()
        sender, sibling = broker.spoke(), broker.spoke(name="sibling", cluster="other")
        ear = Ear(names, broker)
        broker.bus().subscribe(b"in.>", ear, b"1")
        sibling.send(b"LS+ in.2\r\n")
        sibling.take()
        calls: list[Any] = []
        usual = sender.leaf.handlers[ops.LMSG]

        def counted(*frame: Any) -> None:
            calls.append(frame)
            usual(*frame)

        sender.leaf.handlers[ops.LMSG] = counted
        for subject in (b"in.1", b"in.2"):
            sender.send(b"LMSG %b $JS.ACK.S.C.1.2.3.4.5@s.a 2\r\nhi\r\n" % subject)
        assert len(calls) == 1
        assert ear.heard == b"MSG s.a 1 $JS.ACK.S.C.1.2.3.4.5 2\r\nhi\r\n" * 2
        assert sibling.take() == b"LMSG in.2 $JS.ACK.S.C.1.2.3.4.5@s.a 2\r\nhi\r\n"


@needsCompiled
@pytest.mark.parametrize("names", [PURE, COMPILED])
@pytest.mark.parametrize("ours", [b"ev.>", b"from.ev.>"])
@pytest.mark.parametrize("isHub", [False, True])
@pytest.mark.parametrize("clusters", [("E", "E"), ("", ""), ("E", "F")])
@pytest.mark.parametrize("sharesHubs", [False, True])
def test_imported(
    names: Any, ours: bytes, isHub: bool, clusters: tuple[str, str], sharesHubs: bool
) -> None:
    """
    A leafnode of an account that imports a stream receives messages of another leafnode of its
    cluster in the exporting account, with the lane and without. A hub receives them only if it is
    of another cluster, also if workers share it, and no one receives its own messages.
    """
    with using(names):
        broker = Broker()
        broker.leafs.sharesHubs = sharesHubs
        accounts = broker.buses.accounts
        accounts["B"].importStreams([ImportedStream(accounts["A"], Renaming(b"ev.>", ours))])
        ends = []
        for account, cluster in zip("AB", clusters, strict=True):
            broker.decider.answer = Grant(account)
            more = {"name": account, "cluster": cluster}
            remote = broker.remote(account=account)
            ends.append(broker.hub(remote, **more) if isHub else broker.spoke(**more))
        ends[1].send(b"LS+ >\r\n")
        ends[0].send(b"LS+ >\r\n")
        for end in ends:
            end.take()
        ends[0].send(b"LMSG ev.1 2\r\nhi\r\n")
        isHeard = not isHub or clusters[0] != clusters[1]
        shown = ours.replace(b">", b"1")
        assert ends[1].take() == (b"LMSG %b 2\r\nhi\r\n" % shown if isHeard else b"")
        assert ends[0].take() == b""
