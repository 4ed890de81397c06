"""
An account's messages and interest between clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.batches import passOn
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.gateways import IGatewayLink
from natsbroker.accounts.replies import PERIOD
from natsbroker.gateways.policies import SwitchingPolicy
from natsbroker.gateways.tables import INTEREST_ONLY, OPTIMISTIC, InterestTable
from natsbroker.interfaces import ILinkSubscriber, IMessageBus
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.wire.dialects.route import messageFrame
from natsbroker.wire.values import Kind, Message
from tests.support import LinkRecorder, Names, Recorder, Router, onEach, using

HERE = b"_GR_.aaaaaa.111111."


@implementer(IGatewayLink)
class Far:
    """
    Another cluster.

    @ivar heard: the bytes sent to this cluster.
    """

    def __init__(self, hall: Hall, letter: bytes = b"b") -> None:
        self.heard = b""
        self.outbox = hot.Outbox(hall.batch, self, self._write, 1 << 20)
        self.outbox.headers = True
        self.prefix = b"A "
        self.replyPrefix = HERE
        self.gateway = letter.decode()
        self.answers = (b"_GR_.%b." % (letter * 6), b"$GR.%b." % (letter * 4))
        self._batch = hall.batch

    def _write(self, data: bytes) -> None:
        self.heard += data

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        self.outbox.write(messageFrame(b"A", message, queues, True))

    def outboxOverflowed(self) -> None:
        """Unused by these tests."""
        raise AssertionError("too much was put in")

    def outboxFailed(self) -> None:
        """Unused by these tests."""
        raise AssertionError("sending failed")

    def take(self) -> bytes:
        """The messages sent since the last call."""
        self._batch.flush()
        heard, self.heard = self.heard, b""
        return heard


class Hall:
    """
    An account with buses.
    """

    def __init__(self, failed: Callable[[str], None] = passOn) -> None:
        clock: Any = Clock()
        self.clock = clock
        self.batch = hot.FlushBatch(lambda call: None)
        self.account = Account(
            "A",
            Router(),
            AccountDependencies(self.batch, clock=clock, failed=lambda what, text: failed(text)),
        )
        self.gate: Any = self.account.busFor(Kind.GATEWAY)
        self.bus = self.account.busFor(Kind.CLIENT)

    def say(self, subject: bytes, reply: bytes = b"", kind: Kind = Kind.CLIENT) -> int:
        """Publish a message as a client."""
        return self.account.busFor(kind).publish(Message(subject, b"x", reply))


@pytest.fixture
def hall() -> Hall:
    """An account."""
    return Hall()


def wanting(*patterns: bytes, mode: str = INTEREST_ONLY, queue: bytes = b"") -> InterestTable:
    """An interest table of another cluster."""
    table = InterestTable("there", "A", mode)
    for pattern in patterns:
        table.want(pattern, queue)
    return table


class TestTargets:
    """The receivers of messages between clusters."""

    def test_provides(self, hall: Hall) -> None:
        """The bus, the output and the target provide their interfaces."""
        far = Far(hall)
        assert verifyObject(IGatewayLink, far)
        assert verifyObject(IMessageBus, hall.gate)
        assert verifyObject(ILinkSubscriber, hall.gate.openGateway(far, wanting()))

    def test_tableRaises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        An interest table that raises an exception is reported, and all other receivers get the
        message.
        """
        reported: list[str] = []
        hall = Hall(reported.append)
        far, fine, recorder = Far(hall), Far(hall, b"c"), Recorder()
        table = wanting(b"a")

        def fail(subject: bytes) -> Any:
            raise SystemExit

        monkeypatch.setattr(table, "match", fail)
        hall.gate.openGateway(far, table)
        hall.gate.openGateway(fine, wanting(b"a"))
        hall.bus.subscribe(b"a", recorder)
        assert hall.say(b"a") == 2
        assert (far.take(), recorder.bodies) == (b"", [b"x"])
        assert reported == ["The interest table of a gateway failed"]

    def test_wanted(self, hall: Hall) -> None:
        """A message that an interest table wants is sent once, and an unwanted one is not sent."""
        far = Far(hall)
        hall.gate.openGateway(far, wanting(b"a.*", b"a.b"))
        assert [hall.say(b"a.b"), hall.say(b"b")] == [1, 0]
        assert far.take() == b"RMSG A a.b 1\r\nx\r\n"

    @pytest.mark.parametrize(
        ("kind", "reached"),
        [
            (Kind.CLIENT, True),
            (Kind.INTERNAL, True),
            (Kind.ROUTE, False),
            (Kind.GATEWAY, False),
            (Kind.HUB, True),
            (Kind.SPOKE, True),
        ],
    )
    def test_reach(self, hall: Hall, kind: Kind, reached: bool) -> None:
        """
        A message from a member or from another cluster is delivered here and sent nowhere else.
        """
        far = Far(hall)
        hall.gate.openGateway(far, wanting(b"a"))
        hall.say(b"a", kind=kind)
        assert bool(far.take()) is reached

    def test_changes(self, hall: Hall) -> None:
        """A remembered answer is forgotten when the interest table reports a change."""
        far, policy = Far(hall), SwitchingPolicy()
        table = policy.connected("there", "A", False)
        output = hall.gate.openGateway(far, table)
        counts = [hall.say(b"a.b")]
        output.use(policy.lost(table, b"a.b", b""), b"a.b")
        counts.append(hall.say(b"a.b"))
        output.use(policy.gained(table, b"a.*", b""), b"a.*")
        counts.append(hall.say(b"a.b"))
        output.use(policy.accountWanted(table, False))
        counts.append(hall.say(b"a.b"))
        assert counts == [1, 0, 1, 0]
        output.use(wanting(b"a.b"), b"other")
        assert hall.say(b"a.b") == 1

    def test_cancel(self, hall: Hall) -> None:
        """Nothing is sent to a cluster after its output was cancelled."""
        far = Far(hall)
        output = hall.gate.openGateway(far, wanting(b"a"))
        output.cancel()
        output.cancel()
        assert hall.say(b"a") == 0
        assert not hall.bus.hasInterest(b"a")

    def test_hasInterest(self, hall: Hall) -> None:
        """The interest of another cluster counts as interest for messages that can reach it."""
        hall.gate.openGateway(Far(hall), wanting(b"a"))
        assert hall.bus.hasInterest(b"a") and not hall.bus.hasInterest(b"b")
        assert not hall.account.busFor(Kind.ROUTE).hasInterest(b"a")

    def test_twoClusters(self, hall: Hall) -> None:
        """Every cluster that is interested in a message gets it."""
        one, other = Far(hall), Far(hall, b"c")
        hall.gate.openGateway(one, wanting(b"a"))
        hall.gate.openGateway(other, wanting(b"a", b"b"))
        assert [hall.say(b"a"), hall.say(b"b")] == [2, 1]
        assert one.take() == b"RMSG A a 1\r\nx\r\n"
        assert other.take() == b"RMSG A a 1\r\nx\r\nRMSG A b 1\r\nx\r\n"


