"""
An account: its subscriptions, and the delivery of what is published in it.

Promises: a message reaches every plain subscription that matches and that its origin reaches,
exactly one member of every queue group, and every other broker at most once; subjects of one
account never reach another. This is the readable path; the compiled fast lane in front of it may
only ever do the same faster. A subscriber that raises harms only itself, and a filter that raises
lets nothing through; whoever made the account hears of both.
Must never know: connections, bytes on the wire, timers, or which services exist.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from random import Random
from typing import Any
from weakref import WeakValueDictionary

from natsbroker import hot
from natsbroker.core.batches import Batcher, passOn
from natsbroker.core.bus import Bus, GatewayBus
from natsbroker.core.clocks import Clock, Timeless
from natsbroker.core.exchange import Exchange
from natsbroker.core.gateways import Gateways
from natsbroker.core.interest import Interest
from natsbroker.core.links import (
    DIRECTED,
    Group,
    isDeserted,
    linkOf,
    mayForward,
    nearest,
    successors,
)
from natsbroker.core.reach import REACH
from natsbroker.core.relays import Passage, Relay
from natsbroker.interfaces import (
    IBatchSubscriber,
    IInterestWatcher,
    ILinkSubscriber,
    IOutboxLink,
    IOutboxSubscriber,
    IPublishFilter,
    IRunSubscriber,
    ISubjectRouter,
)
from natsbroker.subjects.audience import Audience
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.wire.backlog import DIVISIBLE, RECEIVER, SUBSCRIPTION
from natsbroker.wire.values import EVERY_GROUP, GroupMessage, Kind, Message

__all__ = ["Account", "Later"]

#: Takes what is left to do for a message with many receivers.
Later = Callable[[Generator[None, None, int]], None]


class Account:
    """
    One account of the broker.

    @ivar name: its name, as text.
    @ivar matcher: who is subscribed to a subject, remembered; the fast lane asks it too.
    @ivar filters: what decides for every message.
    @ivar random: for choices.
    @ivar clock: tells how long answers to imported services are waited for.
    @ivar exchange: what it has of other accounts, and they of it.
    @ivar gateways: what it sends to other clusters.
    @ivar isSystem: whether this is the system account.
    @ivar location: gives the name of this broker's cluster, empty for none, and those of the other
        clusters that are joined to it, nearest first.
    """

    def __init__(
        self,
        name: str,
        router: ISubjectRouter,
        turn: hot.Turn,
        random: Random | None = None,
        clock: Clock | None = None,
        remembers: bool = True,
        failed: Callable[[str], None] = passOn,
    ) -> None:
        """
        @param name: the account's name.
        @param router: an empty subject router of its own.
        @param turn: at whose end batch subscribers get what they were sent.
        @param random: chooses members of queue groups; a seeded one makes it repeatable.
        @param clock: an account without one cannot serve others.
        @param remembers: whether it remembers the router's answers.
        @param failed: called with a sentence while an exception is handled that a subscriber, a
            filter, a watcher or the router raised; by default it reaches the caller.
        """
        self.name = name
        self.filters: list[IPublishFilter] = []
        self.gateways = Gateways(self)
        merged = _Merged(router, self.gateways)
        self.matcher = hot.Matcher(merged) if remembers else hot.Matcher(merged, 0)
        self._poster = hot.Poster(self.matcher)
        self.random = random or Random()
        self.clock: Clock = clock or Timeless()
        self.isSystem = False
        self.location: Callable[[], tuple[str, tuple[str, ...]]] = lambda: ("", ())
        self._router = router
        self._turn = turn
        self.failed = failed
        self.exchange = Exchange(self)
        self._interest = Interest(
            router,
            lambda: chain(self.gateways.known(), self.exchange.mappedPatterns()),
            turn,
            failed,
        )
        # A batcher lives as long as its subscriptions, and keeps its subscriber, so the key holds.
        self._batchers: WeakValueDictionary[int, Batcher | hot.Collector] = WeakValueDictionary()
        self._buses = {kind: Bus(self, kind) for kind in Kind}
        self._buses[Kind.GATEWAY] = GatewayBus(self, Kind.GATEWAY)
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

    def attach(self, subscription: hot.Subscription) -> None:
        """
        Have a relay, or a leafnode of another account, get what matches its subscription.

        @raise natsbroker.errors.BrokerError: if the router takes no more.
        """
        pattern = subscription.pattern
        self._router.insert(pattern, subscription)
        self.matcher.changed(pattern)
        self._interest.added(subscription)
        if getattr(subscription.subscriber, "isTold", True):
            self.gateways.subscribed(pattern)

    def detach(self, subscription: hot.Subscription) -> None:
        """
        End a relay's subscription.
        """
        subscription.closed = True
        self._router.remove(subscription.pattern, subscription)
        self.matcher.changed(subscription.pattern)
        self._interest.removed(subscription)

    def refresh(self) -> None:
        """
        See L{natsbroker.interfaces.IMessageBus.refresh}.
        """
        self.matcher.changed(b">")
        self.exchange.refresh()

    @property
    def isWatched(self) -> bool:
        """
        Whether anybody is told of interest.
        """
        return bool(self._interest)

    def learned(self, subscription: hot.Subscription) -> None:
        """
        Something is wanted beyond other clusters' gateways.
        """
        self._interest.added(subscription)

    def unlearned(self, subscription: hot.Subscription) -> None:
        """
        It is not wanted any more.
        """
        self._interest.removed(subscription)

    def watch(
        self, watcher: IInterestWatcher, audience: Audience | None = None, isPatient: bool = False
    ) -> Callable[[], None]:
        """
        See L{natsbroker.interfaces.IMessageBus.watchInterest}.
        """
        return self._interest.watch(watcher, audience, isPatient)

    def subscribe(
        self, kind: Kind, pattern: bytes, subscriber: Any, tag: Any, queue: bytes, weight: int
    ) -> hot.Subscription:
        """
        See L{natsbroker.interfaces.IMessageBus.subscribe}.
        """
        if not isValidSubject(pattern):
            raise ValueError(f"not a valid subject: {pattern!r}")
        outbox = None
        if IOutboxSubscriber.providedBy(subscriber) or IOutboxLink.providedBy(subscriber):
            outbox = subscriber.outbox
            # What comes from elsewhere must not reach it, which lanes do not ask.
            outbox = None if kind is Kind.LOCAL else outbox
        elif IRunSubscriber.providedBy(subscriber) or IBatchSubscriber.providedBy(subscriber):
            subscriber = self._batcherFor(subscriber)
        subscription = hot.Subscription(
            self, pattern, queue, int(kind), subscriber, tag, outbox, weight=weight
        )
        self._turn.work += SUBSCRIPTION
        self._router.insert(pattern, subscription)
        self.matcher.changed(pattern)
        self._interest.added(subscription)
        self.gateways.subscribed(pattern)
        try:
            self.exchange.subscribed(subscription)
        except BaseException:
            subscription.cancel()
            raise
        return subscription

    def subscriptionCancelled(self, subscription: hot.Subscription) -> None:
        """
        Forget a subscription; called by the subscription itself.
        """
        self._turn.work += SUBSCRIPTION
        pattern = subscription.pattern
        try:
            self._router.remove(pattern, subscription)
        except BaseException:
            # What the router still finds is closed, and the account is done with it.
            self.failed("The router failed to remove a subscription")
        self.matcher.changed(pattern)
        self._interest.removed(subscription)
        self.exchange.unsubscribed(subscription)
        # Remembered answers may keep the subscription for a while, but not who it was for.
        subscription.subscriber = subscription.outbox = None

    def cancelAll(self, subscriptions: Iterable[hot.Subscription]) -> None:
        """
        See L{natsbroker.interfaces.IMessageBus.cancelAll}.
        """
        closed = hot.closeAll(subscriptions)
        self._turn.backlog.exhaust(map(self.subscriptionCancelled, closed))

    def subscriptionReweighed(self, subscription: hot.Subscription, weight: int) -> None:
        """
        A subscription stands for another number of members; called by the subscription itself.
        """
        before, subscription.weight = subscription.weight, weight
        self._interest.reweighed(subscription, before)
        self.exchange.reweighed(subscription)

    def subscriptionFinished(self, subscription: hot.Subscription) -> None:
        """
        Forget a subscription that had its last message, and tell its subscriber.
        """
        subscriber = subscription.subscriber
        subscription.closed = True
        self.subscriptionCancelled(subscription)
        try:
            subscriber.subscriptionEnded(subscription.tag)
        except BaseException:
            self.failed(f"The subscriber to {subscription.pattern!r} failed")

    def publish(
        self,
        kind: Kind,
        message: Message,
        passage: Passage | None = None,
        later: Later | None = None,
    ) -> int:
        """
        Deliver a message. See L{natsbroker.interfaces.IMessageBus.publish}.

        @param passage: the way it took through services of other accounts.
        """
        asked = message
        for each in list(self.filters):
            try:
                filtered = each.filterMessage(message, kind)
            except BaseException:
                self.failed("A publish filter failed, and what it was asked about is dropped")
                return 0
            if filtered is None:
                return 0
            message = filtered
        gateways = self.gateways
        if message.via:
            gateways.asked(message)
        elif kind in _OURS and gateways.debts:
            reached = gateways.returned(kind, message)
            if reached is not None:
                return reached
        matches = self.matcher.match(message.subject)
        if matches.tally is not None and kind is Kind.CLIENT and passage is None:
            matches.tally.add(1, len(message.body), matches.copies)
        count = len(matches.plain) + len(matches.groups)
        self._turn.work += self.matcher.takeCost() + count % _STEP * RECEIVER
        steps = self._deliver(kind, message, matches, passage, asked)
        if later is not None and count >= DIVISIBLE:
            later(steps)
            return -1
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return int(end.value)

    def _deliver(
        self,
        kind: Kind,
        message: Message,
        matches: hot.Matches,
        passage: Passage | None,
        asked: Message,
    ) -> Generator[None, None, int]:
        """
        Deliver a message to all that match, some receivers at each step.

        @param asked: the message as it was before filters: it names the groups.
        @return: how many receivers there were.
        """
        queues, delivered = asked.queues, 0
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]] = {}
        if not isinstance(asked, GroupMessage):
            for place, subscription in enumerate(matches.plain, 1):
                if self.deliverTo(subscription, message, kind, passage):
                    delivered += 1
                if not place % _STEP:
                    self._turn.work += _STEP * RECEIVER
                    yield
            if matches.links:
                links = self._plainLinks(kind, matches, message)
        for place, group in enumerate(matches.groups, 1):
            if not place % _STEP:
                self._turn.work += _STEP * RECEIVER
                yield
            if queues is not None:
                if group[0] not in queues:
                    continue
            elif kind in DIRECTED and passage is None:
                continue
            if self._deliverToGroup(kind, group, message, links, passage):
                delivered += 1
            elif queues and queues is not EVERY_GROUP and isDeserted(kind, group, message):
                self._chooseLink(successors(kind, matches, group, message), group[0], links)
        for link, chosen in links.values():
            link.forward(message, tuple(chosen))
        return delivered + len(links)

    def publishToLinks(self, kind: Kind, message: Message) -> int:
        """
        Deliver a message to other brokers alone.

        @return: how many there were.
        """
        matches = self.matcher.match(message.subject)
        links = self._plainLinks(kind, matches, message)
        for link, _ in links.values():
            link.forward(message, ())
        return len(links)

    def post(self, kind: Kind, subject: bytes, payload: bytes) -> int:
        """
        Deliver a message without reply subject and headers that nobody published. See
        L{natsbroker.interfaces.IMessageBus.post}.
        """
        delivered: int = self._poster.post(subject, payload)
        return delivered or self.publish(kind, Message(subject, payload))

    def postMany(self, kind: Kind, subject: bytes, payloads: list[bytes]) -> int:
        """
        The same for many messages to one subject, in order. See
        L{natsbroker.interfaces.IMessageBus.postMany}.
        """
        delivered: int = self._poster.postMany(subject, payloads)
        if not delivered:
            for payload in payloads:
                delivered = self.publish(kind, Message(subject, payload))
        return delivered

    def hasInterest(self, kind: Kind, subject: bytes, hops: int = 0) -> bool:
        """
        See L{natsbroker.interfaces.IMessageBus.hasInterest}.

        @param hops: how many imports a message would have passed before.
        """
        matches = self.matcher.match(subject)
        local = list(matches.plain)
        far = list(matches.links)
        for _, here, there in matches.groups:
            local += here
            far += there
        reached = REACH[kind]
        return any(subscription.kind in reached for subscription in far) or any(
            subscription.kind in reached and _takes(subscription.subscriber, subject, kind, hops)
            for subscription in local
        )

    def isWanted(self, subject: bytes) -> bool:
        """
        See L{natsbroker.interfaces.IGatewayBus.isWanted}.
        """
        matches = self.matcher.match(subject)
        reached = REACH[Kind.GATEWAY]
        return any(each.kind in reached and not each.closed for each in matches.links) or any(
            not isinstance(each.subscriber, Relay)
            or (each.subscriber.isTold and each.subscriber.reaches(subject, Kind.GATEWAY, 0))
            for each in matches.plain
            if each.kind in reached
        )

    def _plainLinks(
        self, kind: Kind, matches: hot.Matches, message: Message
    ) -> dict[int, tuple[ILinkSubscriber, list[bytes]]]:
        reached = REACH[kind]
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]] = {}
        for subscription in matches.links:
            subscriber = subscription.subscriber
            if subscription.kind in reached and mayForward(subscription, message):
                key = linkOf(subscription)
                if key not in links:
                    links[key] = (subscriber, [])
                    subscription.delivered += 1
        return links

    def _deliverToGroup(
        self,
        kind: Kind,
        group: Group,
        message: Message,
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]],
        passage: Passage | None,
    ) -> bool:
        """
        @return: whether a member here took it. One behind a link is added to C{links}.
        """
        name, here, there = group
        if here:
            start = self.random.randrange(len(here)) if len(here) > 1 else 0
            for subscription in here[start:] + here[:start]:
                if self.deliverTo(subscription, message, kind, passage):
                    return True
        reached = REACH[kind]
        candidates = [
            subscription
            for subscription in there
            if subscription.kind in reached and mayForward(subscription, message)
        ]
        self._chooseLink(nearest(candidates), name, links)
        return False

    def _chooseLink(
        self,
        candidates: list[hot.Subscription],
        queue: bytes,
        links: dict[int, tuple[ILinkSubscriber, list[bytes]]],
    ) -> None:
        if not candidates:
            return
        weights = [subscription.weight for subscription in candidates]
        chosen = self.random.choices(candidates, weights)[0]
        chosen.delivered += 1
        links.setdefault(linkOf(chosen), (chosen.subscriber, []))[1].append(queue)

    def deliverTo(
        self,
        subscription: hot.Subscription,
        message: Message,
        kind: Kind,
        passage: Passage | None,
    ) -> bool:
        """
        Give a message to one subscription, unless it has ended or may not have it.

        @return: whether anybody took it.
        """
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
        elif isinstance(subscriber, Relay):
            subscription.delivered += 1
            return subscriber.relay(message, kind, passage)
        elif subscriber is message.origin or subscription.kind not in REACH[kind]:
            return False
        subscription.delivered += 1
        try:
            subscriber.deliver(message, subscription.tag)
        except BaseException:
            self.failed(f"The subscriber to {subscription.pattern!r} failed")
        if subscription.maximum and subscription.delivered >= subscription.maximum:
            self.subscriptionFinished(subscription)
        return True

    def _batcherFor(self, subscriber: Any) -> Batcher | hot.Collector:
        batcher = self._batchers.get(id(subscriber))
        if batcher is None:
            make = hot.Collector if IRunSubscriber.providedBy(subscriber) else Batcher
            batcher = self._batchers[id(subscriber)] = make(subscriber, self._turn, self.failed)
        return batcher


#: So many receivers are one step of a delivery.
_STEP = 16

#: Those who answer requests of other clusters by themselves.
_OURS = frozenset({Kind.CLIENT, Kind.INTERNAL})


class _Merged:
    """
    The answers of an account's router, with what other clusters want.
    """

    __slots__ = ("_gateways", "_match", "_router")

    def __init__(self, router: ISubjectRouter, gateways: Gateways) -> None:
        self._router = router
        self._match = router.match
        self._gateways = gateways

    @property
    def shapes(self) -> int:
        """
        How many shapes of wildcards the router looks at for each subject, if it says.
        """
        return int(getattr(self._router, "shapes", 0))

    def match(self, subject: bytes) -> Iterable[Any]:
        """
        All entries for a literal subject.
        """
        return self._gateways.match(self._match(subject), subject)


def _takes(subscriber: Any, subject: bytes, kind: Kind, hops: int) -> bool:
    """
    Whether a subscriber would take a message.
    """
    return not isinstance(subscriber, Relay) or subscriber.reaches(subject, kind, hops)
