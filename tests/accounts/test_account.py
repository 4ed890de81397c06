"""
The message bus of an account: the subscribers that receive a message.
"""

from __future__ import annotations

import gc
from random import Random
from typing import Any, cast
from weakref import ref

import pytest
from zope.interface.verify import verifyObject

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.interfaces import IMessageBus, ISubscription
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.values import Kind, Message
from tests.accounts.hall import Connection, Hall
from tests.accounts.market import Market
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


@onEach
class TestPlain:
    """Plain subscriptions."""

    def test_provides(self, hall: Hall) -> None:
        """A bus and a subscription provide their interfaces."""
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

    def test_noSubscription(self, hall: Hall) -> None:
        """A message without a subscription reaches no client."""
        hall.bus.subscribe(b"foo", Recorder())
        assert hall.publish(b"bar") == 0

    def test_sameMessage(self, hall: Hall) -> None:
        """Every subscriber gets the same message object that was published."""
        one, two = Recorder(), Recorder()
        hall.bus.subscribe(b"foo", one)
        hall.bus.subscribe(b"foo", two)
        message = Message(b"foo", b"x", b"reply")
        hall.bus.publish(message)
        assert one.got[0][0] is two.got[0][0] is message

    @pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b", b"a.\x00", b"a\n"])
    def test_malformedSubject(self, hall: Hall, subject: bytes) -> None:
        """
        A message with a malformed subject reaches no subscription, not even one for all subjects.
        """
        hall.bus.subscribe(b">", Recorder())
        assert hall.publish(subject) == 0
        assert not hall.bus.hasInterest(subject)

    def test_wildcardsInASubjectAreLiteral(self, hall: Hall) -> None:
        """
        A message whose subject has wildcards reaches only subscriptions that cover these as literal
        words.
        """
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
        """No message passes from one account to another."""
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
        """
        A subscriber that raises an exception is reported. Others get the message, and it gets later
        ones.
        """
        failing, others = Recorder(lambda message: 1 // 0), Recorder()
        hall.bus.subscribe(b"foo", failing)
        hall.bus.subscribe(b"*", others)
        assert [hall.publish(b"foo"), hall.publish(b"foo")] == [2, 2]
        assert (len(failing.got), len(others.got)) == (2, 2)
        assert hall.failures == ["The subscriber to b'foo' failed"] * 2

    def test_routerRaises(self, hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
        """A router that raises an exception on removal is reported, and the interest is gone."""
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
        """A subscriber that raises an exception when its subscription ends is reported."""

        class Failing(Recorder):
            def subscriptionEnded(self, tag: Any) -> None:
                raise SystemExit

        hall.bus.subscribe(b"foo", Failing()).cancelAfter(1)
        assert [hall.publish(b"foo"), hall.publish(b"foo")] == [1, 0]
        assert hall.failures == ["The subscriber to b'foo' failed"]

    def test_subscribingFromADelivery(self, hall: Hall) -> None:
        """A subscription made during a delivery gets the next message, not this one."""
        late = Recorder()
        eager = Recorder(lambda message: late.got or hall.bus.subscribe(b"foo", late))
        hall.bus.subscribe(b"foo", eager)
        hall.publish(b"foo", b"1")
        assert late.bodies == []
        hall.publish(b"foo", b"2")
        assert late.bodies == [b"2"]

    def test_cancellingOthersFromADelivery(self, hall: Hall) -> None:
        """
        A subscription that is cancelled during a delivery gets no more messages, not even this one.
        """
        subscriptions: list[Any] = []
        recorders = [
            Recorder(lambda message: [subscription.cancel() for subscription in subscriptions])
            for _ in range(5)
        ]
        subscriptions += [hall.bus.subscribe(b"foo", recorder) for recorder in recorders]
        assert hall.publish(b"foo") == 1
        assert sum(len(recorder.got) for recorder in recorders) == 1

    def test_changesShowAtOnce(self, hall: Hall) -> None:
        """
        A new or removed subscription is considered at once, also for a subject that was matched
        before.
        """
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
        assert {id(subscription) for subscription in hall.account.subscriptions()} == {
            id(subscription) for subscription in made
        }


class TestMistakes:
    """Arguments of other types, in programs with a broker inside."""

    @pytest.mark.parametrize(
        ("pattern", "subscriber", "queue", "text"),
        [
            ("x", Recorder(), b"", "the pattern of a subscription is str, not bytes: write b'x'"),
            (b"x", Recorder(), "q", "the queue of a subscription is str, not bytes: write b'q'"),
            (b"x", Recorder(), None, "the queue of a subscription is NoneType, not bytes"),
            (Recorder(), b"x", b"", "the pattern of a subscription is Recorder, not bytes"),
            (b"x", print, b"", r"print provides no ISubscriber: it has no deliver\(message, tag\)"),
            (b"x", Recorder, b"", r"Recorder is a class, .* ISubscriber: pass Recorder\(...\)"),
        ],
    )
    def test_subscribe(self, pattern: Any, subscriber: Any, queue: Any, text: str) -> None:
        """A subscription with a value of a wrong type is refused with a correct example."""
        bus = MemoryBroker().bus()
        with pytest.raises(TypeError, match=text):
            bus.subscribe(pattern, subscriber, queue=queue)
        with pytest.raises(TypeError, match=text):
            bus.serve(pattern, subscriber, queue=queue)
        assert not bus.hasInterest(b"x")

    def test_watch(self) -> None:
        """An object that is no watcher is refused before there is interest to report."""
        with pytest.raises(TypeError, match=r"provides no IInterestWatcher: it has no interestGai"):
            MemoryBroker().bus().watchInterest(cast(Any, object()))
        with pytest.raises(TypeError, match="got None and not IInterestWatcher"):
            MemoryBroker().bus().watchInterest(cast(Any, None))

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (
                (b"x", b"hello"),
                r"publish takes a Message, not bytes: write .*publishInternal\(b'a'",
            ),
            (("x",), "publish takes a Message, not str"),
            ((Message("x"),), "no Message whose subject is str, not bytes: write b'x'"),  # type: ignore[arg-type]
            ((Message(b"x", "hi"),), "no Message whose body is str, not bytes: write b'hi'"),  # type: ignore[arg-type]
            ((Message(b"x", b"", "r"),), "no Message whose reply is str, not bytes: write b'r'"),  # type: ignore[arg-type]
            ((Message(b"x", "\xfc"),), "no Message whose body is str, not bytes: encode it"),  # type: ignore[arg-type]
        ],
    )
    def test_publish(self, arguments: Any, text: str) -> None:
        """A malformed message is refused where it is published, and no receiver is blamed."""
        broker = MemoryBroker()
        client = broker.connect({"verbose": False})
        client.request(b"SUB x 1\r\n")
        with pytest.raises(TypeError, match=text):
            broker.bus().publish(*arguments)
        assert client.request(b"PING\r\n") == b"PONG\r\n"


