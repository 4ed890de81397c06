"""
Interest edges: from single subscriptions to what other brokers must be told.

Promises: watchers hear of the first and the last subscription to a pattern (in a group), and of
every change of a group's weight; a watcher that comes late is told everything there is first.
Nothing is counted while nobody watches.
Must never know: links, dialects, or what a watcher does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from natsbroker.core.batches import passOn
from natsbroker.interfaces import IInterestWatcher
from natsbroker.subjects.audience import Audience
from natsbroker.subjects.subscription import Subscription
from natsbroker.wire.values import Kind

__all__ = ["Interest"]

#: Those who are told what this broker itself serves.
_OTHERS = Audience({Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE})

#: What is counted together: a pattern, a queue group, and the cluster of a leafnode.
_Key = tuple[bytes, bytes, bytes]


class _Count:
    """
    What one audience is told.
    """

    def __init__(
        self,
        audience: Audience,
        subscriptions: Iterable[Subscription],
        failed: Callable[[str], None],
    ) -> None:
        self.watchers: list[IInterestWatcher] = []
        self._failed = failed
        self._audience = audience
        self._weights: dict[_Key, int] = {}
        for subscription in subscriptions:
            key = self._keyOf(subscription)
            if key is not None:
                self._weights[key] = self._weights.get(key, 0) + subscription.weight

    def _keyOf(self, subscription: Subscription) -> _Key | None:
        origin = self._audience.originOf(subscription)
        return None if origin is None else (subscription.pattern, subscription.queue, origin)

    def tell(self, watcher: IInterestWatcher) -> None:
        """
        Tell somebody all there is.
        """
        for (pattern, queue, origin), weight in list(self._weights.items()):
            watcher.interestGained(pattern, queue, weight, *_named(origin))

    def changed(self, subscription: Subscription, difference: int) -> None:
        """
        There is more or less of a subscription.
        """
        key = self._keyOf(subscription)
        if key is None:
            return
        pattern, queue, origin = key
        before = self._weights.get(key, 0)
        weight = before + difference
        if weight:
            self._weights[key] = weight
        else:
            self._weights.pop(key, None)
        for watcher in list(self.watchers):
            try:
                if not weight:
                    watcher.interestLost(pattern, queue, *_named(origin))
                elif not before:
                    watcher.interestGained(pattern, queue, weight, *_named(origin))
                elif queue:
                    watcher.interestWeightChanged(pattern, queue, weight, *_named(origin))
            except BaseException:
                self._failed("An interest watcher failed")


def _named(origin: bytes) -> tuple[bytes, ...]:
    return (origin,) if origin else ()


class Interest:
    """
    The interest of one account.
    """

    def __init__(
        self,
        subscriptions: Callable[[], Iterable[Subscription]],
        failed: Callable[[str], None] = passOn,
    ) -> None:
        """
        @param subscriptions: gives all subscriptions of the account; asked for when the first
            watcher of an audience comes.
        @param failed: called with a sentence while an exception is handled that a watcher raised.
        """
        self._subscriptions = subscriptions
        self._failed = failed
        self._counts: dict[Audience, _Count] = {}

    def watch(
        self, watcher: IInterestWatcher, audience: Audience | None = None
    ) -> Callable[[], None]:
        """
        See L{natsbroker.interfaces.IMessageBus.watchInterest}.
        """
        audience = audience or _OTHERS
        count = self._counts.get(audience)
        if count is None:
            count = self._counts[audience] = _Count(audience, self._subscriptions(), self._failed)
        watched = count
        watched.watchers.append(watcher)
        watched.tell(watcher)

        def stop() -> None:
            if watcher in watched.watchers:
                watched.watchers.remove(watcher)
                if not watched.watchers and self._counts.get(audience) is watched:
                    del self._counts[audience]

        return stop

    def __bool__(self) -> bool:
        """
        Whether anybody is told.
        """
        return bool(self._counts)

    def added(self, subscription: Subscription) -> None:
        """
        A subscription was made.
        """
        if self._counts:
            for count in list(self._counts.values()):
                count.changed(subscription, subscription.weight)

    def removed(self, subscription: Subscription) -> None:
        """
        A subscription ended.
        """
        if self._counts:
            for count in list(self._counts.values()):
                count.changed(subscription, -subscription.weight)

    def reweighed(self, subscription: Subscription, before: int) -> None:
        """
        A subscription stands for another number of members of its group.

        @param before: how many it stood for.
        """
        if self._counts and subscription.weight != before:
            for count in list(self._counts.values()):
                count.changed(subscription, subscription.weight - before)
