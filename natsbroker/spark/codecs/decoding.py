"""Decoding of a column of a DataFrame. It may be that of a streaming query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from natsbroker.spark.codecs.datatypes import ddlText, nullable
from natsbroker.spark.codecs.mappings import PayloadMapping, codecOf, readMappings
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.codecs.registry import RegistryAccess
from natsbroker.spark.errors import DataSourceError, OptionError

#: The errors of Arrow for a value that it does not take.
_UNTAKEN = (pa.ArrowException, ValueError, TypeError, OverflowError)


def withDecoded(
    frame: Any,
    schema: str,
    registry: RegistryAccess | None = None,
    column: str = "data",
    to: str = "value",
    isUnknownBad: bool = True,
) -> Any:
    """
    A DataFrame with decoded payloads.

    @param schema: C{KIND:WHAT}, as in C{natsbroker spark decode --schema PATTERN=KIND:WHAT}.
    @param column: the one with the payloads, C{BINARY} or C{STRING}.
    @param to: the name of the column that is added, a C{STRUCT}; it is null if the payload is bad,
        and C{to_error} has the reason.
    @param isUnknownBad: whether fields unknown to the schema make a payload bad.
    """
    names = {name.lower() for name in frame.columns}
    if column not in frame.columns or {to.lower(), f"{to}_error".lower()} & names:
        raise OptionError(
            f"column {column!r} is missing, or there is a column {to!r} or '{to}_error'"
        )
    [mapping] = readMappings([f">={schema}"], {">": "values"}, isUnknownBad, registry)
    kind = nullable(pa.struct(list(codecOf(mapping).columns)))
    added = ddlText(pa.schema([(to, kind), (f"{to}_error", pa.string())]))
    there = [f"`{x.replace('`', '``')}` {type}" for x, type in frame.dtypes]

    def decoded(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            arrays = decodedArrays(mapping, kind, batch.column(column))
            named = [*batch.schema.names, to, f"{to}_error"]
            yield pa.RecordBatch.from_arrays([*batch.columns, *arrays], names=named)

    return frame.mapInArrow(decoded, ", ".join([*there, added]))


def decodedArrays(mapping: PayloadMapping, kind: Any, payloads: Any) -> tuple[Any, Any]:
    codec = codecOf(mapping)
    made = [
        (None, None) if payload is None else decodedOr(codec.decode, payload)
        for payload in payloads.cast(pa.binary()).to_pylist()
    ]
    structs, untaken = structsOf([value for value, _ in made], kind)
    errors = [untaken.get(place, error) for place, (_, error) in enumerate(made)]
    return structs, pa.array(errors, pa.string())


def decodedOr(decode: Callable[[bytes], Any], data: bytes) -> tuple[Any, str | None]:
    try:
        return decode(data), None
    except BadPayload as problem:
        return None, str(problem)
    except DataSourceError:
        raise  # The registry cannot be reached, which is not the payload's fault.
    except Exception as problem:
        # A fault of the decoder, or of the library beneath: the payload is kept with it.
        return None, f"its decoder failed: {problem!r}"


def structsOf(rows: list[Any], kind: Any) -> tuple[Any, dict[int, str]]:
    """An array, and by place the reasons for null rows, which Arrow did not take."""
    try:
        return pa.array(rows, kind), {}
    except _UNTAKEN:
        untaken: dict[int, str] = {}
        for place, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except _UNTAKEN as error:
                untaken[place] = f"its columns cannot hold it: {error}"
        return pa.array([None if x in untaken else y for x, y in enumerate(rows)], kind), untaken