class TestGroups:
    """Queue groups across clusters."""

    def test_onlyInOtherCluster(self, hall: Hall) -> None:
        """
        A message for a group that has members only in another cluster is sent to that cluster.
        """
        far = Far(hall)
        hall.gate.openGateway(far, wanting(b"a", queue=b"q"))
        assert hall.say(b"a", b"r") == 1
        assert far.take() == b"RMSG A a + r q 1\r\nx\r\n"

    def test_localFirst(self, hall: Hall) -> None:
        """
        A group's member on this broker is preferred, while other clusters with plain interest get
        the message too.
        """
        far, here = Far(hall), Recorder()
        table = wanting(b"a", queue=b"q")
        output = hall.gate.openGateway(far, table)
        mine = hall.bus.subscribe(b"a", here, queue=b"q")
        assert hall.say(b"a") == 1
        assert (far.take(), len(here.got)) == (b"", 1)
        table.want(b"a", b"")
        output.use(table)
        assert hall.say(b"a") == 2
        assert far.take() == b"RMSG A a 1\r\nx\r\n"
        mine.cancel()
        hall.say(b"a")
        assert far.take() == b"RMSG A a | q 1\r\nx\r\n"

    @pytest.mark.parametrize("kind", [Kind.ROUTE, Kind.SPOKE, Kind.HUB])
    def test_clusterFirst(self, hall: Hall, kind: Kind) -> None:
        """
        A group's member elsewhere in this cluster, or behind a leafnode, is preferred to another
        cluster.
        """
        far, route = Far(hall), LinkRecorder()
        hall.gate.openGateway(far, wanting(b"a", queue=b"q"))
        hall.account.busFor(kind).subscribe(b"a", route, queue=b"q")
        for _ in range(20):
            hall.say(b"a")
        assert (far.take(), len(route.got)) == (b"", 20)

    def test_onlyOneCluster(self, hall: Hall) -> None:
        """
        Only the nearest of several clusters with a group's members gets the message, also when
        another one becomes the nearest.
        """
        one, other = Far(hall), Far(hall, b"c")
        near = hall.gate.openGateway(one, wanting(b"a", queue=b"q"))
        far = hall.gate.openGateway(other, wanting(b"a", queue=b"q"))
        near.place(0.01)
        far.place(0.02)
        assert hall.say(b"a") == 1
        assert (one.take(), other.take()) == (b"RMSG A a | q 1\r\nx\r\n", b"")
        near.place(0.03)
        assert hall.say(b"a") == 1
        assert (one.take(), other.take()) == (b"", b"RMSG A a | q 1\r\nx\r\n")
        far.cancel()
        hall.say(b"a")
        assert one.take() == b"RMSG A a | q 1\r\nx\r\n"

    def test_manyGroups(self, hall: Hall) -> None:
        """One message to each cluster serves all its groups, and each group is served once."""
        one, other = Far(hall), Far(hall, b"c")
        table = wanting(b"a", queue=b"q")
        table.want(b"a", b"r")
        hall.gate.openGateway(one, table)
        hall.gate.openGateway(other, wanting(b"a", queue=b"s"))
        assert hall.say(b"a") == 2
        assert one.take() in (b"RMSG A a | q r 1\r\nx\r\n", b"RMSG A a | r q 1\r\nx\r\n")
        assert other.take() == b"RMSG A a | s 1\r\nx\r\n"