@onEach
class TestEnding:
    """The end of subscriptions."""

    def test_cancel(self, hall: Hall) -> None:
        """
        A cancelled subscription gets no more messages, and its subscriber is not told that it
        ended.
        """
        recorder = Recorder()
        subscription = hall.bus.subscribe(b"foo", recorder, "tag")
        subscription.cancel()
        subscription.cancel()
        assert hall.publish(b"foo") == 0
        assert (recorder.ended, len(hall.account)) == ([], 0)

    def test_cancelAfter(self, hall: Hall) -> None:
        """A subscription with a maximum gets that many messages in all, and then ends."""
        recorder = Recorder()
        subscription = hall.bus.subscribe(b"foo", recorder, "tag")
        hall.publish(b"foo", b"1")
        subscription.cancelAfter(3)
        counts = [hall.publish(b"foo", body) for body in (b"2", b"3", b"4")]
        assert counts == [1, 1, 0]
        assert recorder.bodies == [b"1", b"2", b"3"]
        assert (recorder.ended, len(hall.account)) == (["tag"], 0)

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_maximumAlreadyReached(self, hall: Hall, count: int) -> None:
        """
        A maximum that is reached already ends the subscription at once, and its subscriber is not
        told.
        """
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
        """A subscriber may subscribe again when its subscription ends."""

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
        """A member of a queue group leaves the group after its maximum of messages."""
        brief, steady = Recorder(), Recorder()
        hall.bus.subscribe(b"foo", brief, b"1", b"q").cancelAfter(2)
        hall.bus.subscribe(b"foo", steady, b"2", b"q")
        for _ in range(30):
            hall.publish(b"foo")
        assert (len(brief.got), len(steady.got)) == (2, 28)


