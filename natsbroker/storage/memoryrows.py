"""
Records in memory, in the order of their sequences.

What is added is not copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from natsbroker.interfaces.records import Record

__all__ = ["Rows", "sizeOf"]


def sizeOf(record: Record) -> int:
    """
    The bytes that count: subject, headers and payload.
    """
    return len(record.subject) + len(record.headers) + len(record.payload)


class Rows:
    """
    Records by sequence and by subject. What was deleted leaves its sequence in C{_order} until
    that is mostly such leftovers; C{_head} is where to look for the oldest record.

    @ivar size: bytes of all records.
    """

    def __init__(self) -> None:
        self._records: dict[int, Record] = {}
        self._order: list[int] = []
        self._head = 0
        self.bySubject: dict[bytes, dict[int, None]] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> None:
        """
        Take a record with a higher sequence than all before.
        """
        self._records[record.sequence] = record
        self._order.append(record.sequence)
        self.bySubject.setdefault(record.subject, {})[record.sequence] = None
        self.size += sizeOf(record)

    def remove(self, sequence: int) -> bool:
        """
        Delete one.

        @return: whether it was there.
        """
        record = self._records.pop(sequence, None)
        if record is None:
            return False
        same = self.bySubject[record.subject]
        del same[sequence]
        if not same:
            del self.bySubject[record.subject]
        self.size -= sizeOf(record)
        if len(self._order) > 64 and len(self._order) > 2 * len(self._records):
            self._order = [each for each in self._order if each in self._records]
            self._head = 0
        return True

    def at(self, sequence: int) -> Record:
        """
        One record.

        @raise KeyError: if it is not there.
        """
        return self._records[sequence]

    def fromSequence(self, sequence: int) -> Iterator[Record]:
        """
        The records from a sequence on.
        """
        order, records = self._order, self._records
        for index in range(bisect_left(order, sequence, self._head), len(order)):
            record = records.get(order[index])
            if record is not None:
                yield record

    def oldest(self) -> Record | None:
        """
        The first record.
        """
        order, records = self._order, self._records
        while self._head < len(order):
            record = records.get(order[self._head])
            if record is not None:
                return record
            self._head += 1
        return None

    def sequenceAt(self, timestamp: int) -> int | None:
        """
        The first sequence that is not older.
        """
        live = [each for each in self._order if each in self._records]
        index = bisect_left(live, timestamp, key=lambda each: self._records[each].timestamp)
        return live[index] if index < len(live) else None
