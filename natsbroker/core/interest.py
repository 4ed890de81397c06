"""
Interest edges: from single subscriptions to what other brokers must be told.

Promises: watchers hear of the first and the last subscription to a pattern (in a group), and of
every change of a group's weight; a watcher that comes late is told everything there is, at once or
as turns allow. What it has not been told of yet, and is gone, it never hears of.
Nothing is counted while nobody watches.
Must never know: links, dialects, or what a watcher does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from natsbroker import hot
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


#: The work of counting a subscription, and of telling a watcher of one key.
_COUNT = 10
_TELL = 24

#: The binary logarithm of how many entries are copied in a unit of work.
_COPY = 2


class _Count:
    """
    What one audience is told.

    @ivar users: how many watchers there are, those included who wait for being told.
    """

    def __init__(
        self,
        audience: Audience,
        subscriptions: Iterable[Subscription],
        standIns: Iterable[Subscription],
        failed: Callable[[str], None],
    ) -> None:
        """
        @param subscriptions: all there are; L{counted} counts them.
        @param standIns: what is counted at once.
        """
        self.users = 0
        self._failed = failed
        self._audience = audience
        self._weights: dict[_Key, int] = {}
        # What each watcher is still to be told of what there was when it came.
        self._watchers: dict[int, tuple[IInterestWatcher, dict[_Key, int]]] = {}
        there = list(subscriptions)
        self._uncounted = set(there)
        self._there = iter(there)
        for each in standIns:
            self.changed(each, each.weight)

    def _keyOf(self, subscription: Subscription) -> _Key | None:
        origin = self._audience.originOf(subscription)
        return None if origin is None else (subscription.pattern, subscription.queue, origin)

    def __len__(self) -> int:
        """
        How many subscriptions are still to be counted.
        """
        return len(self._uncounted)

    def counted(self) -> Iterator[int]:
        """
        Count what there was at the beginning and is still there.

        @return: the work of each step.
        """
        uncounted, weights = self._uncounted, self._weights
        for subscription in self._there:
            if subscription in uncounted:
                uncounted.remove(subscription)
                key = self._keyOf(subscription)
                if key is not None:
                    weights[key] = weights.get(key, 0) + subscription.weight
            yield _COUNT

    def told(self, number: int, watcher: IInterestWatcher) -> Iterator[int]:
        """
        Tell a watcher all there is, and have it told of changes from now on.

        @param number: tells the watcher apart.
        @return: the work of each step.
        """
        waiting = self._weights.copy()
        self._watchers[number] = watcher, waiting
        keys = list(waiting)
        yield len(keys) >> _COPY
        for key in keys:
            if number not in self._watchers:
                return
            if waiting.pop(key, None) is not None:
                pattern, queue, origin = key
                watcher.interestGained(pattern, queue, self._weights[key], *_named(origin))
            yield _TELL

    def stop(self, number: int) -> None:
        """
        Tell a watcher nothing more.
        """
        self._watchers.pop(number, None)

    def changed(self, subscription: Subscription, difference: int, isGone: bool = False) -> None:
        """
        There is more or less of a subscription.

        @param isGone: whether nothing is left of it.
        """
        if subscription in self._uncounted:
            if isGone:
                self._uncounted.remove(subscription)
            return
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
        for watcher, waiting in list(self._watchers.values()):
            if waiting and key in waiting:
                if not weight:
                    del waiting[key]
                continue
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
        subscriptions: Iterable[Subscription],
        standIns: Callable[[], Iterable[Subscription]],
        turn: hot.Turn,
        failed: Callable[[str], None] = passOn,
    ) -> None:
        """
        @param subscriptions: those of the account; looked at when the first watcher of an audience
            comes.
        @param standIns: makes what stands for other interest.
        @param turn: whose shares of work limit how much is told at once.
        @param failed: called with a sentence while an exception is handled that a watcher raised.
        """
        self._subscriptions = subscriptions
        self._standIns = standIns
        self._turn = turn
        self._failed = failed
        self._counts: dict[Audience, _Count] = {}
        self._last = 0

    def watch(
        self, watcher: IInterestWatcher, audience: Audience | None = None, isPatient: bool = False
    ) -> Callable[[], None]:
        """
        See L{natsbroker.interfaces.IMessageBus.watchInterest}.
        """
        audience = audience or _OTHERS
        count = self._counts.get(audience)
        if count is None:
            count = self._counts[audience] = _Count(
                audience, self._subscriptions, self._standIns(), self._failed
            )
            self._turn.work += len(count) >> _COPY
        watched, number = count, self._last
        self._last += 1
        watched.users += 1
        isWatching = True

        def steps() -> Iterator[None]:
            for work in watched.counted():
                self._turn.work += work
                yield
            if isWatching:
                for work in watched.told(number, watcher):
                    self._turn.work += work
                    yield

        if isPatient:
            self._turn.backlog.exhaust(steps())
        else:
            for _ in steps():
                pass

        def stop() -> None:
            nonlocal isWatching
            if isWatching:
                isWatching = False
                watched.stop(number)
                watched.users -= 1
                if not watched.users and self._counts.get(audience) is watched:
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
                count.changed(subscription, -subscription.weight, True)

    def reweighed(self, subscription: Subscription, before: int) -> None:
        """
        A subscription stands for another number of members of its group.

        @param before: how many it stood for.
        """
        if self._counts and subscription.weight != before:
            for count in list(self._counts.values()):
                count.changed(subscription, subscription.weight - before)