@onEach
class TestConnections:
    """Subscribers with an outbox."""

    def test_echo(self, hall: Hall) -> None:
        """A connection gets its own messages unless it does not want them."""
        connection = Connection(hall.batch)
        hall.bus.subscribe(b"foo", connection, b"1")
        assert hall.publish(b"foo", origin=connection) == 1
        connection.outbox.echo = False
        assert hall.publish(b"foo", origin=connection) == 0
        assert hall.publish(b"foo", origin=object()) == 1
        assert len(connection.got) == 2

    def test_echoInGroups(self, hall: Hall) -> None:
        """A member of a queue group without echo is never chosen for its own messages."""
        publisher, other = Connection(hall.batch), Connection(hall.batch)
        publisher.outbox.echo = False
        for client in (publisher, publisher, other):
            hall.bus.subscribe(b"foo", client, b"1", b"q")
        for _ in range(20):
            assert hall.publish(b"foo", origin=publisher) == 1
        assert len(other.got) == 20

    def test_closedOutbox(self, hall: Hall) -> None:
        """A connection whose outbox is closed gets no message and does not count."""
        connection = Connection(hall.batch)
        hall.bus.subscribe(b"foo", connection, b"1")
        connection.outbox.close()
        assert hall.publish(b"foo") == 0
        assert connection.got == []

    def test_filteredDeliveries(self, hall: Hall) -> None:
        """
        A subscription with permissions is not given denied messages, and these do not count as
        delivered.
        """
        connection = Connection(hall.batch)
        subscription: Any = hall.bus.subscribe(b"foo.*", connection, b"1")
        subscription.permissions = SubscribePermissions(deny=[b"foo.secret"])
        assert hall.publish(b"foo.secret") == 0
        assert hall.publish(b"foo.open") == 1
        subscription.permissions = None
        assert hall.publish(b"foo.secret") == 1
        assert len(connection.got) == 2

    def test_filteredMember(self, hall: Hall) -> None:
        """A member of a group that may not have a message leaves it to another."""
        one, other = Connection(hall.batch), Connection(hall.batch)
        subscription: Any = hall.bus.subscribe(b"foo.*", one, b"1", b"q")
        subscription.permissions = SubscribePermissions(deny=[b"foo.secret q"])
        hall.bus.subscribe(b"foo.*", other, b"1", b"q")
        for _ in range(20):
            assert hall.publish(b"foo.secret") == 1
        assert len(other.got) == 20