class TestArriving:
    """Messages from another cluster."""

    def test_spreads(self, hall: Hall) -> None:
        """
        A message from another cluster goes to clients and members here. Queue groups get it only if
        the sender chose them.
        """
        plain, member, route = Recorder(), Recorder(), LinkRecorder()
        hall.bus.subscribe(b"a", plain)
        hall.bus.subscribe(b"a", member, queue=b"q")
        hall.account.busFor(Kind.ROUTE).subscribe(b"a", route)
        hall.gate.publish(Message(b"a", b"1"))
        hall.gate.publish(Message(b"a", b"2", queues=(b"q",)))
        assert (plain.bodies, member.bodies) == ([b"1", b"2"], [b"2"])
        assert route.got == [(b"1", ()), (b"2", ())]

    def test_isWanted(self, hall: Hall) -> None:
        """
        Only plain interest in this cluster counts as wanting a message, not that of groups or of
        other clusters.
        """
        hall.gate.openGateway(Far(hall), wanting(mode=OPTIMISTIC))
        hall.bus.subscribe(b"group", Recorder(), queue=b"q")
        hall.bus.subscribe(b"plain", Recorder())
        hall.account.busFor(Kind.ROUTE).subscribe(b"route", LinkRecorder())
        asked = [b"nobody", b"group", b"plain", b"route"]
        assert [hall.gate.isWanted(subject) for subject in asked] == [False, False, True, True]

    def test_answer(self, hall: Hall) -> None:
        """A returned reply reaches all interested, groups and other clusters included."""
        member, far = Recorder(), Far(hall)
        hall.bus.subscribe(b"r", member, queue=b"q")
        hall.gate.openGateway(far, wanting(b"r"))
        assert hall.gate.answer(Message(b"r", b"x")) == 2
        assert (member.bodies, far.take()) == ([b"x"], b"RMSG A r 1\r\nx\r\n")


