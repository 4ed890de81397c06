"""
The traffic over a leafnode connection.
"""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface.verify import verifyObject

from natsbroker.config.model import JetStream, Settings
from natsbroker.interfaces import ILinkSubscriber, IOrigin, IOutboxLink, IPeerOrigin
from natsbroker.subjects.mapping import Destination, Mapping, MappingTable
from natsbroker.subjects.permissions import PermissionSet, ResponsePermission
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.leafnodes.leaves import Broker, connect
from tests.support import LinkRecorder, Recorder


class TestTelling:
    """The interest that is sent to the peer."""

    @pytest.mark.parametrize("kind", list(Kind))
    def test_spoke(self, kind: Kind) -> None:
        """A spoke receives the interest of all origins except local services."""
        broker = Broker()
        broker.buses.accounts["A"].busFor(kind).subscribe(b"foo", Recorder(), b"")
        wire = broker.accepted()
        wire.send(connect())
        assert wire.lines() == ([] if kind is Kind.LOCAL else [b"LS+ foo"])

    @pytest.mark.parametrize("kind", list(Kind))
    def test_hub(self, kind: Kind) -> None:
        """A hub receives only the interest of our clients, services and spokes."""
        broker = Broker("spoke")
        wire = broker.hub()
        broker.buses.accounts["A"].busFor(kind).subscribe(b"foo", Recorder(), b"")
        isOurs = kind in (Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE)
        assert wire.lines() == ([b"LS+ foo"] if isOurs else [])

    @pytest.mark.parametrize("isHub", [False, True])
    def test_jetstream(self, isHub: bool) -> None:
        """
        Requests to JetStream without a domain are not sent, also if the peer subscribes to
        everything. A spoke's requests without a domain are accepted, and a hub's are not.
        """
        broker = Broker()
        wire = broker.hub() if isHub else broker.spoke()
        wire.send(b"LS+ >\r\n")
        wire.take()
        assert broker.publish(b"$JS.API.INFO") == broker.publish(b"$KV.B.k") == 0
        assert broker.publish(b"$JS.hub.API.INFO") == broker.publish(b"foo") == 1
        wire.take()
        api = broker.subscribe(b"$JS.API.>")
        wire.send(b"LMSG $JS.API.INFO 2\r\nhi\r\n")
        assert api.bodies == ([] if isHub else [b"hi"])
        assert wire.lines() == ([] if isHub else [b"LS+ $JS.API.>"])

    def test_defaultDomain(self) -> None:
        """Requests without a domain are sent if the account's default domain is empty."""
        broker = Broker(settings=Settings(jetstream=JetStream(default_domains={"A": ""})))
        wire = broker.hub()
        wire.send(b"LS+ >\r\n")
        assert broker.publish(b"$JS.API.INFO") == 1

    @pytest.mark.parametrize(("theirs", "isApart"), [("hub", False), ("leaf", True)])
    def test_domain(self, theirs: str, isApart: bool) -> None:
        """
        A leafnode of another domain receives no internal JetStream messages of the system account.
        """
        broker = Broker(settings=Settings(system_account="A", jetstream=JetStream(domain="hub")))
        broker.decider.answer = Grant("A")
        wire = broker.spoke(domain=theirs)
        wire.send(b"LS+ >\r\n")
        assert broker.publish(b"$NRG.x") == (0 if isApart else 1)

    @pytest.mark.parametrize("isHub", [False, True])
    def test_origin(self, isHub: bool) -> None:
        """A hub is a peer with users of its own, and a spoke counts as a user of ours."""
        broker = Broker()
        wire = broker.hub() if isHub else broker.spoke()
        heard = broker.subscribe(b"foo")
        wire.send(b"LMSG foo 2\r\nhi\r\n")
        origin: Any = heard.got[0][0].origin
        assert verifyObject(IPeerOrigin, origin)
        assert origin.isPeer is isHub

    def test_groups(self) -> None:
        """A peer receives the weight of a queue group, and its changes."""
        broker = Broker()
        wire = broker.spoke()
        first = broker.subscribe(b"foo", b"q")
        second = broker.subscribe(b"foo", b"q")
        first.subscription.cancel()
        second.subscription.cancel()
        assert wire.lines() == [b"LS+ foo q 1", b"LS+ foo q 2", b"LS+ foo q 1", b"LS- foo q"]

    def test_weightsOfOthers(self) -> None:
        """A queue group behind another leafnode is announced with its weight."""
        broker = Broker()
        one, other = broker.spoke(name="one"), broker.spoke(name="other")
        one.send(b"LS+ foo q 3\r\n")
        one.send(b"LS+ foo q 5\r\n")
        assert other.lines() == [b"LS+ foo q 3", b"LS+ foo q 5"]
        one.send(b"LS- foo q\r\n")
        assert other.lines() == [b"LS- foo q"] and one.lines() == []

    def test_isolated(self) -> None:
        """An isolated leafnode receives no interest of other leafnodes."""
        broker = Broker()
        one, other = broker.spoke(name="one", isolate=True), broker.spoke(name="other")
        for wire in (one, other):
            wire.send(b"LS+ foo\r\n")
        broker.subscribe(b"bar")
        assert (one.lines(), other.lines()) == ([b"LS+ bar"], [b"LS+ foo", b"LS+ bar"])

    def test_sameCluster(self) -> None:
        """A leafnode receives no interest of another leafnode in the same cluster."""
        broker = Broker()
        wires = [broker.spoke(name=name, cluster="LC") for name in ("one", "two")]
        third = broker.spoke(name="three", cluster="other")
        wires[0].send(b"LS+ foo\r\n")
        assert (wires[1].lines(), third.lines()) == ([], [b"LS+ foo"])

    def test_loopSubjects(self) -> None:
        """
        A spoke forwards a hub's subject for loop detection to its other hub, and no other interest.
        """
        broker = Broker("spoke")
        hubs = [broker.hub(cluster=name) for name in ("C1", "C2")]
        hubs[0].send(b"LS+ $LDS.x\r\nLS+ foo\r\n")
        lines = hubs[1].take().split(b"\r\n")
        assert b"LS+ $LDS.x" in lines and b"LS+ foo" not in lines


