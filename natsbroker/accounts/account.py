"""
An account: who is subscribed in it, and who watches that.

A subscription counts from the moment that it is made until it ends; subjects of one
account never reach another; the owner of the account hears of a subscriber that raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from random import Random
from typing import Any
from weakref import WeakValueDictionary

from natsbroker import hot
from natsbroker.accounts.batches import Batcher, passOn
from natsbroker.accounts.bus import Bus, GatewayBus
from natsbroker.accounts.clocks import Clock, Timeless
from natsbroker.accounts.delivery import Delivery
from natsbroker.accounts.exchange import Exchange
from natsbroker.accounts.gateways import GatewayTargets
from natsbroker.accounts.interest import AccountInterest
from natsbroker.connections.backlog import SUBSCRIPTION
from natsbroker.interfaces import (
    IBatchSubscriber,
    IInterestWatcher,
    IOutboxLink,
    IOutboxSubscriber,
    IRunSubscriber,
    ISubjectRouter,
)
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.wire.values import Kind

__all__ = ["Account"]


class Account:
    """
    One account of the broker.

    @ivar name: its name, as text.
    @ivar matcher: who is subscribed to a subject, remembered; the fast lane asks it too.
    @ivar random: for choices.
    @ivar delivery: gives messages to the subscriptions.
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
        turn: hot.FlushBatch,
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
        self.gateways = GatewayTargets(self)
        merged = _Merged(router, self.gateways)
        self.matcher = hot.Matcher(merged) if remembers else hot.Matcher(merged, 0)
        self.random = random or Random()
        self.clock: Clock = clock or Timeless()
        self.isSystem = False
        self.location: Callable[[], tuple[str, tuple[str, ...]]] = lambda: ("", ())
        self._router = router
        self._turn = turn
        self.failed = failed
        self.delivery = Delivery(self, turn)
        self.exchange = Exchange(self)
        self._interest = AccountInterest(
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
        The bus to this account for one kind of origin.
        """
        return self._buses[kind]

    def subscriptions(self) -> Iterator[hot.Subscription]:
        """
        All subscriptions there are, in any order.
        """
        return iter(self._router)

    def __len__(self) -> int:
        return len(self._router)

    def attach(self, subscription: hot.Subscription) -> None:
        """
        Have a relay, or a leafnode of another account, get what matches its subscription.

        @raise natsbroker.errors.BrokerError: if the router takes no more.
        """
        pattern = subscription.pattern
        self._router.insert(pattern, subscription)
        self.matcher.changed(pattern)
        self._interest.added(subscription)
        if getattr(subscription.subscriber, "isAdvertised", True):
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
        self._interest.added(subscription, True)

    def unlearned(self, subscription: hot.Subscription) -> None:
        """
        It is not wanted any more.
        """
        self._interest.removed(subscription, True)

    def watch(
        self,
        watcher: IInterestWatcher,
        interestFilter: InterestFilter | None = None,
        isPatient: bool = False,
        whenTold: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        return self._interest.watch(watcher, interestFilter, isPatient, whenTold)

    def subscribe(
        self, kind: Kind, pattern: bytes, subscriber: Any, tag: Any, queue: bytes, weight: int
    ) -> hot.Subscription:
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

    def _batcherFor(self, subscriber: Any) -> Batcher | hot.Collector:
        batcher = self._batchers.get(id(subscriber))
        if batcher is None:
            make = hot.Collector if IRunSubscriber.providedBy(subscriber) else Batcher
            batcher = self._batchers[id(subscriber)] = make(subscriber, self._turn, self.failed)
        return batcher


class _Merged:
    """
    The answers of an account's router, with what other clusters want.
    """

    __slots__ = ("_gateways", "_match", "_router")

    def __init__(self, router: ISubjectRouter, gateways: GatewayTargets) -> None:
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
