"""
Bounded answers about a range of a log, in steps of milliseconds: records as columnar frames, or
fingerprints of blocks, and where the next one begins.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, cast

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker.export.requests import LARGEST, ApiRequest, Reason, Refusal, RequestFields
from natsbroker.interfaces import IExportableLog, IStreamLog, ISubjectIndexedLog
from natsbroker.interfaces.records import Columns, Matching, Record, StoreError
from natsbroker.storage.exports import columnsOf
from natsbroker.wire.columnar import (
    HEADERS,
    PAYLOADS,
    SUBJECTS,
    VERSION,
    FramePosition,
    addToDigest,
    encodeFrame,
    valuesOf,
)

ROWS = 4096
"""The most sequences of a page."""

FRAME_BYTES = 512 << 10
"""The approximate size of a frame's records."""

EXPORT_BYTES = 4 << 20
"""The default size of an export."""

MOST_BYTES = 16 << 20
"""The largest size of an export."""

BLOCK = 10_000
"""The default number of sequences in a block."""

LARGEST_BLOCK = 1_000_000

MOST_BLOCKS = 256
"""The most blocks in an answer."""

DIGESTED_BYTES = 64 << 20
"""An answer ends with the block in which this many bytes were read."""

_COLUMNS = (SUBJECTS, HEADERS, PAYLOADS)


def page(log: IStreamLog, start: int, stop: int, size: int) -> Deferred[Columns]:
    stop = min(stop, start + ROWS)
    if IExportableLog.providedBy(log):
        exporting: Deferred[Columns] = log.exportRange(start, stop, size)
        return exporting
    return _read(log, start, stop, size)


@inlineCallbacks
def _read(
    log: IStreamLog, start: int, stop: int, size: int
) -> Generator[Deferred[Any], Any, Columns]:
    """Columns of a log that has no export. Damaged records are skipped like deleted ones."""
    records: list[Record] = yield log.read(start, ROWS, size)
    kept = [record for record in records if record.sequence < stop]
    isWhole = not records or len(kept) < len(records)
    following = stop if isWhole else records[-1].sequence + 1
    return columnsOf(kept, following, ())


@inlineCallbacks
def _matching(
    log: ISubjectIndexedLog, subjects: Sequence[bytes], start: int, stop: int, size: int
) -> Generator[Deferred[Matching], Any, Columns]:
    matching = yield log.readMatching(subjects, start, ROWS, size)
    kept = [record for record in matching.records if record.sequence < stop]
    return columnsOf(kept, min(matching.next, stop), ())


def _withoutPrefix(columns: Columns, size: int) -> Columns:
    if not size or not columns.headers:
        return columns
    blocks = [block[size:] for block in valuesOf(columns.headerEnds, columns.headers)]
    ends = array("q", accumulate(map(len, blocks), initial=0))
    return replace(columns, headerEnds=ends, headers=b"".join(blocks))


