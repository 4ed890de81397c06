"""
The consumers of a stream, by name and by the subjects of the messages that they deliver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from natsbroker import hot
from natsbroker.interfaces.records import Record
from natsbroker.jetstream.consumers.cursor import StoredCount
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.steps import PIECE, Steps, finish
from natsbroker.subjects.verdicts import indexing

if TYPE_CHECKING:
    from natsbroker.jetstream.consumers.consumer import Consumer

#: Wildcard shapes are not capped: a consumer brings one for each of its filters at most.
_SHAPES = 1 << 30

#: The most outdated entries of C{_lows} that are kept.
_OUTDATED = 64

#: Subjects of which the consumers are remembered.
_SUBJECTS = 8192


class FilterGroup(StoredCount):
    """
    The consumers of a stream that have the same filters, none for all messages.

    Consumers that cannot deliver sleep. They cost nothing when messages are stored, and count what
    they missed when they are used again.

    @ivar placed: the number of its filters that are in the table's index.
    @ivar users: the number of tasks that are about to add a consumer.
    @ivar removals: how often messages were removed that no other group wants.
    @ivar lastRemoved: the highest sequence of these.
    """

    def __init__(self, filters: tuple[bytes, ...]) -> None:
        self.filters = filters
        self.placed = self.users = 0
        self.members: dict[str, Consumer] = {}
        self._awake: dict[str, Consumer] = {}
        self.removals = self.lastRemoved = 0

    def add(self, consumer: Consumer) -> None:
        self.members[consumer.name] = self._awake[consumer.name] = consumer

    def remove(self, consumer: Consumer) -> None:
        del self.members[consumer.name]
        self._awake.pop(consumer.name, None)

    def stored(self, records: Sequence[Record], last: int) -> None:
        """
        Hand messages to the consumers that are awake.

        @param records: at least one, in order of sequence.
        @param last: the sequence up to which there are no others that the group wants.
        """
        self.count += len(records)
        self.last = last
        for name, consumer in list(self._awake.items()):
            if consumer.stored(records, last) and name in self._awake:
                del self._awake[name]
                consumer.core.cursor.sleep(self, partial(self._wake, consumer))

    def _wake(self, consumer: Consumer) -> None:
        if self.members.get(consumer.name) is consumer:
            self._awake[consumer.name] = consumer


class ConsumerTable(Mapping[str, "Consumer"]):
    """
    The consumers of a stream. A message is matched with all filters at once, so that consumers that
    do not want it cost nothing.

    @ivar shown: the number of those that are not a mirror's or source's.
    @ivar announced: the last sequence up to which consumers know the messages that they want.
    @ivar removals: how often single messages were removed that any group may want.
    @ivar lastRemoved: the highest sequence of these.
    """

    def __init__(self, later: Callable[[Steps[None]], object] = finish) -> None:
        """C{later} does work in steps, for which nothing waits."""
        self._later = later
        self._byName: dict[str, Consumer] = {}
        self._groups: dict[tuple[bytes, ...], FilterGroup] = {}
        self._filtered: hot.SubjectIndex[FilterGroup] = hot.SubjectIndex(_SHAPES)
        self._recent: dict[bytes, tuple[FilterGroup, ...]] = {}
        self._alike: dict[tuple[FilterGroup, ...], tuple[FilterGroup, ...]] = {}
        self._holding: dict[str, Consumer] = {}
        # For each consumer that holds messages, a sequence below which it holds none.
        self._lowest: dict[str, float] = {}
        self._lows: list[tuple[float, str]] = []
        self.announced = self.removals = self.lastRemoved = self.shown = 0

    def __getitem__(self, name: str) -> Consumer:
        return self._byName[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._byName)

    def __len__(self) -> int:
        return len(self._byName)

    @property
    def configs(self) -> Mapping[str, ConsumerConfig]:
        return _ConsumerConfigs(self._byName)

    def add(self, consumer: Consumer) -> None:
        self._byName[consumer.name] = consumer
        self.shown += not consumer.config.direct
        self.mayHold(consumer)
        self._list(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, unless another one has its name now."""
        if self._byName.get(consumer.name) is consumer:
            del self._byName[consumer.name]
            self.shown -= not consumer.config.direct
            self._release(consumer.name)
            self._unlist(consumer, consumer.filters)

    def mayHold(self, consumer: Consumer) -> None:
        """Notify a consumer of removals: it may have read or delivered messages."""
        if self._byName.get(consumer.name) is consumer:
            self._holding[consumer.name] = consumer
            self._noteLowest(consumer)

    def _noteLowest(self, consumer: Consumer) -> None:
        name, lowest = consumer.name, consumer.lowest
        if lowest < self._lowest.get(name, lowest + 1):
            self._lowest[name] = lowest
            heappush(self._lows, (lowest, name))
            if len(self._lows) > _OUTDATED + 2 * len(self._lowest):
                self._lows = [(known, noted) for noted, known in self._lowest.items()]
                heapify(self._lows)

    def _release(self, name: str) -> None:
        self._holding.pop(name, None)
        self._lowest.pop(name, None)

    def refiltered(self, consumer: Consumer, previous: tuple[bytes, ...]) -> None:
        if self._byName.get(consumer.name) is consumer:
            self._unlist(consumer, previous)
            self._list(consumer)

    def _list(self, consumer: Consumer) -> None:
        group = self._groupOf(consumer.filters)
        finish(self._place(group))
        if not group.members:
            self._forget()
        group.add(consumer)

    def prepare(self, filters: tuple[bytes, ...]) -> Steps[None]:
        """
        Make room for a consumer with many filters, so that it can be added at once. L{release} has
        to follow.
        """
        if self._isLong(filters):
            group = self._groupOf(filters)
            group.users += 1
            yield from indexing(filters)
            yield from self._place(group)

    def release(self, filters: tuple[bytes, ...]) -> None:
        """End what L{prepare} began, whether or not there is a consumer now."""
        if self._isLong(filters):
            group = self._groups[filters]
            group.users -= 1
            self._drop(group)

    @staticmethod
    def _isLong(filters: tuple[bytes, ...]) -> bool:
        return len(filters) > PIECE

    def _groupOf(self, filters: tuple[bytes, ...]) -> FilterGroup:
        group = self._groups.get(filters)
        if group is None:
            group = self._groups[filters] = FilterGroup(filters)
        return group

    def _place(self, group: FilterGroup) -> Steps[None]:
        """
        Put a group without members into the index, under its filters. Others may do so at the same
        time.
        """
        while group.placed < len(group.filters):
            some = group.filters[group.placed : group.placed + PIECE]
            for pattern in some:
                self._filtered.insert(pattern, group)
            group.placed += len(some)
            yield

    def _unlist(self, consumer: Consumer, filters: tuple[bytes, ...]) -> None:
        group = self._groups[filters]
        group.remove(consumer)
        self._drop(group)

    def _drop(self, group: FilterGroup) -> None:
        """Forget a group that nobody uses. Without members, it may stay in the index."""
        if group.members or group.users:
            return
        del self._groups[group.filters]
        displacing = self._displace(group)
        if self._isLong(group.filters):
            self._later(displacing)
        else:
            finish(displacing)

    def _displace(self, group: FilterGroup) -> Steps[None]:
        while group.placed:
            some = group.filters[max(group.placed - PIECE, 0) : group.placed]
            for pattern in some:
                self._filtered.remove(pattern, group)
            group.placed -= len(some)
            yield
        self._forget()

    @property
    def isFiltered(self) -> bool:
        return len(self._groups) > (() in self._groups)

    def isWanted(self, subject: bytes) -> bool:
        """Whether a consumer delivers messages with a subject."""
        if () in self._groups:
            return True
        return any(group.members for group in self._wanting(subject))

    def wanting(self, subject: bytes) -> list[Consumer]:
        """The consumers that deliver messages with a subject."""
        groups = list(self._wanting(subject)) if self.isFiltered else []
        if () in self._groups:
            groups.insert(0, self._groups[()])
        return [consumer for group in groups for consumer in group.members.values()]

    def _wanting(self, subject: bytes) -> tuple[FilterGroup, ...]:
        """The groups with a filter for a subject. Subjects of the same groups share one tuple."""
        wanting = self._recent.get(subject)
        if wanting is None:
            if len(self._recent) >= _SUBJECTS:
                self._forget()
            wanting = tuple(dict.fromkeys(self._filtered.match(subject)))
            wanting = self._recent[subject] = self._alike.setdefault(wanting, wanting)
        return wanting

    def _forget(self) -> None:
        self._recent.clear()
        self._alike.clear()

    def stored(self, records: Sequence[Record]) -> None:
        """Hand durable messages, in order of sequence, to the consumers that want them."""
        last = records[-1].sequence
        if () in self._groups:
            self._groups[()].stored(records, last)
        if self.isFiltered:
            for group, wanted in self._shares(records).items():
                group.stored(wanted, last)
        self.announced = last

    def removed(
        self,
        sequences: Collection[int],
        before: int = 0,
        isPurge: bool = False,
        filters: tuple[bytes, ...] = (),
    ) -> None:
        """
        Notify consumers of removed messages: single ones, and all below C{before}. Consumers that
        hold none notice when they are asked for a message, unless a purge moves them.

        @param filters: those of the only consumers that want the single messages; empty if others
            may want them.
        """
        group = self._groups.get(filters) if filters else None
        if sequences:
            noted = self if group is None else group
            noted.removals += 1
            noted.lastRemoved = max(noted.lastRemoved, max(sequences))
        for consumer in self._concerned(bool(sequences), before, isPurge, group):
            consumer.removed(sequences, before, isPurge)
            if not consumer.isHolding:
                self._release(consumer.name)
            elif consumer.name in self._holding:
                self._noteLowest(consumer)

    def _concerned(
        self, isSingle: bool, before: int, isPurge: bool, group: FilterGroup | None
    ) -> list[Consumer]:
        """The consumers to notify of a removal."""
        if isPurge and before:
            return list(self._byName.values())
        if not isSingle:
            return [self._holding[name] for name in self._takeBelow(before)]
        if group is None or before:
            return list(self._holding.values())
        return [consumer for name, consumer in group.members.items() if name in self._holding]

    def _takeBelow(self, before: int) -> list[str]:
        """
        The consumers that may hold messages below a sequence. They are to be asked what they hold.
        """
        names: list[str] = []
        while self._lows and self._lows[0][0] < before:
            lowest, name = heappop(self._lows)
            if self._lowest.get(name) == lowest:
                del self._lowest[name]
                names.append(name)
        return names

    def removalsOf(self, filters: tuple[bytes, ...]) -> tuple[int, int]:
        """
        The number of removals of single messages that consumers with these filters may want, and
        the highest sequence among them.
        """
        group = self._groups.get(filters)
        if group is None:
            return self.removals, self.lastRemoved
        return self.removals + group.removals, max(self.lastRemoved, group.lastRemoved)

    def _shares(self, records: Sequence[Record]) -> dict[FilterGroup, list[Record]]:
        """The records that the filters of groups match. Groups may share a list."""
        alike: dict[int, tuple[tuple[FilterGroup, ...], list[Record]]] = {}
        for record in records:
            wanting = self._wanting(record.subject)
            known = alike.get(id(wanting))
            if known is None:
                alike[id(wanting)] = wanting, [record]
            else:
                known[1].append(record)
        shares: dict[FilterGroup, list[Record]] = {}
        merged: dict[FilterGroup, list[Record]] = {}
        for wanting, some in alike.values():
            for group in wanting:
                if group in merged:
                    merged[group] += some
                elif group in shares:
                    shares[group] = merged[group] = shares[group] + some
                else:
                    shares[group] = some
        for share in merged.values():
            share.sort()
        return shares


class _ConsumerConfigs(Mapping[str, ConsumerConfig]):
    def __init__(self, consumers: Mapping[str, Consumer]) -> None:
        self._consumers = consumers

    def __getitem__(self, name: str) -> ConsumerConfig:
        return self._consumers[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(self._consumers)

    def __len__(self) -> int:
        return len(self._consumers)
