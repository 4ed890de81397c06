"""
The newest messages of a stream, at hand for consumers that have caught up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from natsbroker.interfaces.records import Matching, Record
from natsbroker.subjects.verdicts import SubjectVerdicts

RECORDS = 2048
BYTES = 4 << 20

NEAR = 256
"""The records that are compared with filters. The log has an index for a match that is further."""


class StreamTail:
    """
    Records without gaps up to the last one of the stream, or none. Skipped sequences may follow the
    last one.
    """

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._size = 0

    def add(self, records: Sequence[Record]) -> None:
        """Add the records that follow the last one."""
        self._records += records
        self._size += sum(len(record.headers) + len(record.payload) for record in records)
        if len(self._records) > 2 * RECORDS or self._size > 2 * BYTES:
            self._trim()

    def _trim(self) -> None:
        kept = 0
        size = 0
        for record in reversed(self._records):
            size += len(record.headers) + len(record.payload)
            if kept >= RECORDS or size > BYTES:
                break
            kept += 1
        self._records = self._records[len(self._records) - kept :]
        self._size = size

    def clear(self) -> None:
        self._records = []
        self._size = 0

    def discardBefore(self, sequence: int) -> None:
        if self._records and self._records[0].sequence < sequence:
            self._records = self._records[self._place(sequence) :]

    def _place(self, sequence: int) -> int:
        return bisect_left(self._records, sequence, key=lambda record: record.sequence)

    def read(self, filters: tuple[bytes, ...], sequence: int, limit: int) -> Matching | None:
        """Messages as from C{Stream.read}; C{None} if the log must be read."""
        records = self._records
        if not records or not records[0].sequence <= sequence <= records[-1].sequence:
            return None
        start = self._place(sequence)
        if not filters:
            piece = records[start : start + limit]
            following = piece[-1].sequence + 1 if piece else records[-1].sequence + 1
            return Matching(piece, following)
        chosen: list[Record] = []
        verdicts = SubjectVerdicts(filters)
        near = records[start : start + NEAR]
        for record in near:
            if verdicts[record.subject]:
                chosen.append(record)
                if len(chosen) == limit:
                    return Matching(chosen, record.sequence + 1)
        isFar = not chosen and near[-1] is not records[-1]
        return None if isFar else Matching(chosen, near[-1].sequence + 1)