class TestReplies:
    """Reply subjects."""

    def test_recentSubscription(self, hall: Hall) -> None:
        """Replies to a recent subscription are mapped; replies to an older one are not."""
        far = Far(hall)
        hall.gate.openGateway(far, wanting(b"a"))
        hall.bus.subscribe(b"_INBOX.*", Recorder())
        hall.say(b"a", b"_INBOX.x")
        hall.say(b"a", b"elsewhere")
        hall.say(b"a")
        assert far.take() == (
            b"RMSG A a %b_INBOX.x 1\r\nx\r\nRMSG A a elsewhere 1\r\nx\r\nRMSG A a 1\r\nx\r\n" % HERE
        )
        hall.clock.advance(PERIOD)
        hall.clock.advance(PERIOD)
        hall.say(b"a", b"_INBOX.x")
        assert far.take() == b"RMSG A a _INBOX.x 1\r\nx\r\n"
        assert hall.clock.getDelayedCalls() == []

    def test_freshOnRoutes(self, hall: Hall) -> None:
        """
        The reply subject of a request is mapped also if its new subscriber is at another member of
        this cluster.
        """
        far, route = Far(hall), LinkRecorder()
        hall.gate.openGateway(far, wanting(b"a"))
        hall.account.busFor(Kind.ROUTE).subscribe(b"r", route)
        hall.say(b"a", b"r")
        assert far.take() == b"RMSG A a %br 1\r\nx\r\n" % HERE

    def test_debt(self, hall: Hall) -> None:
        """
        An answer to a request from another cluster goes back to that cluster, for a limited time.
        """
        far, third, here = Far(hall), Far(hall, b"c"), Recorder()
        hall.gate.openGateway(far, wanting())
        hall.gate.openGateway(third, wanting(b"r"))
        hall.bus.subscribe(b"a", here)
        hall.bus.subscribe(b"r", here)
        via = b"_GR_.bbbbbb.222222."
        hall.gate.publish(Message(b"a", b"?", b"r", via=via))
        assert here.got[0][0].reply == b"r"
        assert hall.say(b"r") == 1
        assert (far.take(), third.take()) == (b"RMSG A %br 1\r\nx\r\n" % via, b"")
        assert len(here.got) == 1
        hall.clock.advance(PERIOD)
        hall.clock.advance(PERIOD)
        assert hall.say(b"r") == 2
        assert (far.take(), third.take()) == (b"", b"RMSG A r 1\r\nx\r\n")

    @pytest.mark.parametrize("subject", [b"$JS.API.CONSUMER.MSG.NEXT.S.c", b"$JS.API.INFO"])
    def test_pulled(self, hall: Hall, subject: bytes) -> None:
        """An account records whether it has requested messages of streams from other clusters."""
        gateways = hall.account.gateways
        hall.say(subject)
        assert not gateways.hasPulled
        hall.gate.openGateway(Far(hall), wanting(subject))
        hall.say(subject)
        assert gateways.hasPulled is (b"NEXT" in subject)

    def test_debtToHub(self, hall: Hall) -> None:
        """
        A leafnode sends answers back through its hub, and not to peers that receive everything.
        """
        hub, everything = LinkRecorder(), Recorder()
        bus = hall.account.busFor(Kind.HUB)
        bus.subscribe(b"_GR_.>", hub)
        hall.bus.subscribe(b">", everything)
        bus.publish(Message(b"a", b"?", b"r", via=b"_GR_.bbbbbb.222222."))
        assert hall.say(b"r") == 1
        assert (hub.got, everything.bodies) == ([(b"x", ())], [b"?"])

    def test_debtWithOldPrefix(self, hall: Hall) -> None:
        """
        An answer to a request with an old C{$GR} prefix goes back to the cluster of the request
        too.
        """
        far = Far(hall)
        hall.gate.openGateway(far, wanting())
        hall.gate.publish(Message(b"a", b"?", b"r", via=b"$GR.bbbb."))
        hall.say(b"r")
        assert far.take() == b"RMSG A $GR.bbbb.r 1\r\nx\r\n"

    def test_debtOfLostGateway(self, hall: Hall) -> None:
        """
        If the gateway connection of a request is lost, local subscribers still get the answer.
        """
        far, here = Far(hall), Recorder()
        output = hall.gate.openGateway(far, wanting())
        hall.bus.subscribe(b"r", here)
        hall.gate.publish(Message(b"a", b"?", b"r", via=b"_GR_.bbbbbb.222222."))
        output.cancel()
        assert (hall.say(b"r"), far.take(), here.bodies) == (1, b"", [b"x"])

    def test_answerToAnswer(self, hall: Hall) -> None:
        """A returned reply that has a reply subject of its own has that one mapped."""
        far = Far(hall)
        hall.gate.openGateway(far, wanting())
        hall.gate.publish(Message(b"a", b"?", b"r", via=b"_GR_.bbbbbb.222222."))
        hall.bus.subscribe(b"more", Recorder())
        hall.say(b"r", b"more")
        assert far.take() == b"RMSG A _GR_.bbbbbb.222222.r %bmore 1\r\nx\r\n" % HERE

    def test_close(self, hall: Hall) -> None:
        """No timer is left after an account is closed."""
        hall.gate.openGateway(Far(hall), wanting())
        hall.bus.subscribe(b"r", Recorder())
        hall.gate.publish(Message(b"a", b"?", b"r", via=b"$GR.bbbb."))
        hall.account.gateways.close()
        assert hall.clock.getDelayedCalls() == []