@onEach
class TestBatches:
    """Subscribers that receive all messages of a turn together."""

    def test_atTheEndOfTheTurn(self, hall: Hall) -> None:
        """The messages of a turn come in one call at its end, in order, from all subscriptions."""
        recorder = BatchRecorder()
        hall.bus.subscribe(b"foo", recorder, 1)
        hall.bus.subscribe(b"bar", recorder, 2)
        hall.batch.enter()
        for subject, body in [(b"foo", b"1"), (b"bar", b"2"), (b"foo", b"3")]:
            assert hall.publish(subject, body) == 1
        assert recorder.batches == []
        hall.batch.leave()
        assert recorder.batches == [[b"1", b"2", b"3"]]
        assert recorder.tags == [1, 2, 1]

    def test_raising(self, hall: Hall) -> None:
        """A batch subscriber that raises is reported, and the publisher does not notice."""

        class Failing(BatchRecorder):
            def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
                super().deliverMany(messages)
                raise ZeroDivisionError

        failing, other = Failing(), BatchRecorder()
        hall.bus.subscribe(b"foo", failing)
        hall.bus.subscribe(b"foo", other)
        hall.batch.enter()
        hall.publish(b"foo", b"1")
        hall.batch.leave()
        assert failing.batches == other.batches == [[b"1"]]
        assert hall.failures == ["A batch subscriber failed"]

    def test_everyTurn(self, hall: Hall) -> None:
        """The messages of each turn come as one batch, and a turn without messages has no batch."""
        recorder = BatchRecorder()
        hall.bus.subscribe(b"foo", recorder)
        for bodies in ([b"1"], [], [b"2", b"3"]):
            hall.batch.enter()
            for body in bodies:
                hall.publish(b"foo", body)
            hall.batch.leave()
        assert recorder.batches == [[b"1"], [b"2", b"3"]]

    def test_outsideOfTurns(self, hall: Hall) -> None:
        """A message published outside of any turn comes soon, not at once."""
        recorder = BatchRecorder()
        hall.bus.subscribe(b"foo", recorder)
        hall.publish(b"foo", b"1")
        hall.publish(b"foo", b"2")
        assert recorder.batches == []
        while hall.soon:
            hall.soon.pop(0)()
        assert recorder.batches == [[b"1", b"2"]]

    def test_endComesLast(self, hall: Hall) -> None:
        """A subscriber receives its messages before it learns that the subscription has ended."""
        events: list[object] = []

        class Ordered(BatchRecorder):
            def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
                events.append([message.body for message, _ in messages])

            def subscriptionEnded(self, tag: Any) -> None:
                events.append(tag)

        hall.bus.subscribe(b"foo", Ordered(), "tag").cancelAfter(2)
        hall.batch.enter()
        for body in (b"1", b"2", b"3"):
            hall.publish(b"foo", body)
        hall.batch.leave()
        assert events == [[b"1", b"2"], "tag"]

    def test_publishingFromABatch(self, hall: Hall) -> None:
        """A message that a batch subscriber publishes belongs to the same turn."""
        heard = BatchRecorder()

        class Speaker(BatchRecorder):
            def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
                for message, _ in messages:
                    hall.publish(b"bar", message.body)

        hall.bus.subscribe(b"foo", Speaker())
        hall.bus.subscribe(b"bar", heard)
        hall.batch.enter()
        hall.publish(b"foo", b"1")
        hall.publish(b"foo", b"2")
        hall.batch.leave()
        assert heard.batches == [[b"1", b"2"]]

    def test_isForgotten(self, hall: Hall) -> None:
        """A batch subscriber is not kept alive by subscriptions that have ended."""
        recorder = BatchRecorder()
        subscription = hall.bus.subscribe(b"foo", recorder)
        hall.batch.enter()
        hall.publish(b"foo")
        hall.batch.leave()
        subscription.cancel()
        gone = ref(recorder)
        del recorder, subscription
        hall.publish(b"foo")
        gc.collect()
        assert gone() is None


