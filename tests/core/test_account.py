"""
The message bus of an account: who gets what.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker import hot
from natsbroker.core.account import Account
from natsbroker.core.reach import reaches
from natsbroker.interfaces import (
    IMessageBus,
    IOutboxSubscriber,
    IPublishFilter,
    ISubscription,
)
from natsbroker.subjects.grammar import matches
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.values import EVERY_GROUP, GroupMessage, Kind, Message
from tests.subjects.strategies import DELIVERABLE, PATTERNS
from tests.support import (
    BatchRecorder,
    LinkRecorder,
    Names,
    Recorder,
    Router,
    WatchRecorder,
    onEach,
    using,
)

LINKS = [Kind.ROUTE, Kind.GATEWAY, Kind.HUB, Kind.SPOKE]
OURS = [Kind.CLIENT, Kind.INTERNAL]


@implementer(IOutboxSubscriber)
class Connection(Recorder):
    """
    A subscriber with an outbox, as client sessions are.
    """

    def __init__(self, turn: Any) -> None:
        super().__init__()
        self.outbox = hot.Outbox(turn, self, lambda data: None, 1 << 20)

    def outboxOverflowed(self) -> None:
        """Not in these tests."""
        raise AssertionError("too much was put in")

    def outboxFailed(self) -> None:
        """Not in these tests."""
        raise AssertionError("sending failed")


class Hall:
    """
    An account with its doors.
    """

    def __init__(self, seed: int = 1) -> None:
        self.soon: list[Any] = []
        self.failures: list[str] = []
        self.turn = hot.Turn(self.soon.append)
        self.router = Router()
        self.account = Account(
            "A", self.router, self.turn, Random(seed), failed=self.failures.append
        )
        self.bus = self.account.busFor(Kind.CLIENT)

    def door(self, kind: Kind) -> Any:
        """The bus for a kind of origin."""
        return self.account.busFor(kind)

    def publish(
        self, subject: bytes, body: bytes = b"", kind: Kind = Kind.CLIENT, **more: Any
    ) -> int:
        """Publish as if from some kind of origin."""
        count: int = self.account.busFor(kind).publish(Message(subject, body, **more))
        return count


@pytest.fixture
def hall(names: Names) -> Iterator[Hall]:
    """An account of the implementation under test."""
    with using(names):
        yield Hall()


@onEach
class TestPlain:
    """Plain subscriptions."""

    def test_provides(self, hall: Hall) -> None:
        """A door and a subscription keep their contracts."""
        assert verifyObject(IMessageBus, hall.bus)
        subscription = hall.bus.subscribe(b"foo", Recorder(), b"1", b"q")
        assert (subscription.pattern, subscription.queue) == (b"foo", b"q")
        for name in ISubscription.names():
            assert hasattr(subscription, name)

    def test_everyMatch(self, hall: Hall) -> None:
        """A message reaches every subscription that matches, once for each, with its tag."""
        recorder = Recorder()
        for tag, pattern in enumerate([b"a.b", b"a.*", b">", b"a.b.c", b"b"]):
            hall.bus.subscribe(pattern, recorder, tag)
        assert hall.publish(b"a.b", b"x") == 3
        assert sorted(recorder.tags) == [0, 1, 2]
        assert recorder.bodies == [b"x"] * 3

    def test_nobody(self, hall: Hall) -> None:
        """A message that nobody wants reaches nobody."""
        hall.bus.subscribe(b"foo", Recorder())
        assert hall.publish(b"bar") == 0

    def test_sameMessage(self, hall: Hall) -> None:
        """Everybody gets the very message that was published."""
        one, two = Recorder(), Recorder()
        hall.bus.subscribe(b"foo", one)
        hall.bus.subscribe(b"foo", two)
        message = Message(b"foo", b"x", b"reply")
        hall.bus.publish(message)
        assert one.got[0][0] is two.got[0][0] is message

    @pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b", b"a.\x00", b"a\n"])
    def test_malformedSubject(self, hall: Hall, subject: bytes) -> None:
        """A message whose subject is malformed reaches nobody, not even those who want all."""
        hall.bus.subscribe(b">", Recorder())
        assert hall.publish(subject) == 0
        assert not hall.bus.hasInterest(subject)

    def test_wildcardsInASubjectAreLiteral(self, hall: Hall) -> None:
        """A message to a pattern reaches those whose pattern covers that text, and no others."""
        recorder = Recorder()
        for pattern in (b"foo.*", b"foo.bar", b">"):
            hall.bus.subscribe(pattern, recorder, pattern)
        hall.publish(b"foo.*")
        assert sorted(recorder.tags) == [b">", b"foo.*"]

    @pytest.mark.parametrize("pattern", [b"", b".", b"a.", b"a..b", b"a.>.b", b"a b", b"a\r"])
    def test_invalidPattern(self, hall: Hall, pattern: bytes) -> None:
        """A pattern that is no valid subject is refused and leaves nothing behind."""
        with pytest.raises(ValueError, match="not a valid subject"):
            hall.bus.subscribe(pattern, Recorder())
        assert len(hall.account) == 0

    def test_accountsAreApart(self, hall: Hall) -> None:
        """Nothing passes from one account to another."""
        other, recorder = Hall(), Recorder()
        other.bus.subscribe(b">", recorder)
        assert hall.publish(b"foo") == 0
        assert recorder.got == []

    def test_publishingFromADelivery(self, hall: Hall) -> None:
        """A subscriber may publish while it gets a message."""
        answers = Recorder()
        responder = Recorder(lambda message: hall.publish(message.reply, message.body + b"!"))
        hall.bus.subscribe(b"ask", responder)
        hall.bus.subscribe(b"answer", answers)
        hall.publish(b"ask", b"hi", reply=b"answer")
        assert answers.bodies == [b"hi!"]

    def test_raising(self, hall: Hall) -> None:
        """A subscriber that raises is told of; the others get the message, and so does it again."""
        failing, others = Recorder(lambda message: 1 // 0), Recorder()
        hall.bus.subscribe(b"foo", failing)
        hall.bus.subscribe(b"*", others)
        assert [hall.publish(b"foo"), hall.publish(b"foo")] == [2, 2]
        assert (len(failing.got), len(others.got)) == (2, 2)
        assert hall.failures == ["The subscriber to b'foo' failed"] * 2

    def test_routerRaises(self, hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
        """A router that raises when it should remove is reported, and the interest is gone."""
        watcher, recorder = WatchRecorder(), Recorder()
        hall.bus.watchInterest(watcher)
        subscription = hall.bus.subscribe(b"foo", recorder)

        def fail(pattern: bytes, entry: object) -> bool:
            raise SystemExit

        monkeypatch.setattr(hall.router, "remove", fail)
        subscription.cancel()
        assert hall.failures == ["The router failed to remove a subscription"]
        assert watcher.told == [("+", b"foo", b"", 1), ("-", b"foo", b"", 0)]
        assert (hall.publish(b"foo"), recorder.got) == (0, [])

    def test_endRaises(self, hall: Hall) -> None:
        """A subscriber that raises when its subscription has ended is reported."""

        class Failing(Recorder):
            def subscriptionEnded(self, tag: Any) -> None:
                raise SystemExit

        hall.bus.subscribe(b"foo", Failing()).cancelAfter(1)
        assert [hall.publish(b"foo"), hall.publish(b"foo")] == [1, 0]
        assert hall.failures == ["The subscriber to b'foo' failed"]

    def test_subscribingFromADelivery(self, hall: Hall) -> None:
        """Who subscribes during a delivery gets the next message, not this one."""
        late = Recorder()
        eager = Recorder(lambda message: late.got or hall.bus.subscribe(b"foo", late))
        hall.bus.subscribe(b"foo", eager)
        hall.publish(b"foo", b"1")
        assert late.bodies == []
        hall.publish(b"foo", b"2")
        assert late.bodies == [b"2"]

    def test_cancellingOthersFromADelivery(self, hall: Hall) -> None:
        """Who is cancelled during a delivery gets nothing any more, not even this message."""
        subscriptions: list[Any] = []
        recorders = [
            Recorder(lambda message: [each.cancel() for each in subscriptions]) for _ in range(5)
        ]
        subscriptions += [hall.bus.subscribe(b"foo", each) for each in recorders]
        assert hall.publish(b"foo") == 1
        assert sum(len(each.got) for each in recorders) == 1

    def test_changesShowAtOnce(self, hall: Hall) -> None:
        """A subject that was matched before is matched afresh after a change."""
        recorder = Recorder()
        for _ in range(3):
            assert hall.publish(b"a.b") == 0
            subscription = hall.bus.subscribe(b"a.*", recorder)
            assert hall.publish(b"a.b") == 1
            subscription.cancel()
        assert hall.publish(b"a.b") == 0

    def test_lists(self, hall: Hall) -> None:
        """An account counts and lists its subscriptions."""
        made = [
            hall.bus.subscribe(b"a", Recorder()),
            hall.bus.subscribe(b"b", Recorder(), b"", b"q"),
        ]
        assert len(hall.account) == 2
        assert {id(each) for each in hall.account.subscriptions()} == {id(each) for each in made}


@onEach
class TestEnding:
    """How subscriptions end."""

    def test_cancel(self, hall: Hall) -> None:
        """A cancelled subscription gets nothing more and is not said to have ended by itself."""
        recorder = Recorder()
        subscription = hall.bus.subscribe(b"foo", recorder, "tag")
        subscription.cancel()
        subscription.cancel()
        assert hall.publish(b"foo") == 0
        assert (recorder.ended, len(hall.account)) == ([], 0)

    def test_cancelAfter(self, hall: Hall) -> None:
        """A subscription with a maximum gets so many messages in all, and then ends."""
        recorder = Recorder()
        subscription = hall.bus.subscribe(b"foo", recorder, "tag")
        hall.publish(b"foo", b"1")
        subscription.cancelAfter(3)
        counts = [hall.publish(b"foo", body) for body in (b"2", b"3", b"4")]
        assert counts == [1, 1, 0]
        assert recorder.bodies == [b"1", b"2", b"3"]
        assert (recorder.ended, len(hall.account)) == (["tag"], 0)

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_cancelAfterTheFact(self, hall: Hall, count: int) -> None:
        """A maximum that is reached already ends the subscription at once, without a word."""
        recorder = Recorder()
        subscription = hall.bus.subscribe(b"foo", recorder, "tag")
        hall.publish(b"foo")
        hall.publish(b"foo")
        subscription.cancelAfter(count)
        assert hall.publish(b"foo") == 0
        assert recorder.ended == []

    @pytest.mark.parametrize(("first", "second", "gets"), [(2, 4, 4), (4, 2, 2), (3, 3, 3)])
    def test_lastMaximumCounts(self, hall: Hall, first: int, second: int, gets: int) -> None:
        """A later maximum replaces an earlier one, be it greater or less."""
        recorder = Recorder()
        subscription = hall.bus.subscribe(b"foo", recorder)
        hall.publish(b"foo")
        subscription.cancelAfter(first)
        subscription.cancelAfter(second)
        for _ in range(6):
            hall.publish(b"foo")
        assert len(recorder.got) == gets

    def test_subscribingAgainAtTheEnd(self, hall: Hall) -> None:
        """A subscriber that is told of the end may subscribe again then."""

        class Loyal(Recorder):
            def subscriptionEnded(self, tag: Any) -> None:
                super().subscriptionEnded(tag)
                hall.bus.subscribe(b"foo", self, tag + 1)

        loyal = Loyal()
        hall.bus.subscribe(b"foo", loyal, 0).cancelAfter(1)
        for _ in range(3):
            hall.publish(b"foo")
        assert (loyal.tags, loyal.ended) == ([0, 1, 1], [0])

    def test_groupMaximum(self, hall: Hall) -> None:
        """A member of a queue group with a maximum leaves the group when it has it."""
        brief, steady = Recorder(), Recorder()
        hall.bus.subscribe(b"foo", brief, b"1", b"q").cancelAfter(2)
        hall.bus.subscribe(b"foo", steady, b"2", b"q")
        for _ in range(30):
            hall.publish(b"foo")
        assert (len(brief.got), len(steady.got)) == (2, 28)


@onEach
class TestQueueGroups:
    """Queue groups."""

    def test_oneMember(self, hall: Hall) -> None:
        """Of each group exactly one member gets a message; plain subscriptions get it too."""
        plain = Recorder()
        members = {queue: [Recorder() for _ in range(3)] for queue in (b"q", b"r")}
        hall.bus.subscribe(b"foo", plain)
        for queue, recorders in members.items():
            for each in recorders:
                hall.bus.subscribe(b"foo", each, b"", queue)
        for number in range(1, 101):
            assert hall.publish(b"foo") == 3
            assert len(plain.got) == number
            for recorders in members.values():
                assert sum(len(each.got) for each in recorders) == number

    def test_everyMemberGetsSome(self, hall: Hall) -> None:
        """In the long run all members share."""
        members = [Recorder() for _ in range(4)]
        for each in members:
            hall.bus.subscribe(b"foo", each, b"", b"q")
        for _ in range(400):
            hall.publish(b"foo")
        assert all(len(each.got) > 50 for each in members)

    def test_oneGroupOnSeveralPatterns(self, hall: Hall) -> None:
        """A group whose members match by different patterns is still one group."""
        recorder = Recorder()
        hall.bus.subscribe(b"foo.*", recorder, 1, b"q")
        hall.bus.subscribe(b"foo.>", recorder, 2, b"q")
        for _ in range(20):
            assert hall.publish(b"foo.bar") == 1
        assert set(recorder.tags) == {1, 2}

    def test_membersThatCannotTakeIt(self, hall: Hall) -> None:
        """A member whose outbox is closed is passed over."""
        closed, open_ = Connection(hall.turn), Connection(hall.turn)
        hall.bus.subscribe(b"foo", closed, b"1", b"q")
        hall.bus.subscribe(b"foo", open_, b"2", b"q")
        closed.outbox.close()
        for _ in range(20):
            assert hall.publish(b"foo") == 1
        assert (len(closed.got), len(open_.got)) == (0, 20)

    def test_repeatable(self, hall: Hall) -> None:
        """With the same seed the same members are chosen."""
        choices = []
        for _ in range(2):
            other, recorder = Hall(seed=7), Recorder()
            for tag in range(5):
                other.bus.subscribe(b"foo", recorder, tag, b"q")
            for _ in range(30):
                other.publish(b"foo")
            choices.append(recorder.tags)
        assert choices[0] == choices[1]
        assert len(set(choices[0])) == 5


@onEach
class TestConnections:
    """Subscribers with an outbox."""

    def test_echo(self, hall: Hall) -> None:
        """A connection gets its own messages unless it does not want them."""
        connection = Connection(hall.turn)
        hall.bus.subscribe(b"foo", connection, b"1")
        assert hall.publish(b"foo", origin=connection) == 1
        connection.outbox.echo = False
        assert hall.publish(b"foo", origin=connection) == 0
        assert hall.publish(b"foo", origin=object()) == 1
        assert len(connection.got) == 2

    def test_echoInGroups(self, hall: Hall) -> None:
        """A member that published and wants no echo is never chosen."""
        publisher, other = Connection(hall.turn), Connection(hall.turn)
        publisher.outbox.echo = False
        for each in (publisher, publisher, other):
            hall.bus.subscribe(b"foo", each, b"1", b"q")
        for _ in range(20):
            assert hall.publish(b"foo", origin=publisher) == 1
        assert len(other.got) == 20

    def test_closedOutbox(self, hall: Hall) -> None:
        """A connection whose outbox is closed gets nothing and does not count."""
        connection = Connection(hall.turn)
        hall.bus.subscribe(b"foo", connection, b"1")
        connection.outbox.close()
        assert hall.publish(b"foo") == 0
        assert connection.got == []

    def test_filteredDeliveries(self, hall: Hall) -> None:
        """A subscription with permissions is not given what they deny; it does not count."""
        connection = Connection(hall.turn)
        subscription: Any = hall.bus.subscribe(b"foo.*", connection, b"1")
        subscription.permissions = SubscribePermissions(deny=[b"foo.secret"])
        assert hall.publish(b"foo.secret") == 0
        assert hall.publish(b"foo.open") == 1
        subscription.permissions = None
        assert hall.publish(b"foo.secret") == 1
        assert len(connection.got) == 2

    def test_filteredMember(self, hall: Hall) -> None:
        """A member of a group that may not have a message leaves it to another."""
        one, other = Connection(hall.turn), Connection(hall.turn)
        subscription: Any = hall.bus.subscribe(b"foo.*", one, b"1", b"q")
        subscription.permissions = SubscribePermissions(deny=[b"foo.secret q"])
        hall.bus.subscribe(b"foo.*", other, b"1", b"q")
        for _ in range(20):
            assert hall.publish(b"foo.secret") == 1
        assert len(other.got) == 20


@onEach
class TestBatches:
    """Subscribers that want everything of a turn at once."""

    def test_atTheEndOfTheTurn(self, hall: Hall) -> None:
        """What a turn brings comes in one call when it ends, in order, from all subscriptions."""
        recorder = BatchRecorder()
        hall.bus.subscribe(b"foo", recorder, 1)
        hall.bus.subscribe(b"bar", recorder, 2)
        hall.turn.enter()
        for subject, body in [(b"foo", b"1"), (b"bar", b"2"), (b"foo", b"3")]:
            assert hall.publish(subject, body) == 1
        assert recorder.batches == []
        hall.turn.leave()
        assert recorder.batches == [[b"1", b"2", b"3"]]
        assert recorder.tags == [1, 2, 1]

    def test_raising(self, hall: Hall) -> None:
        """One that raises is told of, and whoever published does not notice."""

        class Failing(BatchRecorder):
            def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
                super().deliverMany(messages)
                raise ZeroDivisionError

        failing, other = Failing(), BatchRecorder()
        hall.bus.subscribe(b"foo", failing)
        hall.bus.subscribe(b"foo", other)
        hall.turn.enter()
        hall.publish(b"foo", b"1")
        hall.turn.leave()
        assert failing.batches == other.batches == [[b"1"]]
        assert hall.failures == ["A batch subscriber failed"]

    def test_everyTurn(self, hall: Hall) -> None:
        """Each turn that brings something is one batch; a turn that brings nothing is none."""
        recorder = BatchRecorder()
        hall.bus.subscribe(b"foo", recorder)
        for bodies in ([b"1"], [], [b"2", b"3"]):
            hall.turn.enter()
            for body in bodies:
                hall.publish(b"foo", body)
            hall.turn.leave()
        assert recorder.batches == [[b"1"], [b"2", b"3"]]

    def test_outsideOfTurns(self, hall: Hall) -> None:
        """What is published outside of any turn comes soon, not at once."""
        recorder = BatchRecorder()
        hall.bus.subscribe(b"foo", recorder)
        hall.publish(b"foo", b"1")
        hall.publish(b"foo", b"2")
        assert recorder.batches == []
        while hall.soon:
            hall.soon.pop(0)()
        assert recorder.batches == [[b"1", b"2"]]

    def test_theEndComesLast(self, hall: Hall) -> None:
        """Messages come before the news that their subscription has ended."""
        events: list[object] = []

        class Ordered(BatchRecorder):
            def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
                events.append([message.body for message, _ in messages])

            def subscriptionEnded(self, tag: Any) -> None:
                events.append(tag)

        hall.bus.subscribe(b"foo", Ordered(), "tag").cancelAfter(2)
        hall.turn.enter()
        for body in (b"1", b"2", b"3"):
            hall.publish(b"foo", body)
        hall.turn.leave()
        assert events == [[b"1", b"2"], "tag"]

    def test_publishingFromABatch(self, hall: Hall) -> None:
        """What a batch subscriber publishes belongs to the same turn."""
        heard = BatchRecorder()

        class Speaker(BatchRecorder):
            def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
                for message, _ in messages:
                    hall.publish(b"bar", message.body)

        hall.bus.subscribe(b"foo", Speaker())
        hall.bus.subscribe(b"bar", heard)
        hall.turn.enter()
        hall.publish(b"foo", b"1")
        hall.publish(b"foo", b"2")
        hall.turn.leave()
        assert heard.batches == [[b"1", b"2"]]

    def test_isForgotten(self, hall: Hall) -> None:
        """A batch subscriber is not kept alive by subscriptions that have ended."""
        recorder = BatchRecorder()
        subscription = hall.bus.subscribe(b"foo", recorder)
        hall.turn.enter()
        hall.publish(b"foo")
        hall.turn.leave()
        subscription.cancel()
        gone = ref(recorder)
        del recorder, subscription
        hall.publish(b"foo")
        gc.collect()
        assert gone() is None


@onEach
class TestLinks:
    """Other brokers as receivers."""

    @pytest.mark.parametrize("origin", Kind)
    @pytest.mark.parametrize("target", Kind)
    def test_reach(self, hall: Hall, origin: Kind, target: Kind) -> None:
        """A message goes from one kind to another exactly as the forwarding rules say."""
        receiver: Any = LinkRecorder() if target in LINKS else Recorder()
        hall.door(target).subscribe(b"foo", receiver, b"1")
        expected = int(reaches(origin, target))
        assert hall.door(origin).hasInterest(b"foo") is bool(expected)
        assert hall.publish(b"foo", kind=origin) == expected
        assert len(receiver.got) == expected

    def test_once(self, hall: Hall) -> None:
        """A link gets a message once, however many of its subscriptions match."""
        link, other = LinkRecorder(), LinkRecorder()
        for pattern in (b"a.b", b"a.*", b">"):
            hall.door(Kind.ROUTE).subscribe(pattern, link)
        hall.door(Kind.ROUTE).subscribe(b"a.b", other)
        assert hall.publish(b"a.b", b"x") == 2
        assert link.got == other.got == [(b"x", ())]

    def test_neverBack(self, hall: Hall) -> None:
        """A message does not go back over the link that it came from."""
        link = LinkRecorder()
        hall.door(Kind.SPOKE).subscribe(b"foo", link)
        hall.door(Kind.SPOKE).subscribe(b"foo", link, b"", b"q")
        assert hall.publish(b"foo", kind=Kind.SPOKE, origin=link, queues=(b"r",)) == 0
        assert link.got == []

    @pytest.mark.parametrize("kind", [Kind.ROUTE, Kind.HUB, Kind.SPOKE])
    def test_lastMemberGone(self, hall: Hall, kind: Kind) -> None:
        """
        What another server sent for a queue group is handed over when the last member here is gone.
        """
        member, sender, other = Recorder(), LinkRecorder(), LinkRecorder()
        subscription = hall.bus.subscribe(b"foo", member, b"", b"q")
        for each in (sender, other):
            hall.door(kind).subscribe(b"foo", each, b"", b"q")
        chosen: Any = {"kind": kind, "origin": sender, "queues": (b"q",)}
        hall.publish(b"foo", b"1", **chosen)
        subscription.cancel()
        hall.publish(b"foo", b"2", **chosen)
        assert (member.bodies, other.got, sender.got) == ([b"1"], [(b"2", (b"q",))], [])

    def test_mappedHere(self, hall: Hall) -> None:
        """Where the sender could not choose the group, since the subject is ours, it stays here."""
        link = LinkRecorder()
        hall.door(Kind.HUB).subscribe(b"foo", link, b"", b"q")
        assert hall.publish(b"foo", kind=Kind.HUB, origin=link, queues=EVERY_GROUP) == 0
        assert link.got == []

    def test_cancelledOnTheWay(self, hall: Hall) -> None:
        """A link whose subscription ends while a message is delivered here does not get it."""
        link = LinkRecorder()
        subscription = hall.door(Kind.ROUTE).subscribe(b"foo", link)
        hall.bus.subscribe(b"foo", Recorder(lambda message: subscription.cancel()))
        assert hall.publish(b"foo") == 1
        assert link.got == []

    def test_localMembersFirst(self, hall: Hall) -> None:
        """A group with a member here is served here."""
        here, link = Recorder(), LinkRecorder()
        hall.bus.subscribe(b"foo", here, b"", b"q")
        hall.door(Kind.ROUTE).subscribe(b"foo", link, b"", b"q", weight=100)
        for _ in range(20):
            assert hall.publish(b"foo") == 1
        assert (len(here.got), link.got) == (20, [])

    def test_remoteMember(self, hall: Hall) -> None:
        """A group without a member here is served by one link, which is told the group."""
        links = [LinkRecorder() for _ in range(3)]
        for each in links:
            hall.door(Kind.ROUTE).subscribe(b"foo", each, b"", b"q")
        for number in range(1, 31):
            assert hall.publish(b"foo", b"x") == 1
            assert sum(len(each.got) for each in links) == number
        assert all(each.got for each in links)
        assert {got for each in links for got in each.got} == {(b"x", (b"q",))}

    def test_weights(self, hall: Hall) -> None:
        """A link with more members over there is chosen more often."""
        light, heavy = LinkRecorder(), LinkRecorder()
        hall.door(Kind.ROUTE).subscribe(b"foo", light, b"", b"q", weight=1)
        hall.door(Kind.ROUTE).subscribe(b"foo", heavy, b"", b"q", weight=9)
        for _ in range(200):
            hall.publish(b"foo")
        assert 5 < len(light.got) < 50 < len(heavy.got)

    def test_plainAndQueuesInOne(self, hall: Hall) -> None:
        """Plain interest and chosen groups of one link are one message with all the groups."""
        link = LinkRecorder()
        for queue in (b"", b"q", b"r"):
            hall.door(Kind.ROUTE).subscribe(b"foo", link, b"", queue)
        assert hall.publish(b"foo", b"x") == 1
        [(body, queues)] = link.got
        assert (body, sorted(queues)) == (b"x", [b"q", b"r"])

    def test_closedOutboxesHereLeaveItToLinks(self, hall: Hall) -> None:
        """Where no member here can take a message, a link is chosen."""
        here, link = Connection(hall.turn), LinkRecorder()
        hall.bus.subscribe(b"foo", here, b"1", b"q")
        hall.door(Kind.ROUTE).subscribe(b"foo", link, b"", b"q")
        here.outbox.close()
        assert hall.publish(b"foo", b"x") == 1
        assert link.got == [(b"x", (b"q",))]

    @pytest.mark.parametrize("kind", LINKS)
    def test_directed(self, hall: Hall, kind: Kind) -> None:
        """A message from a link reaches one member of just those groups that its sender chose."""
        plain, chosen, other = Recorder(), Recorder(), Recorder()
        hall.bus.subscribe(b"foo", plain)
        for _ in range(2):
            hall.bus.subscribe(b"foo", chosen, b"", b"q")
            hall.bus.subscribe(b"foo", other, b"", b"r")
        assert hall.publish(b"foo", kind=kind, queues=(b"q", b"unknown")) == 2
        assert (len(plain.got), len(chosen.got), len(other.got)) == (1, 1, 0)

    def test_forGroupsAlone(self, hall: Hall) -> None:
        """A message for groups reaches one member of each, and nobody without a group."""
        plain, chosen, other = Recorder(), Recorder(), Recorder()
        links = [LinkRecorder(), LinkRecorder()]
        hall.bus.subscribe(b"foo", plain)
        for _ in range(2):
            hall.bus.subscribe(b"foo", chosen, b"", b"q")
            hall.bus.subscribe(b"foo", other, b"", b"r")
        for link in links:
            hall.door(Kind.SPOKE).subscribe(b"foo", link, b"")
        hall.door(Kind.SPOKE).subscribe(b"foo", links[1], b"", b"s")
        door = hall.door(Kind.ROUTE)
        assert door.publish(GroupMessage(b"foo", queues=(b"q", b"unknown"))) == 1
        assert (len(plain.got), len(chosen.got), len(other.got)) == (0, 1, 0)
        assert door.publish(GroupMessage(b"foo", queues=(b"s",))) == 1
        assert [len(link.got) for link in links] == [0, 1]

    def test_filteredForGroupsAlone(self, hall: Hall) -> None:
        """It stays so when a filter puts another message in its place."""
        plain, chosen = Recorder(), Recorder()
        hall.bus.subscribe(b"foo", plain)
        hall.bus.subscribe(b"foo", chosen, b"", b"q")

        @implementer(IPublishFilter)
        class Filter:
            """Replaces every message."""

            def filterMessage(self, message: Message, kind: int) -> Message:
                """See L{IPublishFilter.filterMessage}."""
                return Message(message.subject, b"other")

        hall.account.addFilter(Filter())
        hall.door(Kind.ROUTE).publish(GroupMessage(b"foo", queues=(b"q",)))
        assert (plain.bodies, chosen.bodies) == ([], [b"other"])

    @pytest.mark.parametrize("kind", LINKS)
    def test_undirected(self, hall: Hall, kind: Kind) -> None:
        """A message from a link without chosen groups reaches plain subscriptions only."""
        plain, member = Recorder(), Recorder()
        hall.bus.subscribe(b"foo", plain)
        hall.bus.subscribe(b"foo", member, b"", b"q")
        assert hall.publish(b"foo", kind=kind) == 1
        assert (len(plain.got), len(member.got)) == (1, 0)

    def test_groupsOutOfReach(self, hall: Hall) -> None:
        """A group whose members are all out of reach gets nothing."""
        link = LinkRecorder()
        hall.door(Kind.GATEWAY).subscribe(b"foo", link, b"", b"q")
        assert not hall.door(Kind.ROUTE).hasInterest(b"foo")
        assert hall.publish(b"foo", kind=Kind.ROUTE, queues=(b"q",)) == 0
        assert link.got == []

    @pytest.mark.parametrize("kind", [*LINKS, *OURS, Kind.LOCAL])
    @pytest.mark.parametrize("queue", [b"", b"q"])
    def test_local(self, hall: Hall, kind: Kind, queue: bytes) -> None:
        """Who answers for this broker alone hears its own clients and services, and no link."""
        recorder, isHeard = Recorder(), kind not in LINKS
        hall.door(Kind.LOCAL).subscribe(b"foo", recorder, b"", queue)
        queues = (b"q",) if kind in LINKS else None
        assert hall.publish(b"foo", kind=kind, queues=queues) == isHeard
        assert (len(recorder.got), hall.door(kind).hasInterest(b"foo")) == (isHeard, isHeard)

    def test_localConnection(self, hall: Hall) -> None:
        """Lanes, which do not ask where a message comes from, leave such a connection alone."""
        connection = Connection(hall.turn)
        hall.door(Kind.LOCAL).subscribe(b"foo", connection, b"1")
        assert hall.publish(b"foo", b"no", kind=Kind.ROUTE) == 0
        assert hall.door(Kind.INTERNAL).post(b"foo", b"yes") == 1
        assert (connection.bodies, connection.outbox.pending) == ([b"yes"], 0)

    @pytest.mark.parametrize("kind", LINKS)
    def test_localStays(self, hall: Hall, kind: Kind) -> None:
        """What somebody publishes who answers for this broker alone goes over no link."""
        link, here = LinkRecorder(), Recorder()
        hall.door(kind).subscribe(b"foo", link, b"", b"")
        hall.bus.subscribe(b"foo", here)
        assert hall.publish(b"foo", kind=Kind.LOCAL) == 1
        assert (len(here.got), link.got) == (1, [])

    def test_interestOfGroups(self, hall: Hall) -> None:
        """There is interest where only a group has it, here or over a link in reach."""
        hall.bus.subscribe(b"here", Recorder(), b"", b"q")
        hall.door(Kind.ROUTE).subscribe(b"there", LinkRecorder(), b"", b"q")
        assert hall.bus.hasInterest(b"here")
        assert hall.bus.hasInterest(b"there")
        assert not hall.bus.hasInterest(b"nowhere")


@implementer(IPublishFilter)
class Filter:
    """
    A filter that drops, changes, or passes.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Kind]] = []

    def filterMessage(self, message: Message, kind: int) -> Message | None:
        """See L{IPublishFilter.filterMessage}."""
        self.asked.append((message.body, Kind(kind)))
        if message.body == b"drop":
            return None
        if message.body == b"move":
            return Message(b"elsewhere", b"moved")
        return message


