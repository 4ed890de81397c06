"""
From columnar frames to Arrow batches, without copying what the frames hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from natsbroker.spark.logs.columns import pairsOf, textsOf
from natsbroker.wire.columnar import HEADERS, PAYLOADS, SUBJECTS, Frame

__all__ = ["frameBatch", "neededColumns"]

_NANOSECONDS = pa.timestamp("ns", tz="UTC")
_MICROSECONDS = pa.timestamp("us", tz="UTC")

#: C{NATS/1.0} before the headers, and the empty line behind them.
_BEFORE, _BEHIND = 8, 4


def neededColumns(names: Sequence[str]) -> list[str]:
    """
    What to ask for, to make some columns.
    """
    sources = {"subject": SUBJECTS, "headers": HEADERS, "data": PAYLOADS}
    return [sources[each] for each in names if each in sources]


def frameBatch(frame: Frame, channel: str, names: Sequence[str]) -> Any:
    """
    A C{RecordBatch} of some of the columns.
    """
    arrays = [_MAKERS[name](frame, channel) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _numbers(frame: Frame, column: memoryview, kind: Any) -> Any:
    return pa.Array.from_buffers(kind, frame.rows, [None, pa.py_buffer(column)])


def _binaries(frame: Frame, ends: memoryview, values: memoryview) -> Any:
    if not ends:
        return pa.repeat(pa.scalar(b"", pa.binary()), frame.rows)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), frame.rows, buffers)


def _subjects(frame: Frame, channel: str) -> Any:
    if frame.subject is not None:
        return _repeated(frame.subject, frame.rows)
    return textsOf(_binaries(frame, frame.subjectEnds, frame.subjects))


def _repeated(subject: bytes, rows: int) -> Any:
    """
    One text many times; frames of one size follow each other.
    """
    return _manyOf(subject, 1 << rows.bit_length()).slice(0, rows)


@lru_cache(maxsize=8)
def _manyOf(subject: bytes, rows: int) -> Any:
    return pa.repeat(textsOf([subject])[0], rows)


def _headers(frame: Frame, channel: str) -> Any:
    if not frame.headerEnds:
        return pairsOf([b""] * frame.rows)
    blocks = _binaries(frame, frame.headerEnds, frame.headers).to_pylist()
    return pairsOf([each[_BEFORE:-_BEHIND] for each in blocks])


def _times(frame: Frame, channel: str) -> Any:
    return _numbers(frame, frame.timestamps, _NANOSECONDS).cast(_MICROSECONDS, safe=False)


_MAKERS: dict[str, Callable[[Frame, str], Any]] = {
    "seq": lambda frame, channel: _numbers(frame, frame.sequences, pa.int64()),
    "subject": _subjects,
    "data": lambda frame, channel: _binaries(frame, frame.payloadEnds, frame.payloads),
    "time": _times,
    "headers": _headers,
    "stream": lambda frame, channel: _repeated(channel.encode("utf-8"), frame.rows),
    "time_ns": lambda frame, channel: _numbers(frame, frame.timestamps, pa.int64()),
}