@onEach
class TestWatching:
    """Interest as the watchers of the buses see it."""

    def test_edges(self, hall: Hall) -> None:
        """
        A watcher learns of each subscription that is made and of each that ends, for any reason.
        """
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

    def test_anyBus(self, hall: Hall) -> None:
        """All buses of an account report the same interest."""
        watcher = WatchRecorder()
        hall.busFor(Kind.ROUTE).watchInterest(watcher)
        hall.busFor(Kind.INTERNAL).subscribe(b"foo", Recorder())
        hall.busFor(Kind.ROUTE).subscribe(b"bar", LinkRecorder())
        assert watcher.taken() == [("+", b"foo", b"", 1)]

    def test_localServices(self, hall: Hall) -> None:
        """Watchers are not told of services for this broker alone, whenever they begin to watch."""
        early, late = WatchRecorder(), WatchRecorder()
        hall.busFor(Kind.ROUTE).watchInterest(early)
        subscription = hall.busFor(Kind.LOCAL).subscribe(b"foo", Recorder(), None, b"q")
        hall.busFor(Kind.ROUTE).watchInterest(late)
        subscription.cancel()
        assert (early.taken(), late.taken()) == ([], [])


@onEach
class TestRouterChanges:
    """Routers whose answers change by themselves."""

    def test_changes(self, names: Names) -> None:
        """A router that reports a change of its answers for a pattern is asked for them again."""

        class Moody(Router):
            hides = False

            def watchChanges(self, changed: Any) -> None:
                self.changed = changed

            def match(self, subject: bytes) -> Any:
                return [] if self.hides else super().match(subject)

        with using(names):
            router = Moody()
            account = Account(
                "A", router, AccountDependencies(hot.FlushBatch(lambda call: None), Random(1))
            )
            bus = account.busFor(Kind.CLIENT)
            bus.subscribe(b"a.b", Recorder())
            assert bus.publish(Message(b"a.b")) == 1
            router.hides = True
            router.changed(b"a.*")
            assert bus.publish(Message(b"a.b")) == 0


def test_reweigh() -> None:
    """
    The number of members that a link's subscription represents may change, and watchers learn of
    it.
    """
    hall, watcher = Hall(), WatchRecorder()
    hall.bus.watchInterest(watcher)
    made: Any = hall.busFor(Kind.SPOKE).subscribe(b"foo", LinkRecorder(), b"", b"q", 2)
    made.reweigh(5)
    made.reweigh(5)
    made.cancel()
    made.reweigh(7)
    assert watcher.taken() == [
        ("+", b"foo", b"q", 2),
        ("=", b"foo", b"q", 5),
        ("-", b"foo", b"q", 0),
    ]


def test_busContract() -> None:
    """A bus provides its interface, and has its account and kind."""
    account = Market("A")["A"]
    for kind in Kind:
        bus = account.busFor(kind)
        assert verifyObject(IMessageBus, bus)
        assert (bus.account, bus.kind) == ("A", kind)
        assert bus.matcher is account.matcher


def test_busMapped() -> None:
    """A bus applies the mappings of its account."""
    market = Market("A")
    bus = market["A"].busFor(Kind.CLIENT)
    assert bus.mapped(b"a") == b"a"
    market.map("A", a="b")
    assert (bus.mapped(b"a"), bus.mapped(b"c")) == (b"b", b"c")


def test_busRefresh() -> None:
    """Matches are computed again after a refresh."""
    account = Market("A")["A"]
    bus = account.busFor(Kind.CLIENT)
    bus.subscribe(b"a", Recorder())
    assert account.matcher.match(b"a") is account.matcher.match(b"a")
    before = account.matcher.match(b"a")
    bus.refresh()
    assert account.matcher.match(b"a") is not before


def test_busWatchInterest() -> None:
    """A bus reports interest to a watcher until it is stopped."""
    account = Market("A")["A"]
    watcher = WatchRecorder()
    stop = account.busFor(Kind.ROUTE).watchInterest(watcher)
    account.busFor(Kind.CLIENT).subscribe(b"a", Recorder())
    stop()
    account.busFor(Kind.CLIENT).subscribe(b"b", Recorder())
    assert watcher.taken() == [("+", b"a", b"", 1)]
    assert account.busFor(Kind.CLIENT).hasInterest(b"b")