@onEach
class TestFilters:
    """Decisions for every message."""

    def test_decides(self, hall: Hall) -> None:
        """A filter passes a message, drops it, or puts another in its place."""
        here, elsewhere, decider = Recorder(), Recorder(), Filter()
        hall.bus.subscribe(b"foo", here)
        hall.bus.subscribe(b"elsewhere", elsewhere)
        hall.account.addFilter(decider)
        counts = [hall.publish(b"foo", body) for body in (b"pass", b"drop", b"move")]
        assert counts == [1, 0, 1]
        assert (here.bodies, elsewhere.bodies) == ([b"pass"], [b"moved"])
        assert decider.asked == [
            (b"pass", Kind.CLIENT),
            (b"drop", Kind.CLIENT),
            (b"move", Kind.CLIENT),
        ]

    def test_raising(self, hall: Hall) -> None:
        """A filter that raises lets nothing through, and is told of."""

        @implementer(IPublishFilter)
        class Failing:
            def filterMessage(self, message: Message, kind: int) -> Message | None:
                raise ZeroDivisionError

        recorder = Recorder()
        hall.bus.subscribe(b"foo", recorder)
        hall.account.addFilter(Failing())
        assert hall.publish(b"foo") == 0
        assert recorder.got == []
        assert hall.failures == ["A publish filter failed, and what it was asked about is dropped"]

    def test_inOrder(self, hall: Hall) -> None:
        """Filters are asked in the order of their coming, each about the one before's answer."""
        first, second = Filter(), Filter()
        hall.account.addFilter(first)
        hall.account.addFilter(second)
        hall.publish(b"foo", b"move", kind=Kind.ROUTE)
        hall.publish(b"foo", b"drop")
        assert second.asked == [(b"moved", Kind.ROUTE)]

    def test_leavesTheFastLane(self, hall: Hall) -> None:
        """While there is a filter every message takes the readable path."""
        seen = [hall.account.matcher.readable]
        removes = [hall.account.addFilter(Filter()), hall.account.addFilter(Filter())]
        seen.append(hall.account.matcher.readable)
        for remove in removes:
            remove()
            seen.append(hall.account.matcher.readable)
        assert seen == [False, True, True, False]

    def test_removesItselfWhileAsked(self, hall: Hall) -> None:
        """A filter may take itself out from within a call."""

        class Once(Filter):
            def filterMessage(self, message: Message, kind: int) -> Message | None:
                remove()
                return super().filterMessage(message, kind)

        once, other = Once(), Filter()
        remove = hall.account.addFilter(once)
        hall.account.addFilter(other)
        hall.publish(b"foo", b"1")
        hall.publish(b"foo", b"2")
        assert (len(once.asked), len(other.asked)) == (1, 2)


