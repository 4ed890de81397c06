"""The columns of a row, and batches of them for Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

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


class MessageRows(NamedTuple):
    """
    @ivar times: in RFC 3339, with up to nine digits behind the second.
    @ivar heads: their publishers' part of the header block, from the first CRLF on.
    """

    seqs: list[int]
    subjects: list[bytes]
    times: list[bytes]
    heads: list[bytes]
    payloads: list[bytes]

    def part(self, start: int, stop: int) -> MessageRows:
        columns = (self.subjects, self.times, self.heads, self.payloads)
        return MessageRows(self.seqs[start:stop], *(column[start:stop] for column in columns))


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
    return columnBatch(
        names,
        stream,
        len(rows.seqs),
        seq=lambda: pa.array(rows.seqs, pa.int64()),
        subject=lambda: textsOf(pa.array(rows.subjects, pa.binary())),
        data=lambda: pa.array(rows.payloads, pa.binary()),
        time=lambda: pa.array(rows.times, _TEXT).cast(NANOSECONDS),
        headers=lambda: pairsOf(rows.heads),
    )


def columnBatch(names: Sequence[str], stream: str, rows: int, **makers: Callable[[], Any]) -> Any:
    """C{makers} make the other columns; that of C{time} is in nanoseconds."""

    def made(name: str) -> Any:
        if name == "stream":
            return repeated(stream.encode(), rows)
        if name == "time":
            return makers[name]().cast(TIMESTAMP, safe=False)
        return makers["time"]().cast(pa.int64()) if name == "time_ns" else makers[name]()

    return pa.RecordBatch.from_arrays([made(name) for name in names], names=list(names))


def repeated(text: bytes, rows: int) -> Any:
    return _manyOf(text, 1 << rows.bit_length()).slice(0, rows)


@lru_cache(maxsize=8)
def _manyOf(text: bytes, rows: int) -> Any:
    return pa.repeat(textsOf(pa.array([text], pa.binary()))[0], rows)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def textsOf(values: Any) -> Any:
    try:
        return values.cast(_TEXT)
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values.to_pylist()], _TEXT)


def pairsOf(heads: Sequence[bytes]) -> Any:
    """Headers from the text between C{NATS/1.0} and the empty line at the end."""
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
