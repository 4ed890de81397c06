"""
An account and its buses. There is one bus for each kind of origin, so the holder of a bus cannot
forge its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, cast
from weakref import WeakValueDictionary

from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.batches import Batcher
from natsbroker.accounts.core import AccountCore
from natsbroker.accounts.delivery import Later
from natsbroker.accounts.gateways import GatewayOutput, IGatewayLink
from natsbroker.accounts.responses import Responses
from natsbroker.accounts.shadows import ImportedStream, Shadows
from natsbroker.accounts.tracing import AccountTracing, TracePeer
from natsbroker.interfaces import (
    IAckSubscriber,
    IBatchSubscriber,
    IInterestTable,
    IInterestWatcher,
    ILinkSubscriber,
    IMessageBus,
    IOutboxLink,
    IOutboxSubscriber,
    IRunSubscriber,
    ISubscriber,
    ISubscription,
)
from natsbroker.interfaces.providers import require
from natsbroker.pure.backlog import SUBSCRIPTION
from natsbroker.subjects.grammar import isValidSubject, notBytes
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.subjects.subscription import FIRST_LINK_KIND
from natsbroker.wire.values import Kind, Message


class Account(AccountCore):
    _shadows: Shadows | None = None
    _services: Sequence[hot.Subscription] = ()

    @cached_property
    def responses(self) -> Responses:
        return Responses(self)

    @cached_property
    def _batchers(self) -> WeakValueDictionary[int, Batcher | hot.Collector]:
        # A batcher lives as long as its subscriptions, and keeps its subscriber, so the key holds.
        return WeakValueDictionary()

    @cached_property
    def _buses(self) -> dict[Kind, Bus]:
        buses = {kind: Bus(self, kind) for kind in Kind}
        return {**buses, Kind.GATEWAY: GatewayBus(self, Kind.GATEWAY)}

    def busFor(self, kind: Kind) -> Bus:
        return self._buses[kind]

    def refresh(self) -> None:
        self.matcher.changed(b">")
        if self._shadows is not None:
            self._shadows.refresh()

    def subscribe(
        self,
        kind: Kind,
        pattern: bytes,
        subscriber: Any,
        tag: Any,
        queue: bytes,
        weight: int = 1,
        make: type[hot.Subscription] = hot.Subscription,
    ) -> hot.Subscription:
        if not isinstance(pattern, bytes):
            raise TypeError(f"the pattern of a subscription is {notBytes(pattern)}")
        if not isinstance(queue, bytes):
            raise TypeError(f"the queue of a subscription is {notBytes(queue)}")
        if not isValidSubject(pattern):
            raise ValueError(f"not a valid subject: {pattern!r}")
        outbox = None
        if IOutboxSubscriber.providedBy(subscriber) or IOutboxLink.providedBy(subscriber):
            outbox = subscriber.outbox
            # Messages of other brokers, or without origin, must not reach this subscriber. No
            # lane checks this.
            isAsked = kind is Kind.LOCAL or make is hot.ServiceSubscription
            outbox = None if isAsked else outbox
        elif IRunSubscriber.providedBy(subscriber) or IBatchSubscriber.providedBy(subscriber):
            subscriber = self._batcherFor(subscriber)
        elif kind < FIRST_LINK_KIND:
            require(ISubscriber, subscriber, "deliver")
        subscription = make(self, pattern, queue, int(kind), subscriber, tag, outbox, weight=weight)
        self._batch.work += SUBSCRIPTION
        self._router.insert(pattern, subscription)
        self.matcher.changed(pattern)
        self.interest.added(subscription)
        self.gateways.subscribed(pattern)
        if self._shadows is not None:
            try:
                self._shadows.added(subscription)
            except BaseException:
                subscription.cancel()
                raise
        return subscription

    def subscriptionCancelled(self, subscription: hot.Subscription) -> None:
        super().subscriptionCancelled(subscription)
        if self._shadows is not None:
            self._shadows.removed(subscription)
        if self.responses.pending:
            self.responses.pending.interestLost(subscription.pattern, self.matcher.match)
        if subscription.kind >= FIRST_LINK_KIND:
            self.delivery.withdrawn.ended(subscription.pattern)
        # Remembered matches may keep the subscription for a while, but must not keep its receiver.
        subscription.owner = subscription.subscriber = subscription.outbox = None
        if type(subscription.tag) is not bytes:  # The sid: a client finds it by that.
            subscription.tag = None

    def subscriptionReweighed(self, subscription: hot.Subscription, weight: int) -> None:
        super().subscriptionReweighed(subscription, weight)
        if self._shadows is not None:
            self._shadows.reweighed(subscription)

    def cancelAll(self, subscriptions: Iterable[hot.Subscription]) -> None:
        closed = hot.closeAll(subscriptions)
        self._batch.backlog.exhaust(map(self.subscriptionCancelled, closed))

    def _batcherFor(self, subscriber: Any) -> Batcher | hot.Collector:
        batcher = self._batchers.get(id(subscriber))
        if batcher is None:
            make = hot.Collector if IRunSubscriber.providedBy(subscriber) else Batcher
            if hot.AckCollector is not None and IAckSubscriber.providedBy(subscriber):
                make = hot.AckCollector
            batcher = self._batchers[id(subscriber)] = make(subscriber, self._batch, self.failed)
        return batcher

    def importStreams(self, imports: Sequence[ImportedStream]) -> list[Exception]:
        """
        Import streams. Return the errors of exporters' routers that take no more subscriptions.
        """
        if self._shadows is None:
            if not imports:
                return []
            self._shadows = Shadows(self)
        problems = self._shadows.replace(imports)
        if not imports:
            self._shadows = None
        return problems

    def importServices(self, subscriptions: Sequence[hot.Subscription]) -> list[Exception]:
        """Import services. Return the errors of a router that takes no more subscriptions."""
        for service in self._services:
            self.detach(service)
        self._services = services = []
        problems: list[Exception] = []
        for subscription in subscriptions:
            try:
                self.attach(subscription)
            except Exception as problem:
                # Attach the other subscriptions first; the caller reports the problems.
                problems.append(problem)
            else:
                services.append(subscription)
        return problems

    def close(self) -> None:
        """End all subscriptions, because the garbage collector does not visit compiled ones."""
        self.responses.close()
        self.gateways.close()
        for subscription in list(self._router):
            subscription.cancel()


@implementer(IMessageBus)
class Bus:
    __slots__ = ("_account", "_delivery", "account", "kind")

    def __init__(self, account: Account, kind: Kind) -> None:
        self._account = account
        self._delivery = account.delivery
        self.account = account.name
        self.kind = kind

    @property
    def matcher(self) -> hot.Matcher:
        return self._account.matcher

    def mapped(self, subject: bytes) -> bytes:
        return self._account.mapped(subject)

    @property
    def tracing(self) -> AccountTracing | None:
        return self._account.tracing

    def publishTraced(self, message: Message) -> int:
        """Publish a message with its trace. The trace ends here, but a stream may add to it."""
        try:
            return self._delivery.publish(self.kind, message)
        finally:
            message.trace.release()

    def publishOver(self, message: Message, later: Later, peer: Callable[[], TracePeer]) -> int:
        """Publish a message of a link, with a trace if its headers ask for one."""
        tracing = self._account.tracing
        if message.headerLength and tracing is not None and tracing.concerns(message):
            traced = tracing.begin(message, peer())
            if traced is None:
                return 0
            if traced.trace is not None:
                return self.publishTraced(traced)
            message = traced
        return self._delivery.publish(self.kind, message, later=later)

    def refresh(self) -> None:
        self._account.refresh()

    def publish(self, message: Message, later: Later | None = None) -> int:
        try:
            return self._delivery.publish(self.kind, message, later=later)
        except (AttributeError, TypeError):
            _check(message)
            raise

    def publishInternal(self, subject: bytes, payload: bytes) -> int:
        return self._delivery.publishInternal(self.kind, subject, payload)

    def publishBatch(self, subject: bytes, payloads: list[bytes]) -> int:
        return self._delivery.publishBatch(self.kind, subject, payloads)

    def subscribe(
        self,
        pattern: bytes,
        subscriber: ISubscriber | ILinkSubscriber,
        tag: Any = None,
        queue: bytes = b"",
        weight: int = 1,
    ) -> ISubscription:
        return cast(
            ISubscription,
            self._account.subscribe(self.kind, pattern, subscriber, tag, queue, weight),
        )

    def serve(
        self, pattern: bytes, subscriber: ISubscriber, tag: Any = None, queue: bytes = b""
    ) -> ISubscription:
        make = hot.ServiceSubscription
        return cast(
            ISubscription,
            self._account.subscribe(self.kind, pattern, subscriber, tag, queue, make=make),
        )

    def cancelAll(self, subscriptions: Iterable[Any]) -> None:
        self._account.cancelAll(subscriptions)

    def hasInterest(self, subject: bytes, isRequest: bool = True) -> bool:
        return self._delivery.hasInterest(self.kind, subject, isRequest=isRequest)

    def watchInterest(
        self,
        watcher: IInterestWatcher,
        interestFilter: InterestFilter | None = None,
        isPatient: bool = False,
        whenTold: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        require(IInterestWatcher, watcher, *_WATCHED)
        return self._account.interest.watch(watcher, interestFilter, isPatient, whenTold)


_WATCHED = ("interestGained", "interestWeightChanged", "interestLost")


def _check(message: object) -> None:
    """Raise C{TypeError} if it cannot be published."""
    if not isinstance(message, Message):
        raise TypeError(
            f"publish takes a Message, not {type(message).__name__}: write"
            " publish(Message(b'a', b'hello')), or publishInternal(b'a', b'hello')"
        ) from None
    message.check()


class GatewayBus(Bus):
    __slots__ = ()

    def openGateway(self, link: IGatewayLink, table: IInterestTable) -> GatewayOutput:
        """Send messages to another cluster, by one link for each account and connection."""
        return self._account.gateways.open(link, table)

    @property
    def hasPulled(self) -> bool:
        return self._account.gateways.hasPulled

    def interestLost(self, pattern: bytes) -> None:
        self._account.gateways.interestLost(pattern)
        self._account.delivery.withdrawn.ended(pattern)

    def isWanted(self, subject: bytes) -> bool:
        """
        Whether a message to this literal subject would reach a plain subscription from here. Queue
        groups do not count. Imports do not count either, because the publisher's cluster imports by
        itself.
        """
        return self._delivery.isWanted(subject)

    def answer(self, message: Message) -> int:
        """Deliver an answer to its original subject, as if it had been published here."""
        return self._delivery.publish(Kind.CLIENT, message)