@onEach
class TestRemembered:
    """Answers of interest tables that the matcher remembers, pure and compiled."""

    def test_literal(self, names: Names) -> None:
        """
        An interest table's refusal of one subject leaves the remembered answers for other subjects.
        """
        with using(names):
            hall, policy = Hall(), SwitchingPolicy()
            table = policy.connected("there", "A", False)
            output = hall.gate.openGateway(Far(hall), table)
            subjects = [b"s.%d" % number for number in range(50)]
            assert [hall.say(subject) for subject in subjects] == [1] * 50
            before = hall.account.matcher.misses
            output.use(policy.lost(table, b"s.7", b""), b"s.7")
            assert [hall.say(subject) for subject in subjects] == [1] * 7 + [0] + [1] * 42
            assert hall.account.matcher.misses - before < 10


class TestKnown:
    """Interest in other clusters, as leafnodes learn of it."""

    def test_newWatcher(self, hall: Hall) -> None:
        """
        A new watcher learns the known interest. While a cluster's list is incomplete, that is every
        subject.
        """
        told: dict[tuple[bytes, bytes], int] = {}
        watcher: Any = Watcher(told)
        policy = SwitchingPolicy()
        beyond = InterestFilter({Kind.CLIENT, Kind.GATEWAY})
        early = wanting(b"early")
        hall.gate.openGateway(Far(hall, b"c"), early)
        stop = hall.bus.watchInterest(watcher, beyond)
        mapped = {(b"_GR_.>", b""), (b"$GR.>", b"")}
        assert set(told) == {(b"early", b""), *mapped}
        table = policy.connected("there", "A", False)
        output = hall.gate.openGateway(Far(hall), table)
        assert set(told) == {(b"early", b""), (b">", b""), *mapped}
        output.use(policy.gained(table, b"a", b"q"), b"a", b"q")
        assert (b"a", b"q") in told
        output.use(policy.accountWanted(table, False))
        assert (b">", b"") not in told
        output.use(policy.gained(table, b"b", b""), b"b", b"")
        assert (b">", b"") in told and (b"b", b"") not in told
        output.use(policy.listed(table, False))
        output.use(policy.gained(table, b"c.*", b""), b"c.*", b"")
        output.use(policy.listed(table, True))
        assert set(told) == {(b"early", b""), (b"a", b"q"), (b"c.*", b""), *mapped}
        output.use(policy.lost(table, b"c.*", b""), b"c.*", b"")
        output.use(policy.gained(table, b">", b""), b">", b"")
        assert set(told) == {(b"early", b""), (b"a", b"q"), (b">", b""), *mapped}
        output.cancel()
        assert set(told) == {(b"early", b""), *mapped}
        stop()

    def test_linksDoNotLearn(self, hall: Hall) -> None:
        """
        Members of this cluster, and other clusters, do not learn of interest in another cluster.
        """
        told: dict[tuple[bytes, bytes], int] = {}
        watcher: Any = Watcher(told)
        hall.bus.watchInterest(watcher)
        hall.gate.openGateway(Far(hall), wanting(b"a"))
        assert told == {}


class Watcher:
    """A watcher that records the interest."""

    def __init__(self, told: dict[tuple[bytes, bytes], int]) -> None:
        self._told = told

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        assert (pattern, queue) not in self._told
        self._told[pattern, queue] = weight

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        raise AssertionError("only plain interest is expected")

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        del self._told[pattern, queue]
