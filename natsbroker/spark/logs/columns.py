"""
The columns of a row, and batches of them for Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import pyarrow as pa

from natsbroker.spark.codecs.datatypes import TIMESTAMP, readSchema
from natsbroker.spark.errors import OptionError

#: Every column that can be read, with its type in Spark's language.
COLUMNS = {
    "seq": "BIGINT",
    "subject": "STRING",
    "data": "BINARY",
    "time": "TIMESTAMP",
    "headers": "ARRAY<STRUCT<key: STRING, value: STRING>>",
    "stream": "STRING",
    "time_ns": "BIGINT",
}

_TEXT = pa.string()
_PAIR = pa.struct([pa.field("key", _TEXT), pa.field("value", _TEXT)])
_PAIRS = pa.list_(pa.field("element", _PAIR))
NANOSECONDS = pa.timestamp("ns", tz="UTC")


class MessageRows:
    """
    @ivar seqs: ascending.
    @ivar times: in RFC 3339, with up to nine digits behind the second.
    @ivar heads: what their publishers put in the header block, from the first CRLF on.
    """

    __slots__ = ("_columns", "heads", "payloads", "seqs", "size", "subjects", "times")

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.subjects: list[bytes] = []
        self.times: list[bytes] = []
        self.heads: list[bytes] = []
        self.payloads: list[bytes] = []
        self.size = 0
        columns = self.seqs, self.subjects, self.times, self.heads, self.payloads
        self._columns: tuple[list[Any], ...] = columns

    def __len__(self) -> int:
        return len(self.seqs)

    def add(self, seq: int, subject: bytes, time: bytes, head: bytes, payload: bytes) -> None:
        self.seqs.append(seq)
        self.subjects.append(subject)
        self.times.append(time)
        self.heads.append(head)
        self.payloads.append(payload)
        self.size += len(subject) + len(head) + len(payload)

    def cut(self, count: int) -> None:
        for column in self._columns:
            del column[count:]

    def keep(self, isKept: Sequence[bool]) -> None:
        for column in self._columns:
            column[:] = compress(column, isKept)


def ddlOf(names: Sequence[str]) -> str:
    return ", ".join(f"{name} {COLUMNS[name]}" for name in names)


def schemaOf(names: Sequence[str]) -> Any:
    return readSchema(ddlOf(names))


def checkedColumns(schema: Any) -> tuple[str, ...]:
    names = []
    for field in schema.fields:
        if field.name not in COLUMNS:
            known = ", ".join(COLUMNS)
            raise OptionError(f"schema: there is no column {field.name!r}; there are {known}")
        wanted, given = COLUMNS[field.name].lower(), field.dataType.simpleString()
        wanted = wanted.replace(" ", "")
        if given != wanted:
            raise OptionError(f"schema: {field.name} is {wanted}, not {given}")
        names.append(field.name)
    return tuple(names)


def toBatch(rows: MessageRows, stream: str, names: Sequence[str]) -> Any:
    arrays = [_MAKERS[name](rows, stream) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def textsOf(values: Any) -> Any:
    """
    An array of texts of one of bytes, with escapes where they are no UTF-8.
    """
    try:
        return values.cast(_TEXT)
    except pa.ArrowInvalid:
        return pa.array([_text(each) for each in values.to_pylist()], _TEXT)


def _nanoseconds(rows: MessageRows) -> Any:
    return pa.array(rows.times, pa.binary()).cast(_TEXT).cast(NANOSECONDS)


def pairsOf(heads: Sequence[bytes]) -> Any:
    """
    @param heads: what stands between C{NATS/1.0} and the empty line at the end.
    """
    offsets, keys, values = [0], [], []
    for head in heads:
        if head:
            for line in head.split(b"\r\n")[1:]:
                key, _, value = line.partition(b":")
                keys.append(_text(key))
                values.append(_text(value.strip(b" \t")))
        offsets.append(len(keys))
    pairs = pa.StructArray.from_arrays(
        [pa.array(keys, _TEXT), pa.array(values, _TEXT)], fields=list(_PAIR)
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs, type=_PAIRS)


_MAKERS: dict[str, Callable[[MessageRows, str], Any]] = {
    "seq": lambda rows, stream: pa.array(rows.seqs, pa.int64()),
    "subject": lambda rows, stream: textsOf(pa.array(rows.subjects, pa.binary())),
    "data": lambda rows, stream: pa.array(rows.payloads, pa.binary()),
    "time": lambda rows, stream: _nanoseconds(rows).cast(TIMESTAMP, safe=False),
    "headers": lambda rows, stream: pairsOf(rows.heads),
    "stream": lambda rows, stream: pa.array([stream] * len(rows), _TEXT),
    "time_ns": lambda rows, stream: _nanoseconds(rows).cast(pa.int64()),
}
