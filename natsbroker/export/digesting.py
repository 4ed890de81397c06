"""
Answering with fingerprints of blocks of a log.

The fingerprint that L{natsbroker.interfaces.records.RangeDigest} describes, whatever
store it is, of
blocks that begin and end at multiples of their size; an answer is bounded, and says where to go on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from natsbroker.export.asking import ApiRequest
from natsbroker.export.exporting import FRAME_BYTES
from natsbroker.export.paging import page
from natsbroker.export.questions import RequestFields
from natsbroker.export.texts import FAILED, STORE, Refusal
from natsbroker.interfaces import IStreamLog
from natsbroker.interfaces.records import Columns, StoreError
from natsbroker.wire.columnar import addToDigest, valuesOf

__all__ = ["FIELDS", "MOST_BLOCKS", "DigestAnswer", "DigestRequest"]

FIELDS = ("start", "stop", "identity", "block")

#: How many blocks an answer has at most, and how many sequences a block.
MOST_BLOCKS = 256
LARGEST_BLOCK = 1_000_000
BLOCK = 10_000

#: When so many bytes were read, the answer ends with the block.
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class DigestRequest:
    """
    Which fingerprints are wanted.

    @ivar start: from where.
    @ivar stop: to before where.
    @ivar block: how many sequences each covers, save the first and last.
    """

    start: int
    stop: int
    block: int

    @classmethod
    def read(cls, question: RequestFields) -> DigestRequest:
        """
        What a request says.
        """
        return cls(
            question.number("start", 1),
            question.number("stop", 1),
            question.number("block", 1, LARGEST_BLOCK, BLOCK),
        )


class DigestAnswer:
    """
    One answer, made step by step.
    """

    def __init__(self, log: IStreamLog, wanted: DigestRequest, asker: ApiRequest) -> None:
        self._log = log
        self._wanted = wanted
        self._asker = asker
        self._cursor = self._begun = wanted.start
        self._size = 0
        self._blocks: list[dict[str, Any]] = []
        self._clear()

    def _clear(self) -> None:
        self._sha256 = hashlib.sha256()
        self._count = 0
        self._damaged: list[int] = []

    async def step(self) -> bool:
        """
        Read the next page.
        """
        if not self._asker.isThere:
            return True
        log, wanted = self._log, self._wanted
        stop = min(wanted.stop, log.bounds().last + 1)
        if self._cursor >= stop:
            return self._say()
        end = min((self._cursor // wanted.block + 1) * wanted.block, stop)
        try:
            columns = await page(log, self._cursor, end, FRAME_BYTES)
        except StoreError as error:
            self._asker.say(Refusal(STORE, why=error).answer())
            return True
        self._take(columns)
        self._cursor = max(columns.next, self._cursor)
        if self._cursor < end:
            return False
        self._finish()
        if self._cursor >= stop or len(self._blocks) >= MOST_BLOCKS or self._size >= MOST_BYTES:
            return self._say()
        return False

    def _take(self, columns: Columns) -> None:
        values = [
            valuesOf(columns.subjectEnds, columns.subjects),
            valuesOf(columns.headerEnds, columns.headers),
            valuesOf(columns.payloadEnds, columns.payloads),
        ]
        addToDigest(self._sha256, columns.sequences, columns.timestamps, *values)
        self._count += len(columns.sequences)
        self._damaged += columns.damaged
        self._size += len(columns.subjects) + len(columns.headers) + len(columns.payloads)

    def _finish(self) -> None:
        """
        A block is complete.
        """
        block = {
            "start": self._begun,
            "stop": self._cursor,
            "count": self._count,
            "sha256": self._sha256.hexdigest(),
        }
        self._blocks.append({**block, "damaged": self._damaged} if self._damaged else block)
        self._begun = self._cursor
        self._clear()

    def _say(self) -> bool:
        bounds = self._log.bounds()
        answer = {"blocks": self._blocks, "next": self._cursor}
        self._asker.say({**answer, "first": bounds.first, "last": bounds.last})
        return True

    def failed(self) -> None:
        """
        Something unforeseen happened.
        """
        self._asker.say(Refusal(FAILED).answer())
