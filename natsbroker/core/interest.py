"""
Interest edges: from single subscriptions to what other brokers must be told.

Promises: watchers hear of the first and the last subscription to a pattern (in a group), and of
every change of a group's weight; a watcher that comes late is told everything there is first.
Nothing is counted while nobody watches.
Must never know: links, dialects, or what a watcher does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from natsbroker.interfaces import IInterestWatcher
from natsbroker.subjects.subscription import Subscription
from natsbroker.wire.values import Kind

__all__ = ["Interest"]

#: The kinds whose subscriptions other brokers are told of: what this broker itself serves.
_TOLD = frozenset({Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE})


class Interest:
    """
    The interest of one account.
    """

    def __init__(self, subscriptions: Callable[[], Iterable[Subscription]]) -> None:
        """
        @param subscriptions: gives all subscriptions of the account; asked for when the first
            watcher comes.
        """
        self._subscriptions = subscriptions
        self._watchers: list[IInterestWatcher] = []
        self._weights: dict[tuple[bytes, bytes], int] = {}

    def watch(self, watcher: IInterestWatcher) -> Callable[[], None]:
        """
        See L{natsbroker.interfaces.IMessageBus.watchInterest}.
        """
        if not self._watchers:
            self._count()
        self._watchers.append(watcher)
        for (pattern, queue), weight in list(self._weights.items()):
            watcher.interestGained(pattern, queue, weight)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)
                if not self._watchers:
                    self._weights.clear()

        return stop

    def added(self, subscription: Subscription) -> None:
        """
        A subscription was made.
        """
        if not self._watchers or subscription.kind not in _TOLD:
            return
        key = (subscription.pattern, subscription.queue)
        before = self._weights.get(key, 0)
        weight = self._weights[key] = before + subscription.weight
        for watcher in list(self._watchers):
            if not before:
                watcher.interestGained(*key, weight)
            elif subscription.queue:
                watcher.interestWeightChanged(*key, weight)

    def removed(self, subscription: Subscription) -> None:
        """
        A subscription ended.
        """
        if not self._watchers or subscription.kind not in _TOLD:
            return
        key = (subscription.pattern, subscription.queue)
        weight = self._weights[key] - subscription.weight
        if weight:
            self._weights[key] = weight
        else:
            del self._weights[key]
        for watcher in list(self._watchers):
            if not weight:
                watcher.interestLost(*key)
            elif subscription.queue:
                watcher.interestWeightChanged(*key, weight)

    def _count(self) -> None:
        for subscription in self._subscriptions():
            if subscription.kind in _TOLD:
                key = (subscription.pattern, subscription.queue)
                self._weights[key] = self._weights.get(key, 0) + subscription.weight
