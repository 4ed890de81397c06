"""
An account: its subscriptions, and the delivery of what is published in it.

Promises: a message reaches every plain subscription that matches and that its origin reaches,
exactly one member of every queue group, and every other broker at most once; subjects of one
account never reach another. This is the readable path; the compiled fast lane in front of it may
only ever do the same faster.
Must never know: connections, bytes on the wire, timers, or which services exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, cast
from weakref import WeakValueDictionary

from zope.interface import implementer

from natsbroker import hot
from natsbroker.core.interest import Interest
from natsbroker.core.reach import REACH
from natsbroker.interfaces import (
    IBatchSubscriber,
    IInterestWatcher,
    ILinkSubscriber,
    IMessageBus,
    IOutboxSubscriber,
    IPublishFilter,
    ISubjectRouter,
    ISubscriber,
    ISubscription,
)
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.wire.values import Kind, Message

__all__ = ["Account", "Bus"]


class Account:
    """
    One account of the broker.

    @ivar name: its name, as text.
    @ivar matcher: who is subscribed to a subject, remembered; the fast lane asks it too.
    @ivar filters: what decides for every message.
    """

    def __init__(
        self, name: str, router: ISubjectRouter, turn: hot.Turn, random: Random | None = None
    ) -> None:
        """
        @param name: the account's name.
        @param router: an empty subject router of its own.
        @param turn: at whose end batch subscribers get what they were sent.
        @param random: chooses members of queue groups; a seeded one makes it repeatable.
        """
        self.name = name
        self.filters: list[IPublishFilter] = []
        self.matcher = hot.Matcher(router)
        self._router = router
        self._turn = turn
        self._random = random or Random()
        self._interest = Interest(self.subscriptions)
        # A batcher lives as long as its subscriptions, and keeps its subscriber, so the key holds.
        self._batchers: WeakValueDictionary[int, _Batcher] = WeakValueDictionary()
        self._buses = {kind: Bus(self, kind) for kind in Kind}
        router.watchChanges(self.matcher.changed)

    def busFor(self, kind: Kind) -> Bus:
        """
        The door to this account for one kind of origin.
        """
        return self._buses[kind]

    def subscriptions(self) -> Iterator[hot.Subscription]:
        """
        All subscriptions there are, in any order.
        """
        return iter(self._router)

    def __len__(self) -> int:
        return len(self._router)

    def addFilter(self, publishFilter: IPublishFilter) -> Callable[[], None]:
        """
        Have something decide for every message; the account leaves the fast lane while it has a
        filter.

        @return: a callable without arguments that takes the filter out.
        """
        self.filters.append(publishFilter)
        self.matcher.readable = True

        def remove() -> None:
            self.filters.remove(publishFilter)
            self.matcher.readable = bool(self.filters)

        return remove

    def watch(self, watcher: IInterestWatcher) -> Callable[[], None]:
        """
        See L{natsbroker.interfaces.IMessageBus.watchInterest}.
        """
        return self._interest.watch(watcher)

    def subscribe(
        self, kind: Kind, pattern: bytes, subscriber: Any, tag: Any, queue: bytes, weight: int
    ) -> hot.Subscription:
        """
        See L{natsbroker.interfaces.IMessageBus.subscribe}.
        """
        if not isValidSubject(pattern):
            raise ValueError(f"not a valid subject: {pattern!r}")
        outbox = None
        if IOutboxSubscriber.providedBy(subscriber):
            outbox = subscriber.outbox
        elif IBatchSubscriber.providedBy(subscriber):
            subscriber = self._batcherFor(subscriber)
        subscription = hot.Subscription(
            self, pattern, queue, int(kind), subscriber, tag, outbox, weight=weight
        )
        self._router.insert(pattern, subscription)
        self.matcher.changed(pattern)
        self._interest.added(subscription)
        return subscription

    def subscriptionCancelled(self, subscription: hot.Subscription) -> None:
        """
        Forget a subscription; called by the subscription itself.
        """
        self._router.remove(subscription.pattern, subscription)
        self.matcher.changed(subscription.pattern)
        self._interest.removed(subscription)
        # Remembered answers may keep the subscription for a while, but not who it was for.
        subscription.subscriber = subscription.outbox = None

    def subscriptionFinished(self, subscription: hot.Subscription) -> None:
        """
        Forget a subscription that had its last message, and tell its subscriber.
        """
        subscriber = subscription.subscriber
        subscription.closed = True
        self.subscriptionCancelled(subscription)
        subscriber.subscriptionEnded(subscription.tag)

    def publish(self, kind: Kind, message: Message) -> int:
        """
        Deliver a message. See L{natsbroker.interfaces.IMessageBus.publish}.
        """
        for each in list(self.filters):
            filtered = each.filterMessage(message, kind)
            if filtered is None:
                return 0
            message = filtered
        matches = self.matcher.match(message.subject)
        delivered = 0
        for subscription in matches.plain:
            if self._deliver(subscription, message):
                delivered += 1
        if not (matches.links or matches.groups):
            return delivered
        links = self._plainLinks(kind, matches, message)
        for group in matches.groups:
            if message.queues is not None:
                if group[0] not in message.queues:
                    continue
            elif kind in _DIRECTED:
                continue
            delivered += self._deliverToGroup(kind, group, message, links)
        for link, queues in links.values():
            link.forward(message, tuple(queues))
        return delivered + len(links)

    def hasInterest(self, kind: Kind, subject: bytes) -> bool:
        """
        See L{natsbroker.interfaces.IMessageBus.hasInterest}.
        """
        matches = self.matcher.match(subject)
        reached = REACH[kind]
        if matches.plain or any(subscription.kind in reached for subscription in matches.links):
            return True
        return any(
            here or any(subscription.kind in reached for subscription in there)
            for _, here, there in matches.groups
        )

    def _plainLinks(
        self, kind: Kind, matches: hot.Matches, message: Message
    ) -> dict[int, tuple[ILinkSubscriber, list[bytes]]]:
        reached = REACH[kind]
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]] = {}
        for subscription in matches.links:
            subscriber = subscription.subscriber
            if subscription.closed or subscriber is message.origin:
                continue
            if subscription.kind in reached:
                links.setdefault(id(subscriber), (subscriber, []))
        return links

    def _deliverToGroup(
        self,
        kind: Kind,
        group: tuple[bytes, tuple[hot.Subscription, ...], tuple[hot.Subscription, ...]],
        message: Message,
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]],
    ) -> int:
        name, here, there = group
        if here:
            start = self._random.randrange(len(here)) if len(here) > 1 else 0
            for subscription in here[start:] + here[:start]:
                if self._deliver(subscription, message):
                    return 1
        reached = REACH[kind]
        candidates = [
            subscription
            for subscription in there
            if subscription.kind in reached
            and subscription.subscriber is not message.origin
            and not subscription.closed
        ]
        if candidates:
            weights = [subscription.weight for subscription in candidates]
            chosen = self._random.choices(candidates, weights)[0].subscriber
            links.setdefault(id(chosen), (chosen, []))[1].append(name)
        return 0

    def _deliver(self, subscription: hot.Subscription, message: Message) -> bool:
        subscriber = subscription.subscriber
        outbox = subscription.outbox
        if subscription.closed:
            return False
        if outbox is not None:
            if outbox.closed or (subscriber is message.origin and not outbox.echo):
                return False
            permissions = subscription.permissions
            if permissions is not None and not permissions.mayDeliver(
                message.subject, subscription.queue
            ):
                return False
        subscription.delivered += 1
        subscriber.deliver(message, subscription.tag)
        if subscription.maximum and subscription.delivered >= subscription.maximum:
            self.subscriptionFinished(subscription)
        return True

    def _batcherFor(self, subscriber: IBatchSubscriber) -> _Batcher:
        batcher = self._batchers.get(id(subscriber))
        if batcher is None:
            batcher = self._batchers[id(subscriber)] = _Batcher(subscriber, self._turn)
        return batcher


#: Links whose sender has chosen the queue groups: without a list, only plain subscriptions.
_DIRECTED = frozenset({Kind.ROUTE, Kind.GATEWAY, Kind.HUB, Kind.SPOKE})


@implementer(ISubscriber)
class _Batcher:
    """
    Collects what a turn brings a batch subscriber, which gets it in one call at the turn's end.
    """

    def __init__(self, subscriber: IBatchSubscriber, turn: hot.Turn) -> None:
        self._subscriber = subscriber
        self._turn = turn
        self._messages: list[tuple[Message, Any]] = []

    def deliver(self, message: Message, tag: Any) -> None:
        """
        Keep a message for the turn's end.
        """
        if not self._messages:
            self._turn.atEnd(self._deliverMany)
        self._messages.append((message, tag))

    def subscriptionEnded(self, tag: Any) -> None:
        """
        Say so, after the messages that came before.
        """
        self._deliverMany()
        self._subscriber.subscriptionEnded(tag)

    def _deliverMany(self) -> None:
        messages, self._messages = self._messages, []
        if messages:
            self._subscriber.deliverMany(messages)


@implementer(IMessageBus)
class Bus:
    """
    The door to an account for one kind of origin.

    @ivar account: the account's name.
    @ivar kind: the kind of origin.
    """

    __slots__ = ("_account", "account", "kind")

    def __init__(self, account: Account, kind: Kind) -> None:
        self._account = account
        self.account = account.name
        self.kind = kind

    @property
    def matcher(self) -> hot.Matcher:
        """
        For the fast lane: who is subscribed to a subject.
        """
        return self._account.matcher

    def publish(self, message: Message) -> int:
        """
        See L{IMessageBus.publish}.
        """
        return self._account.publish(self.kind, message)

    def subscribe(
        self,
        pattern: bytes,
        subscriber: ISubscriber | ILinkSubscriber,
        tag: Any = None,
        queue: bytes = b"",
        weight: int = 1,
    ) -> ISubscription:
        """
        See L{IMessageBus.subscribe}.
        """
        return cast(
            ISubscription,
            self._account.subscribe(self.kind, pattern, subscriber, tag, queue, weight),
        )

    def hasInterest(self, subject: bytes) -> bool:
        """
        See L{IMessageBus.hasInterest}.
        """
        return self._account.hasInterest(self.kind, subject)

    def watchInterest(self, watcher: IInterestWatcher) -> Callable[[], None]:
        """
        See L{IMessageBus.watchInterest}.
        """
        return self._account.watch(watcher)