@onEach
class TestWatching:
    """Interest as the doors tell it."""

    def test_edges(self, hall: Hall) -> None:
        """A watcher hears of subscriptions as they come and end, in whatever way."""
        watcher = WatchRecorder()
        recorder = Recorder()
        first = hall.bus.subscribe(b"foo", recorder)
        stop = hall.bus.watchInterest(watcher)
        hall.bus.subscribe(b"bar", recorder, b"", b"q").cancelAfter(1)
        hall.publish(b"bar")
        first.cancel()
        assert watcher.taken() == [
            ("+", b"foo", b"", 1),
            ("+", b"bar", b"q", 1),
            ("-", b"bar", b"q", 0),
            ("-", b"foo", b"", 0),
        ]
        stop()
        hall.bus.subscribe(b"foo", recorder)
        assert watcher.told == []

    def test_anyDoor(self, hall: Hall) -> None:
        """All doors of an account tell the same."""
        watcher = WatchRecorder()
        hall.door(Kind.ROUTE).watchInterest(watcher)
        hall.door(Kind.INTERNAL).subscribe(b"foo", Recorder())
        hall.door(Kind.ROUTE).subscribe(b"bar", LinkRecorder())
        assert watcher.taken() == [("+", b"foo", b"", 1)]

    def test_localIsUntold(self, hall: Hall) -> None:
        """Watchers are not told of who answers for this broker alone, early or late."""
        early, late = WatchRecorder(), WatchRecorder()
        hall.door(Kind.ROUTE).watchInterest(early)
        subscription = hall.door(Kind.LOCAL).subscribe(b"foo", Recorder(), None, b"q")
        hall.door(Kind.ROUTE).watchInterest(late)
        subscription.cancel()
        assert (early.taken(), late.taken()) == ([], [])