class TestMessages:
    """Messages in both directions."""

    def test_frames(self) -> None:
        """A message has its reply subject, its headers, and the chosen groups."""
        broker = Broker()
        wire = broker.spoke()
        wire.send(b"LS+ foo\r\nLS+ foo q 1\r\n")
        broker.publish(b"foo", b"hi", reply=b"r")
        broker.publish(b"foo", b"NATS/1.0\r\n\r\nhi", headerLength=12)
        assert wire.take() == (
            b"LMSG foo + r q 2\r\nhi\r\nHMSG foo | q 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
        )

    def test_noHeaders(self) -> None:
        """A peer that does not support headers gets none."""
        broker = Broker()
        wire = broker.spoke(headers=False)
        wire.send(b"LS+ foo\r\n")
        broker.publish(b"foo", b"NATS/1.0\r\n\r\nhi", headerLength=12)
        assert wire.take() == b"LMSG foo 2\r\nhi\r\n"

    def test_sentOnce(self) -> None:
        """A leafnode gets a message once, however many of its subscriptions match."""
        broker = Broker()
        wire = broker.spoke()
        wire.send(b"LS+ foo\r\nLS+ *\r\nLS+ >\r\n")
        broker.publish(b"foo")
        assert wire.lines() == [b"LMSG foo 2", b"hi"]

    def test_noEcho(self) -> None:
        """A message is not sent back, nor to another leafnode of the sender's cluster."""
        broker = Broker()
        names = {"one": "LC", "two": "LC", "three": "", "four": "D"}
        wires = {name: broker.spoke(name=name, cluster=names[name]) for name in names}
        for wire in wires.values():
            wire.send(b"LS+ foo\r\n")
            wire.take()
        for wire in wires.values():
            wire.take()
        wires["one"].send(b"LMSG foo 2\r\nhi\r\n")
        got = {name: wire.lines() for name, wire in wires.items()}
        message = [b"LMSG foo 2", b"hi"]
        assert got == {"one": [], "two": [], "three": message, "four": message}

    @pytest.mark.parametrize(
        "line, plain, member",
        [
            (b"LMSG foo 2", 1, 0),
            (b"LMSG foo r 2", 1, 0),
            (b"LMSG foo | q 2", 1, 1),
            (b"LMSG foo + r q 2", 1, 1),
            (b"LMSG foo | other 2", 1, 0),
        ],
    )
    def test_chosen(self, line: bytes, plain: int, member: int) -> None:
        """A message reaches a queue group only if the sender has chosen the group."""
        broker = Broker()
        ears = broker.subscribe(b"foo"), broker.subscribe(b"foo", b"q")
        broker.spoke().send(line + b"\r\nhi\r\n")
        assert [len(ear.got) for ear in ears] == [plain, member]

    def test_chosenAgain(self) -> None:
        """
        A mapping of other subjects does not make a queue group receive messages for which it was
        not chosen.
        """
        broker = Broker()
        ears = broker.subscribe(b"foo"), broker.subscribe(b"foo", b"q")
        made = [Mapping(b"other", [Destination(b"bar")])]
        broker.buses.accounts["A"].mapSubjects(MappingTable(made, broker.random.randrange))
        wire = broker.spoke()
        for _ in range(3):
            wire.send(b"LMSG foo 2\r\nhi\r\n")
        assert [len(ear.got) for ear in ears] == [3, 0]

    @pytest.mark.parametrize("sharesHubs", [False, True])
    def test_sharedHub(self, sharesHubs: bool) -> None:
        """
        Workers share a hub, which exchanges messages with all of them, but not with other hubs.
        """
        broker = Broker()
        broker.leafs.sharesHubs = sharesHubs
        hub, other = broker.hub(), broker.hub(broker.remote(urls=("nats://127.0.0.1:7778",)))
        other.send(b"LS+ theirs\r\n")
        routed = broker.buses.accounts["A"].busFor(Kind.ROUTE)
        neighbour = LinkRecorder()
        routed.subscribe(b"near", neighbour, b"")
        broker.settle()
        lines = [line for line in hub.lines() if not line.startswith(b"LS+ $LDS")]
        assert lines == ([b"LS+ near"] if sharesHubs else [])
        hub.send(b"LS+ far\r\nLMSG near 2\r\nhi\r\n")
        assert len(neighbour.got) == sharesHubs
        routed.publish(Message(b"far", b"x", origin=neighbour))
        broker.settle()
        assert hub.lines() == ([b"LMSG far 1", b"x"] if sharesHubs else [])

    def test_nearestMember(self) -> None:
        """
        A message for a queue group goes to a local member, or else to one in the cluster, or else
        to a leafnode.
        """
        broker = Broker()
        account = broker.buses.accounts["A"]
        wire, route = broker.spoke(), LinkRecorder()
        wire.send(b"LS+ foo q 9\r\n")
        account.busFor(Kind.ROUTE).subscribe(b"foo", route, b"", b"q")
        wire.take()
        for _ in range(5):
            broker.publish(b"foo")
        assert (len(route.got), wire.lines()) == (5, [])
        member = broker.subscribe(b"foo", b"q")
        broker.publish(b"foo")
        assert (len(route.got), len(member.got)) == (5, 1)

    @pytest.mark.parametrize("cluster, lines", [("", [b"LMSG foo | q 2", b"hi"]), ("C2", [])])
    def test_lastMemberGone(self, cluster: str, lines: list[bytes]) -> None:
        """
        A message for a queue group whose last local member has gone is sent back, unless the hub is
        a member of a cluster, as with nats-server.
        """
        broker = Broker()
        hub = broker.hub(cluster=cluster)
        hub.send(b"LS+ foo q 1\r\n")
        member = broker.subscribe(b"foo", b"q")
        member.subscription.cancel()
        hub.take()
        hub.send(b"LMSG foo | q 2\r\nhi\r\n")
        assert (hub.lines(), member.got) == (lines, [])

    def test_disconnectedLeafnode(self) -> None:
        """A message for a disconnected leafnode is dropped."""
        broker = Broker()
        wire = broker.spoke()
        wire.send(b"LS+ foo\r\n")
        target = wire.leaf.traffic
        wire.transport.hangUp()
        broker.settle()
        assert broker.publish(b"foo") == 0 and target is not None and len(target.interest) == 0

    @pytest.mark.parametrize(
        "line", [b"LS+", b"LS+ a b", b"LS+ a b x", b"LS+ a b 1 2", b"LS-", b"LS- a b c", b"LMSG a"]
    )
    def test_malformedLine(self, line: bytes) -> None:
        """A malformed line ends the connection."""
        wire = Broker().spoke()
        wire.send(line + b" \r\n")
        assert wire.closed == "Protocol Violation"

    def test_loop(self) -> None:
        """A connection over which our own subject for loop detection returns is closed."""
        broker = Broker()
        wire = broker.spoke()
        wire.send(b"LS+ %b\r\n" % broker.leafs.loopSubjectOf("A"))
        (line,) = wire.lines()
        assert line.startswith(b'-ERR \'Loop detected for leafnode account="A"')