class ExportAnswer:
    """Frames that follow each other without a gap, the last one marked."""

    FIELDS = ("start", "stop", "max_bytes", "columns", "version", "subjects")

    def __init__(
        self,
        log: IStreamLog,
        fields: RequestFields,
        request: ApiRequest,
        maxPayload: int,
        headerPrefix: int = 0,
    ) -> None:
        self._subjects = fields.subjects("subjects")
        if self._subjects and not ISubjectIndexedLog.providedBy(log):
            raise Refusal(Reason.BAD_REQUEST, why="the log cannot be read by subjects")
        self._headerPrefix = headerPrefix
        fields.number("version", 1, VERSION, VERSION)
        self._log = log
        self._request = request
        self._cursor = self._sent = fields.number("start", 1)
        self._stop = fields.number("stop", 1, default=LARGEST)
        # The first record that exceeds the limit is the last one of the answer.
        self._left = fields.number("max_bytes", 1, MOST_BYTES, EXPORT_BYTES)
        self._omitted = frozenset(_COLUMNS) - fields.words("columns", _COLUMNS)
        # A page of rows takes up to 40 bytes for each row besides the values.
        self._page = max(min(FRAME_BYTES, maxPayload * 3 // 4), 1)

    async def step(self) -> bool:
        if not self._request.isAnswerable:
            return True
        log, cursor = self._log, self._cursor
        stop = min(self._stop, log.bounds().last + 1)
        try:
            columns = await self._read(cursor, stop)
        except StoreError as error:
            self._request.refuse(Reason.STORE, why=error)
            return True
        self._cursor = max(columns.next, cursor)
        self._left -= _sizeOf(columns)
        isLast = self._cursor >= stop or self._left <= 0
        if not isLast and not len(columns.sequences) and not columns.damaged:
            self._cursor = max(self._cursor, min(log.bounds().first, stop))
            return False
        bounds = log.bounds()
        place = FramePosition(self._sent, self._cursor, bounds.first, bounds.last)
        self._sent = self._cursor
        frame = encodeFrame(columns, place, self._omitted, isLast)
        return not self._request.send(frame) or isLast

    async def _read(self, cursor: int, stop: int) -> Columns:
        size = min(self._left, self._page)
        if self._subjects and cursor < stop:
            columns = await _matching(cast(Any, self._log), self._subjects, cursor, stop, size)
        else:
            columns = await page(self._log, cursor, stop, size)
        return _withoutPrefix(columns, 0 if HEADERS in self._omitted else self._headerPrefix)


class DigestAnswer:
    """Fingerprints of aligned blocks (L{natsbroker.interfaces.records.RangeDigest})."""

    FIELDS = ("start", "stop", "block")

    def __init__(
        self, log: IStreamLog, fields: RequestFields, request: ApiRequest, headerPrefix: int = 0
    ) -> None:
        self._log = log
        self._headerPrefix = headerPrefix
        self._request = request
        self._cursor = self._begun = fields.number("start", 1)
        self._stop = fields.number("stop", 1)
        self._block = fields.number("block", 1, LARGEST_BLOCK, BLOCK)
        self._size = 0
        self._blocks: list[dict[str, Any]] = []
        self._clear()

    def _clear(self) -> None:
        self._sha256 = hashlib.sha256()
        self._count = 0
        self._damaged: list[int] = []

    async def step(self) -> bool:
        if not self._request.isAnswerable:
            return True
        log, block = self._log, self._block
        stop = min(self._stop, log.bounds().last + 1)
        if self._cursor >= stop:
            return self._send()
        end = min((self._cursor // block + 1) * block, stop)
        try:
            columns = await page(log, self._cursor, end, FRAME_BYTES)
        except StoreError as error:
            self._request.refuse(Reason.STORE, why=error)
            return True
        self._add(_withoutPrefix(columns, self._headerPrefix))
        self._cursor = max(columns.next, self._cursor)
        if self._cursor < end:
            return False
        self._endBlock()
        isFull = len(self._blocks) >= MOST_BLOCKS or self._size >= DIGESTED_BYTES
        return self._send() if isFull or self._cursor >= stop else False

    def _add(self, columns: Columns) -> None:
        values = [
            valuesOf(columns.subjectEnds, columns.subjects),
            valuesOf(columns.headerEnds, columns.headers),
            valuesOf(columns.payloadEnds, columns.payloads),
        ]
        addToDigest(self._sha256, columns.sequences, columns.timestamps, *values)
        self._count += len(columns.sequences)
        self._damaged += columns.damaged
        self._size += _sizeOf(columns)

    def _endBlock(self) -> None:
        block = {
            "start": self._begun,
            "stop": self._cursor,
            "count": self._count,
            "sha256": self._sha256.hexdigest(),
        }
        self._blocks.append({**block, "damaged": self._damaged} if self._damaged else block)
        self._begun = self._cursor
        self._clear()

    def _send(self) -> bool:
        bounds = self._log.bounds()
        answer = {"blocks": self._blocks, "next": self._cursor}
        self._request.answer({**answer, "first": bounds.first, "last": bounds.last})
        return True


def _sizeOf(columns: Columns) -> int:
    return len(columns.subjects) + len(columns.headers) + len(columns.payloads)
