"""Contract tests for L{IMessageBus}, L{ISubscriber} and L{IInterestWatcher}."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.interfaces import IInterestWatcher, IMessageBus, ISubscriber, ISubscription
from natsbroker.testing.contracts.base import Contract
from natsbroker.testing.contracts.routers import MATCHES
from natsbroker.wire.values import Message

__all__ = ["interestWatcherTests", "messageBusTests", "subscriberTests"]


@implementer(ISubscriber)
class _Listener:
    def __init__(self) -> None:
        self.got: list[tuple[Message, Any]] = []
        self.ended: list[Any] = []

    def deliver(self, message: Message, tag: Any) -> None:
        self.got.append((message, tag))

    def subscriptionEnded(self, tag: Any) -> None:
        self.ended.append(tag)


@implementer(IInterestWatcher)
class _Watcher:
    def __init__(self) -> None:
        self.known: dict[tuple[bytes, bytes], int] = {}
        self.mistakes: list[str] = []

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        if (pattern, queue) in self.known:
            self.mistakes.append(f"{pattern!r} {queue!r} gained twice")
        self.known[pattern, queue] = weight

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        if not queue or (pattern, queue) not in self.known:
            self.mistakes.append(f"the weight of {pattern!r} {queue!r} is not expected")
        self.known[pattern, queue] = weight

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        if self.known.pop((pattern, queue), None) is None:
            self.mistakes.append(f"{pattern!r} {queue!r} lost without having been there")


def messageBusTests(
    factory: Callable[[], Any], settle: Callable[[], object] = lambda: None
) -> type[SynchronousTestCase]:
    """
    Tests for an L{IMessageBus} of clients or services.

    @param factory: makes a bus of an empty account.
    @param settle: runs delayed work that is due soon.
    """

    class MessageBusTests(Contract):
        def publish(self, bus: IMessageBus, subject: bytes, body: bytes = b"") -> int:
            count = bus.publish(Message(subject, body))
            settle()
            return count

        def test_provides(self) -> None:
            """A bus provides the interface and names its account."""
            bus = factory()
            self.holds(verifyObject(IMessageBus, bus))
            self.holds(isinstance(bus.account, str), bus.account)

        def test_delivers(self) -> None:
            """A message reaches every subscription that matches, with its tag, and is counted."""
            for pattern, subject, answer in MATCHES:
                bus, listener = factory(), _Listener()
                tag = object()
                bus.subscribe(pattern, listener, tag)
                self.same(bus.hasInterest(subject), answer, (pattern, subject))
                self.same(self.publish(bus, subject, b"x"), int(answer))
                self.same([tag] * answer, [received for _, received in listener.got])

        def test_wholeMessage(self) -> None:
            """The message arrives with its reply, headers and payload."""
            bus, listener = factory(), _Listener()
            bus.subscribe(b"a", listener)
            bus.publish(Message(b"a", b"HHHpayload", b"reply", 3))
            settle()
            [(message, _)] = listener.got
            self.same((message.subject, message.reply), (b"a", b"reply"))
            self.same((message.headers, message.payload), (b"HHH", b"payload"))

        def test_posts(self) -> None:
            """
            A payload that is published internally is a message with a subject, and is counted.
            """
            bus, listener = factory(), _Listener()
            bus.subscribe(b"a", listener)
            self.same((bus.publishInternal(b"a", b"x"), bus.publishInternal(b"b", b"y")), (1, 0))
            settle()
            [(message, _)] = listener.got
            self.same((message.subject, message.reply), (b"a", b""))
            self.same((message.headers, message.payload), (b"", b"x"))

        def test_order(self) -> None:
            """Messages arrive in the order of publishing."""
            bus, listener = factory(), _Listener()
            bus.subscribe(b"a.*", listener)
            bodies = [b"%d" % number for number in range(20)]
            for number, body in enumerate(bodies):
                self.publish(bus, b"a.%d" % (number % 3), body)
            self.same([message.body for message, _ in listener.got], bodies)

        def test_groups(self) -> None:
            """Of each queue group one member gets a message, besides the plain subscriptions."""
            bus, plain = factory(), _Listener()
            groups = [[_Listener() for _ in range(3)] for _ in range(2)]
            bus.subscribe(b"a", plain)
            for queue, members in zip((b"q", b"r"), groups, strict=True):
                for member in members:
                    bus.subscribe(b"*", member, queue=queue)
            for number in range(1, 31):
                self.same(self.publish(bus, b"a"), 3)
                for listeners in ([plain], *groups):
                    self.same(sum(len(listener.got) for listener in listeners), number)

        def test_serves(self) -> None:
            """A service receives only messages that have an origin."""
            bus, listener = factory(), _Listener()
            service = bus.serve(b"a", listener, "tag")
            self.holds(bus.hasInterest(b"a"))
            bus.publish(Message(b"a", b"x", origin=object()))
            settle()
            self.same([(message.body, tag) for message, tag in listener.got], [(b"x", "tag")])
            service.cancel()
            self.holds(not bus.hasInterest(b"a"))

        def test_cancel(self) -> None:
            """
            A cancelled subscription gets nothing more, and its subscriber is not notified of the
            end.
            """
            bus, listener = factory(), _Listener()
            subscription = bus.subscribe(b"a", listener, queue=b"q")
            self.holds(set(ISubscription.names()) <= set(dir(subscription)))
            self.same((subscription.pattern, subscription.queue), (b"a", b"q"))
            subscription.cancel()
            subscription.cancel()
            self.same(self.publish(bus, b"a"), 0)
            self.same((listener.got, listener.ended), ([], []))
            self.holds(not bus.hasInterest(b"a"))

        def test_cancelAfter(self) -> None:
            """
            A subscription with a maximum ends after that many messages, and notifies its
            subscriber.
            """
            bus, listener = factory(), _Listener()
            subscription = bus.subscribe(b"a", listener, "tag")
            self.publish(bus, b"a")
            subscription.cancelAfter(3)
            counts = [self.publish(bus, b"a") for _ in range(4)]
            self.same(counts, [1, 1, 0, 0])
            self.same((len(listener.got), listener.ended), (3, ["tag"]))

        def test_cancelAfterTheFact(self) -> None:
            """
            A maximum that is already reached ends a subscription at once. A later maximum replaces
            an earlier one.
            """
            bus, listener = factory(), _Listener()
            subscription = bus.subscribe(b"a", listener)
            self.publish(bus, b"a")
            subscription.cancelAfter(5)
            subscription.cancelAfter(1)
            self.same(self.publish(bus, b"a"), 0)
            self.same(len(listener.got), 1)

        def test_invalid(self) -> None:
            """An invalid subject cannot be subscribed to, and a message to it reaches nobody."""
            bus, listener = factory(), _Listener()
            bus.subscribe(b">", listener)
            for subject in (b"", b".", b"a.", b".a", b"a..b", b"a b", b"a\r\n", b"a\x00"):
                self.refuses(ValueError, bus.subscribe, subject, listener)
                if b" " not in subject:
                    self.same(self.publish(bus, subject), 0, subject)
            self.same(listener.got, [])

        def test_publishingFromWithin(self) -> None:
            """A subscriber may publish while it gets a message."""
            bus, listener = factory(), _Listener()

            @implementer(ISubscriber)
            class Answerer(_Listener):
                def deliver(self, message: Message, tag: Any) -> None:
                    bus.publish(Message(message.reply, b"answer"))

            bus.subscribe(b"ask", Answerer())
            bus.subscribe(b"here", listener)
            bus.publish(Message(b"ask", b"", b"here"))
            settle()
            self.same([message.body for message, _ in listener.got], [b"answer"])

        def test_watching(self) -> None:
            """A watcher learns of present interest, and of changes until it stops watching."""
            bus, watcher = factory(), _Watcher()
            early = bus.subscribe(b"a", _Listener())
            stop = bus.watchInterest(watcher)
            late = [bus.subscribe(b"a", _Listener()), bus.subscribe(b"b", _Listener(), queue=b"q")]
            self.same(set(watcher.known), {(b"a", b""), (b"b", b"q")})
            more = bus.subscribe(b"b", _Listener(), queue=b"q")
            self.same(watcher.known[b"b", b"q"], 2)
            more.cancel()
            self.same(watcher.known[b"b", b"q"], 1)
            for subscription in (early, *late):
                subscription.cancel()
            self.same(watcher.known, {})
            stop()
            bus.subscribe(b"c", _Listener())
            self.same((watcher.known, watcher.mistakes), ({}, []))

    return MessageBusTests


#: Messages of all shapes.
_MESSAGES = (
    Message(b"a"),
    Message(b"a.b", b"payload", b"reply"),
    Message(b"a", b"NATS/1.0\r\nA: b\r\n\r\npayload", b"_INBOX.x", 18),
    Message(b"a", b"not a header block", headerLength=5),
    Message(b"\xff", bytes(range(256)) * 100, b"*"),
    Message(b"a.*", b"", b">", sizeText=b"000"),
)


def subscriberTests(
    factory: Callable[[], Any], tags: Sequence[Any] = (None,)
) -> type[SynchronousTestCase]:
    """
    Tests for an L{ISubscriber}.

    @param tags: the tags that it uses when it subscribes.
    """

    class SubscriberTests(Contract):
        def test_provides(self) -> None:
            """A subscriber provides the interface."""
            self.holds(verifyObject(ISubscriber, factory()))

        def test_takesAnything(self) -> None:
            """
            A subscriber raises nothing and does not change a message, whatever message it gets.
            """
            for tag in tags:
                subscriber = factory()
                for message in _MESSAGES:
                    before = [getattr(message, name) for name in Message.__slots__]
                    subscriber.deliver(message, tag)
                    after = [getattr(message, name) for name in Message.__slots__]
                    self.same(before, after)
                subscriber.subscriptionEnded(tag)

    return SubscriberTests


def interestWatcherTests(factory: Callable[[], Any]) -> type[SynchronousTestCase]:
    class InterestWatcherTests(Contract):
        def test_provides(self) -> None:
            """A watcher provides the interface."""
            self.holds(verifyObject(IInterestWatcher, factory()))

        def test_takesAnything(self) -> None:
            """A watcher raises nothing, in any order of events that a bus can produce."""
            watcher = factory()
            for _ in range(2):
                for pattern in (b"a", b"a.*", b">", b"\xff.\xc3\xb6"):
                    watcher.interestGained(pattern, b"", 1)
                    watcher.interestGained(pattern, b"q", 1)
                    watcher.interestWeightChanged(pattern, b"q", 1000)
                    watcher.interestWeightChanged(pattern, b"q", 1)
                    watcher.interestLost(pattern, b"")
                    watcher.interestLost(pattern, b"q")

    return InterestWatcherTests
