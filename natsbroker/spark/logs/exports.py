"""
Reading a whole range of a channel, or of a stream of our broker, as columnar frames. One broker has
the log, so no replica lags. A gap before the oldest stored message counts as lost, because
retention may have removed it. Other gaps are deletions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from natsbroker.spark.errors import ApiError, DataSourceError, LogGone
from natsbroker.spark.logs.apis import (
    NO_CHANNEL,
    OTHER_CHANNEL,
    ExportApi,
    StreamState,
    apiFields,
)
from natsbroker.spark.logs.columns import NANOSECONDS, columnBatch, pairsOf, repeated, textsOf
from natsbroker.spark.logs.wholeranges import OnLoss, ReadOptions, SequenceRange, isDeletion, lose
from natsbroker.wire.columnar import HEADERS, PAYLOADS, SUBJECTS, ColumnFrame, FrameError, readFrame

#: C{NATS/1.0} before the headers, and the empty line behind them.
_BEFORE, _BEHIND = 8, 4


def neededColumns(names: Sequence[str]) -> list[str]:
    sources = {"subject": SUBJECTS, "headers": HEADERS, "data": PAYLOADS}
    return [sources[name] for name in names if name in sources]


def frameBatch(frame: ColumnFrame, channel: str, names: Sequence[str]) -> Any:
    return columnBatch(
        names,
        channel,
        frame.rows,
        seq=lambda: _numbers(frame, frame.sequences, pa.int64()),
        subject=lambda: _subjects(frame),
        data=lambda: _binaries(frame, frame.payloadEnds, frame.payloads),
        time=lambda: _numbers(frame, frame.timestamps, NANOSECONDS),
        headers=lambda: _headers(frame),
    )


def _numbers(frame: ColumnFrame, column: memoryview, kind: Any) -> Any:
    return pa.Array.from_buffers(kind, frame.rows, [None, pa.py_buffer(column)])


def _binaries(frame: ColumnFrame, ends: memoryview, values: memoryview) -> Any:
    if not ends:
        return pa.repeat(pa.scalar(b"", pa.binary()), frame.rows)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), frame.rows, buffers)


def _subjects(frame: ColumnFrame) -> Any:
    if frame.subject is not None:
        return repeated(frame.subject, frame.rows)
    return textsOf(_binaries(frame, frame.subjectEnds, frame.subjects))


def _headers(frame: ColumnFrame) -> Any:
    if not frame.headerEnds:
        return pairsOf([b""] * frame.rows)
    blocks = _binaries(frame, frame.headerEnds, frame.headers).to_pylist()
    return pairsOf([block[_BEFORE:-_BEHIND] for block in blocks])


#: The error of a broker that is overloaded, and the seconds until the next request.
_TOO_MANY, _PAUSE = 20005, 0.2

#: The size of a broker's largest answer.
_MOST_BYTES = 16 << 20


@dataclass
class ExportReader:
    logs: ExportApi
    bounds: SequenceRange
    options: ReadOptions
    columns: Sequence[str]
    onLoss: OnLoss | None
    sleep: Callable[[float], object] = time.sleep
    state: StreamState | None = None

    @property
    def _what(self) -> str:
        return f"{self.logs.word} {self.bounds.stream}"

    def read(self) -> Iterator[Any]:
        for frame in self.frames():
            if frame.rows:
                batch = frameBatch(frame, self.bounds.stream, self.columns)
                size = self.options.batchRows
                for offset in range(0, frame.rows, size):
                    yield batch.slice(offset, size) if frame.rows > size else batch

    def frames(self) -> Iterator[ColumnFrame]:
        bounds = self.bounds
        cursor = bounds.start
        deadline = time.monotonic() + self.options.patience
        reply: bytes | None = None
        while cursor < bounds.stop:
            try:
                frames = self._answer(reply or self._ask(cursor))
            except ApiError as error:
                if error.code != _TOO_MANY or time.monotonic() > deadline:
                    raise
                reply = None
                self.sleep(_PAUSE)
                continue
            before = cursor
            for frame in frames:
                if frame.place.start != cursor or frame.place.next > bounds.stop:
                    raise DataSourceError(f"{self._what}: frames that do not follow each other")
                cursor = frame.place.next
            if cursor == before:
                raise DataSourceError(
                    f"{self._what} ends at {cursor - 1}, and the read was to go on to"
                    f" {bounds.stop - 1}"
                )
            reply = self._ask(cursor) if cursor < bounds.stop else None
            for frame in frames:
                self._check(frame)
                yield frame
            deadline = time.monotonic() + self.options.patience

    def _ask(self, cursor: int) -> bytes:
        """
        Ask for the next frame, so that the broker makes it while this side reads the last one.
        """
        bounds, logs = self.bounds, self.logs
        question: dict[str, Any] = {
            "start": cursor,
            "stop": bounds.stop,
            "identity": bounds.created,
            "max_bytes": min(self.options.fetchBytes, _MOST_BYTES),
            "columns": neededColumns(self.columns),
            "version": logs.version,
        }
        if self.options.patterns:
            question["subjects"] = list(self.options.patterns)
        subject = logs.subject("EXPORT", bounds.stream)
        return logs.connection.ask(subject, json.dumps(question).encode())

    def _answer(self, reply: bytes) -> list[ColumnFrame]:
        bounds, logs = self.bounds, self.logs
        subject = logs.subject("EXPORT", bounds.stream)
        frames: list[ColumnFrame] = []
        while not frames or not frames[-1].isLast:
            try:
                headerLength, body = logs.connection.answer(reply, subject)
            except ApiError as error:
                raise logs.explained(error, self._what, subject) from None
            data = body[headerLength:]
            if data.startswith(b"{"):
                self._refused(data)
            try:
                frames.append(readFrame(data))
            except FrameError as error:
                raise DataSourceError(f"{self._what}: {error}") from None
        return frames

    def _refused(self, answer: bytes) -> None:
        try:
            apiFields(answer, self._what)
        except ApiError as error:
            if error.code == NO_CHANNEL:
                raise LogGone(f"{self._what} is gone: it was there when the read began") from None
            if error.code == OTHER_CHANNEL:
                raise LogGone(str(error)) from None
            raise
        raise DataSourceError(f"{self._what}: the answer is malformed")

    def _check(self, frame: ColumnFrame) -> None:
        place = frame.place
        if frame.damaged:
            listed = ", ".join(map(str, frame.damaged[:10]))
            more = " and others" if len(frame.damaged) > 10 else ""
            text = f"{self._what}: sequences {listed}{more} are damaged in the store"
            lose(text, self.onLoss, *((sequence, sequence + 1) for sequence in frame.damaged))
        if place.first > place.start:
            stored = [place.start - 1, *frame.sequences.cast("Q").tolist(), place.next]
            for before, after in pairwise(stored):
                start, stop = before + 1, min(after, place.first)
                isDeleted = self.state is not None and isDeletion(self.state, start, stop)
                if start < stop and not isDeleted:
                    text = f"{self._what}: sequences {start} to {stop - 1} are not stored any more"
                    lose(f"{text} (expired or trimmed)", self.onLoss, (start, stop))
