"""
The messages that a consumer has read and not delivered yet.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, takewhile
from typing import Any, cast

from natsbroker.interfaces.records import Record

#: The most dropped records that a part of decoded ones keeps.
DROPPED = 512


def sequencesOf(records: Sequence[Record]) -> list[int]:
    """The sequences of records, which need not be decoded for that."""
    if isinstance(records, list):
        return [record[0] for record in records]
    return cast("list[int]", cast("Any", records).sequences())


class RecordBuffer:
    """Records in order of sequence, in the parts that were read; the delivery decodes them."""

    def __init__(self) -> None:
        self._parts: deque[Sequence[Record]] = deque()
        self._dropped = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Record]:
        return islice(chain.from_iterable(self._parts), self._dropped, None)

    @property
    def first(self) -> Record:
        return self._parts[0][self._dropped]

    @property
    def isBetweenParts(self) -> bool:
        """Whether all records that were read together are dropped, or all kept."""
        return self._dropped == 0

    def extend(self, records: Sequence[Record]) -> None:
        if not records:
            return
        self._length += len(records)
        newest = self._parts[-1] if self._parts else ()
        if isinstance(newest, list) and isinstance(records, list):
            if len(self._parts) == 1 and self._dropped >= DROPPED:
                # Otherwise, a consumer that always has some records left would keep all that were
                # delivered.
                del newest[: self._dropped]
                self._dropped = 0
            newest += records
        else:
            self._parts.append(records[:] if isinstance(records, list) else records)

    def upcoming(self, limit: int) -> Sequence[Record]:
        return self._parts[0][self._dropped : self._dropped + limit] if self._parts else []

    def drop(self, count: int) -> None:
        self._length -= count
        self._dropped += count
        while self._parts and self._dropped >= len(self._parts[0]):
            self._dropped -= len(self._parts.popleft())

    def countBefore(self, sequence: int) -> int:
        """The number of records with a lower sequence."""
        return sum(1 for _ in takewhile(lambda record: record.sequence < sequence, self))

    def remove(self, sequence: int) -> bool:
        """Drop the record with a sequence. Return whether it was there."""
        start = self._dropped
        for place, part in enumerate(self._parts):
            if part[-1].sequence >= sequence:
                index = bisect_left(part, sequence, start, key=lambda record: record.sequence)
                isThere = index < len(part) and part[index].sequence == sequence
                if isThere:
                    rest = part if isinstance(part, list) else list(part)
                    del rest[index]
                    self._parts[place] = rest
                    self._length -= 1
                    self.drop(0)
                return isThere
            start = 0
        return False

    def keep(self, isWanted: Callable[[Record], bool]) -> None:
        """Drop all other records."""
        wanted = [record for record in self if isWanted(record)]
        self.clear()
        self.extend(wanted)

    def clear(self) -> None:
        self._parts.clear()
        self._dropped = self._length = 0
