"""
The consumers of a stream, by name and by the subjects of the messages that they deliver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from natsbroker import hot
from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig

if TYPE_CHECKING:
    from natsbroker.jetstream.consumers.consumer import Consumer

#: Wildcard shapes are not capped: a consumer brings one for each of its filters at most.
_SHAPES = 1 << 30

#: Subjects of which the consumers are remembered.
_SUBJECTS = 8192


class ConsumerTable(Mapping[str, "Consumer"]):
    """
    A message is matched with all filters at once, so that a consumer that does not want it costs
    nothing.

    @ivar announced: the last sequence up to which consumers know the messages that they want.
    @ivar removals: how often single messages were removed.
    """

    def __init__(self) -> None:
        self._byName: dict[str, Consumer] = {}
        self._unfiltered: dict[str, Consumer] = {}
        self._filtered: hot.SubjectIndex[Consumer] = hot.SubjectIndex(_SHAPES)
        self._recent: dict[bytes, tuple[Consumer, ...]] = {}
        self._groups: dict[tuple[Consumer, ...], tuple[Consumer, ...]] = {}
        self._holding: dict[str, Consumer] = {}
        self.announced = self.removals = 0

    def __getitem__(self, name: str) -> Consumer:
        return self._byName[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._byName)

    def __len__(self) -> int:
        return len(self._byName)

    @property
    def configs(self) -> Mapping[str, ConsumerConfig]:
        """
        The configurations by name.
        """
        return _ConsumerConfigs(self._byName)

    def add(self, consumer: Consumer) -> None:
        self._byName[consumer.name] = consumer
        self._holding[consumer.name] = consumer
        self._list(consumer)

    def remove(self, consumer: Consumer) -> None:
        """
        Remove a consumer, unless another one has its name now.
        """
        if self._byName.get(consumer.name) is consumer:
            del self._byName[consumer.name]
            self._holding.pop(consumer.name, None)
            self._unlist(consumer, consumer.filters)

    def mayHold(self, consumer: Consumer) -> None:
        """
        A consumer may have read or delivered messages, and is notified when they are removed.
        """
        if self._byName.get(consumer.name) is consumer:
            self._holding[consumer.name] = consumer

    def refiltered(self, consumer: Consumer, previous: tuple[bytes, ...]) -> None:
        """
        A consumer has other filters than before.
        """
        if self._byName.get(consumer.name) is consumer:
            self._unlist(consumer, previous)
            self._list(consumer)

    def _list(self, consumer: Consumer) -> None:
        if not consumer.filters:
            self._unfiltered[consumer.name] = consumer
        for each in consumer.filters:
            self._filtered.insert(each, consumer)
        self._forget()

    def _unlist(self, consumer: Consumer, filters: tuple[bytes, ...]) -> None:
        self._unfiltered.pop(consumer.name, None)
        for each in filters:
            self._filtered.remove(each, consumer)
        self._forget()

    @property
    def isFiltered(self) -> bool:
        """
        Whether a consumer has filters.
        """
        return len(self._unfiltered) < len(self._byName)

    def isWanted(self, subject: bytes) -> bool:
        """
        Whether a consumer delivers messages with a subject.
        """
        return bool(self._unfiltered or self._wanting(subject))

    def wanting(self, subject: bytes) -> list[Consumer]:
        """
        The consumers that deliver messages with a subject.
        """
        filtered = self._wanting(subject) if self.isFiltered else ()
        return [*self._unfiltered.values(), *filtered]

    def _wanting(self, subject: bytes) -> tuple[Consumer, ...]:
        """
        The consumers that have a filter for a subject: the same tuple for subjects that the same
        ones have filters for.
        """
        found = self._recent.get(subject)
        if found is None:
            if len(self._recent) >= _SUBJECTS:
                self._forget()
            found = tuple(dict.fromkeys(self._filtered.match(subject)))
            found = self._recent[subject] = self._groups.setdefault(found, found)
        return found

    def _forget(self) -> None:
        self._recent.clear()
        self._groups.clear()

    def stored(self, records: Sequence[Record]) -> None:
        """
        Hand messages that became durable to the consumers that want them.

        @param records: at least one, in order of sequence.
        """
        last = records[-1].sequence
        for consumer in list(self._unfiltered.values()):
            consumer.stored(records, last)
        if self.isFiltered:
            for consumer, wanted in self._shares(records).items():
                consumer.stored(wanted, last)
        self.announced = last

    def removed(self, sequences: Collection[int], before: int = 0, isPurge: bool = False) -> None:
        """
        Notify consumers that messages are gone: some, and all below C{before}. Those that hold none
        see it when they are asked for one, unless a purge moves them.
        """
        if sequences:
            self.removals += 1
        for consumer in list((self._byName if isPurge else self._holding).values()):
            consumer.removed(sequences, before, isPurge)
            if not consumer.isHolding:
                self._holding.pop(consumer.name, None)

    def _shares(self, records: Sequence[Record]) -> dict[Consumer, list[Record]]:
        """
        What the filters of consumers match. Consumers may share a list.
        """
        alike: dict[int, tuple[tuple[Consumer, ...], list[Record]]] = {}
        for record in records:
            wanting = self._wanting(record.subject)
            known = alike.get(id(wanting))
            if known is None:
                alike[id(wanting)] = wanting, [record]
            else:
                known[1].append(record)
        shares: dict[Consumer, list[Record]] = {}
        merged: dict[Consumer, list[Record]] = {}
        for wanting, some in alike.values():
            for consumer in wanting:
                if consumer in merged:
                    merged[consumer] += some
                elif consumer in shares:
                    shares[consumer] = merged[consumer] = shares[consumer] + some
                else:
                    shares[consumer] = some
        for each in merged.values():
            each.sort()
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
