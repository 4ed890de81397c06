"""
The interest of an account, derived from its subscriptions.

Watchers learn of the first and the last subscription to a pattern (in a group), and of every change
of a group's weight; a late watcher receives the present interest, at once or over several batches.
Interest that ends before its turn is left out. Without watchers nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from natsbroker import hot
from natsbroker.accounts.batches import passOn
from natsbroker.interfaces import IInterestWatcher
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.subjects.subscription import Subscription
from natsbroker.wire.values import Kind

#: The default: what this broker serves itself.
_OTHERS = InterestFilter({Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE})

#: Subscriptions are counted by pattern, queue group and cluster of a leafnode.
_Key = tuple[bytes, bytes, bytes]

#: The work of counting a subscription, and of reporting one key to a watcher.
_COUNT = 10
_REPORT = 24

#: The binary logarithm of the entries that are copied in a unit of work.
_COPY = 2


class _Watch:
    __slots__ = ("reported", "watcher")

    def __init__(self, watcher: IInterestWatcher) -> None:
        self.watcher = watcher
        self.reported: set[_Key] | None = set()


class _Count:
    def __init__(
        self,
        interestFilter: InterestFilter,
        subscriptions: Iterable[Subscription],
        standIns: Iterable[Subscription],
        failed: Callable[[str], None],
    ) -> None:
        self.users = 0
        self._failed = failed
        self._interestFilter = interestFilter
        self._namesClusters = interestFilter.namesClusters
        self._weights: dict[_Key, int] = {}
        self._watches: dict[int, _Watch] = {}
        old = list(subscriptions)
        self._size = len(old)
        self._old = iter(old)
        # While the first subscriptions are counted: those counted so far, and those that ended
        # before.
        self._known: set[Subscription] | None = set()
        self._gone: set[Subscription] = set()
        for standIn in standIns:
            self.changed(standIn, standIn.weight, isStandIn=True)

    def _keyOf(self, subscription: Subscription) -> _Key | None:
        origin = self._interestFilter.originOf(subscription)
        return None if origin is None else (subscription.pattern, subscription.queue, origin)

    def __len__(self) -> int:
        return self._size

    def count(self) -> Iterator[int]:
        """Count the old subscriptions that still exist. Give the work of each step."""
        known, weights = self._known, self._weights
        if known is None:
            return
        for subscription in self._old:
            if subscription not in known and subscription not in self._gone:
                known.add(subscription)
                key = self._keyOf(subscription)
                if key is not None:
                    weights[key] = weights.get(key, 0) + subscription.weight
            yield _COUNT
        self._known = None
        self._gone = set()

    def report(self, number: int, watcher: IInterestWatcher) -> Iterator[int]:
        """Report all interest and later changes to a watcher. Give the work of each step."""
        watch = self._watches[number] = _Watch(watcher)
        keys = list(self._weights)
        yield len(keys) >> _COPY
        for key in keys:
            reported = watch.reported
            if reported is None or number not in self._watches:
                return
            weight = self._weights.get(key)
            if weight is not None and key not in reported:
                reported.add(key)
                pattern, queue, origin = key
                cluster = (origin,) if self._namesClusters else ()
                watcher.interestGained(pattern, queue, weight, *cluster)
            yield _REPORT
        watch.reported = None

    def stop(self, number: int) -> None:
        self._watches.pop(number, None)

    def changed(
        self,
        subscription: Subscription,
        difference: int,
        isNew: bool = False,
        isGone: bool = False,
        isStandIn: bool = False,
    ) -> None:
        """
        Note changed interest. C{isStandIn} marks other interest, with a different object each time.
        """
        known = self._known
        if known is not None and not isStandIn and subscription not in known:
            if isGone:
                self._gone.add(subscription)
            if not isNew:
                return
            known.add(subscription)
        key = self._keyOf(subscription)
        if key is None:
            return
        pattern, queue, origin = key
        cluster = (origin,) if self._namesClusters else ()
        before = self._weights.get(key, 0)
        weight = before + difference
        if weight:
            self._weights[key] = weight
        else:
            self._weights.pop(key, None)
        for watch in list(self._watches.values()):
            reported, watcher = watch.reported, watch.watcher
            if reported is not None:
                if before and key not in reported:
                    continue
                if weight:
                    reported.add(key)
                else:
                    reported.remove(key)
            try:
                if not weight:
                    watcher.interestLost(pattern, queue, *cluster)
                elif not before:
                    watcher.interestGained(pattern, queue, weight, *cluster)
                elif queue:
                    watcher.interestWeightChanged(pattern, queue, weight, *cluster)
            except BaseException:
                self._failed("An interest watcher failed")


class AccountInterest:
    def __init__(
        self,
        subscriptions: Iterable[Subscription],
        standIns: Callable[[], Iterable[Subscription]],
        batch: hot.FlushBatch,
        failed: Callable[[str], None] = passOn,
    ) -> None:
        """C{subscriptions} is read when the first watcher of a filter comes."""
        self._subscriptions = subscriptions
        self._standIns = standIns
        self._batch = batch
        self._failed = failed
        self._counts: dict[InterestFilter, _Count] = {}
        self._last = 0

    def watch(
        self,
        watcher: IInterestWatcher,
        interestFilter: InterestFilter | None = None,
        isPatient: bool = False,
        whenTold: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        interestFilter = interestFilter or _OTHERS
        count = self._counts.get(interestFilter)
        if count is None:
            count = self._counts[interestFilter] = _Count(
                interestFilter, self._subscriptions, self._standIns(), self._failed
            )
            self._batch.work += len(count) >> _COPY
        watched, number = count, self._last
        self._last += 1
        watched.users += 1
        isWatching = True

        def steps() -> Iterator[None]:
            for work in watched.count():
                self._batch.work += work
                yield
            if isWatching:
                for work in watched.report(number, watcher):
                    self._batch.work += work
                    yield
            if isWatching and whenTold is not None:
                whenTold()

        if isPatient:
            self._batch.backlog.exhaust(steps())
        else:
            for _ in steps():
                pass

        def stop() -> None:
            nonlocal isWatching
            if isWatching:
                isWatching = False
                watched.stop(number)
                watched.users -= 1
                if not watched.users and self._counts.get(interestFilter) is watched:
                    del self._counts[interestFilter]

        return stop

    def __bool__(self) -> bool:
        return bool(self._counts)

    def added(self, subscription: Subscription, isStandIn: bool = False) -> None:
        if self._counts:
            for count in list(self._counts.values()):
                count.changed(subscription, subscription.weight, True, isStandIn=isStandIn)

    def removed(self, subscription: Subscription, isStandIn: bool = False) -> None:
        if self._counts:
            for count in list(self._counts.values()):
                count.changed(subscription, -subscription.weight, False, True, isStandIn)

    def reweighed(self, subscription: Subscription, before: int) -> None:
        if self._counts and subscription.weight != before:
            for count in list(self._counts.values()):
                count.changed(subscription, subscription.weight - before)