@onEach
class TestRouterChanges:
    """Routers whose answers change by themselves."""

    def test_changes(self, names: Names) -> None:
        """When a router says that answers for a pattern changed, they are asked for afresh."""

        class Moody(Router):
            hides = False

            def watchChanges(self, changed: Any) -> None:
                self.changed = changed

            def match(self, subject: bytes) -> Any:
                return [] if self.hides else super().match(subject)

        with using(names):
            router = Moody()
            account = Account("A", router, hot.Turn(lambda call: None), Random(1))
            bus = account.busFor(Kind.CLIENT)
            bus.subscribe(b"a.b", Recorder())
            assert bus.publish(Message(b"a.b")) == 1
            router.hides = True
            router.changed(b"a.*")
            assert bus.publish(Message(b"a.b")) == 0


SUBSCRIPTIONS = st.lists(
    st.tuples(PATTERNS, st.sampled_from([b"", b"", b"q", b"r"]), st.sampled_from(list(Kind))),
    max_size=10,
)


@onEach
class TestAnything:
    """What holds for any subscriptions and any message."""

    @given(
        SUBSCRIPTIONS,
        DELIVERABLE,
        st.sampled_from(list(Kind)),
        st.sampled_from([None, (), (b"q",), (b"q", b"r")]),
        st.booleans(),
        st.integers(0, 99),
    )
    def test_whoGetsIt(
        self,
        names: Names,
        subscriptions: list[tuple[bytes, bytes, Kind]],
        subject: bytes,
        origin: Kind,
        queues: tuple[bytes, ...] | None,
        isSubscribed: bool,
        seed: int,
    ) -> None:
        """
        Everybody plain that matches and is in reach gets it once, one member of each group that is
        to have it, and each link at most once. The publisher is out of reach of its own message.
        A server that names a group without a member in reach is out of date: a route's message
        goes to another route's members, and what is left over back to the server.
        """
        with using(names):
            hall = Hall(seed)
            receivers: list[Any] = []
            for pattern, queue, kind in subscriptions:
                receiver: Any = LinkRecorder() if kind in LINKS else Recorder()
                receivers.append(receiver)
                hall.door(kind).subscribe(pattern, receiver, b"", queue)
            kinds = [kind for _, _, kind in subscriptions]
            isSender = isSubscribed and origin in kinds
            sender = receivers[kinds.index(origin)] if isSender else None
            count = hall.publish(subject, b"x", kind=origin, queues=queues, origin=sender)
        groups: dict[bytes, dict[str, list[Any]]] = {}
        for (pattern, queue, kind), receiver in zip(subscriptions, receivers, strict=True):
            matching = matches(pattern, subject)
            reached = matching and reaches(origin, kind) and receiver is not sender
            if not queue:
                assert len(receiver.got) == int(reached)
                continue
            place = "nowhere"
            if reached:
                place = "links" if kind in LINKS else "here"
            elif matching and receiver is sender and origin in (Kind.ROUTE, Kind.HUB, Kind.SPOKE):
                place = "sender"
            elif matching and origin is kind is Kind.ROUTE:
                place = "routes"
            groups.setdefault(queue, {}).setdefault(place, []).append(receiver)
            if kind in LINKS and receiver.got:
                assert receiver.got == [(b"x", (queue,))]
        for queue, places in groups.items():
            order = ["here", "links"]
            if queues is None:
                order = order if origin in (*OURS, Kind.LOCAL) else []
            elif queue not in queues:
                order = []
            elif origin in LINKS:
                order += ["routes", "sender"]
            taking = next((place for place in order if place in places), None)
            for place, members in places.items():
                got = sum(len(each.got) for each in members)
                assert got == int(place == taking), (queue, place)
        assert count == sum(len(each.got) for each in receivers)


def test_reweigh() -> None:
    """A link's subscription may stand for more members, and whoever watches is told."""
    hall, watcher = Hall(), WatchRecorder()
    hall.bus.watchInterest(watcher)
    made: Any = hall.door(Kind.SPOKE).subscribe(b"foo", LinkRecorder(), b"", b"q", 2)
    made.reweigh(5)
    made.reweigh(5)
    made.cancel()
    made.reweigh(7)
    assert watcher.taken() == [
        ("+", b"foo", b"q", 2),
        ("=", b"foo", b"q", 5),
        ("-", b"foo", b"q", 0),
    ]