class TestOrigin:
    """The object that represents the peer."""

    def test_interfaces(self) -> None:
        """The object for a peer is an origin, and a link that the lane may write to."""
        broker = Broker()
        traffic = broker.spoke().leaf.traffic
        assert traffic is not None
        assert verifyObject(IOutboxLink, traffic.target) and verifyObject(IOrigin, traffic.target)
        assert traffic.target.clientInfo(False).acc == "A"
        assert traffic.target.clientInfo(True).kind == "Leafnode"

    def test_answers(self) -> None:
        """A leafnode with only the permission to answer may answer each of its requests once."""
        broker = Broker()
        grant = Grant("A", publish=PermissionSet(()), responses=ResponsePermission(1, 10.0))
        broker.decider.answer = grant
        ear = broker.subscribe(b">")
        wire = broker.spoke()
        traffic = wire.leaf.traffic
        assert traffic is not None and verifyObject(ILinkSubscriber, traffic.target)
        assert not IOutboxLink.providedBy(traffic.target)
        wire.send(b"LS+ ask\r\n")
        broker.publish(b"ask", reply=b"inbox")
        wire.send(b"LMSG inbox 2\r\nok\r\n")
        assert [message.subject for message, _ in ear.got] == [b"ask", b"inbox"] and wire.isOpen()
        wire.send(b"LMSG inbox 2\r\nok\r\n")
        assert len(ear.got) == 2 and wire.closed == "Protocol Violation"
