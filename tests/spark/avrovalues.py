"""
Avro schemas of every kind with values for them, as hypothesis draws them.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

__all__ = ["Kind", "kinds", "records", "schemaText", "written"]

_numbers = itertools.count()
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)


@dataclass
class Kind:
    """
    A type.

    @ivar schema: of it.
    @ivar values: what fastavro writes.
    @ivar seen: what Arrow has of a value that was read.
    @ivar isEmpty: whether a value may have zero bytes.
    """

    schema: Any
    values: st.SearchStrategy[Any]
    seen: Callable[[Any], Any] = lambda value: value
    isEmpty: bool = False


def schemaText(schema: Any) -> bytes:
    """
    A schema as a file has it.
    """
    return json.dumps(schema).encode()


def written(schema: Any, value: Any) -> bytes:
    """
    A value as fastavro writes it.
    """
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def _whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def _millis(value: datetime) -> datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


_UTC = st.datetimes(timezones=st.just(timezone.utc))

_SIMPLE = [
    Kind("boolean", st.booleans()),
    Kind("int", _whole(32)),
    Kind("long", _whole(64)),
    Kind("float", st.floats(allow_nan=False, width=32)),
    Kind("double", st.floats(allow_nan=False)),
    Kind("bytes", st.binary(max_size=5)),
    Kind("string", _TEXTS),
    Kind("null", st.none(), isEmpty=True),
    Kind({"type": "int", "logicalType": "date"}, st.dates()),
    Kind({"type": "long", "logicalType": "timestamp-millis"}, _UTC.map(_millis)),
    Kind({"type": "long", "logicalType": "timestamp-micros"}, _UTC),
    Kind({"type": "long", "logicalType": "local-timestamp-millis"}, st.datetimes().map(_millis)),
    Kind({"type": "long", "logicalType": "local-timestamp-micros"}, st.datetimes()),
    Kind({"type": "long", "logicalType": "no-such-thing"}, _whole(64)),
    Kind({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
]


def _decimal(precision: int) -> Kind:
    scale = precision // 2
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    most = 10**precision - 1
    return Kind(schema, st.integers(-most, most).map(lambda n: Decimal(f"{n}e-{scale}")))


def _fixed(size: int) -> Kind:
    schema = {"type": "fixed", "name": f"F{next(_numbers)}", "size": size}
    return Kind(schema, st.binary(min_size=size, max_size=size), isEmpty=not size)


def _enum(count: int) -> Kind:
    symbols = [f"S{number}" for number in range(count)]
    schema = {"type": "enum", "name": f"E{next(_numbers)}", "symbols": symbols}
    return Kind(schema, st.sampled_from(symbols))


def _array(item: Kind) -> Kind:
    return Kind(
        {"type": "array", "items": item.schema},
        st.lists(item.values, max_size=3),
        lambda items: [item.seen(value) for value in items],
    )


def _map(item: Kind) -> Kind:
    return Kind(
        {"type": "map", "values": item.schema},
        st.dictionaries(_TEXTS, item.values, max_size=3),
        lambda mapping: [(key, item.seen(value)) for key, value in mapping.items()],
    )


def _optional(item: Kind, isFirst: bool) -> Kind:
    schema = ["null", item.schema] if isFirst else [item.schema, "null"]
    return Kind(
        schema,
        st.none() | item.values,
        lambda value: None if value is None else item.seen(value),
    )


def _record(fields: list[Kind]) -> Kind:
    names = [f"f{number}" for number in range(len(fields))]
    schema = {
        "type": "record",
        "name": f"ns.R{next(_numbers)}",
        "fields": [
            {"name": name, "type": field.schema} for name, field in zip(names, fields, strict=True)
        ],
    }

    def seen(given: Any) -> Any:
        pairs = zip(names, fields, strict=True)
        return {name: field.seen(given[name]) for name, field in pairs} if fields else True

    values = {name: field.values for name, field in zip(names, fields, strict=True)}
    isEmpty = all(field.isEmpty for field in fields)
    return Kind(schema, st.fixed_dictionaries(values), seen, isEmpty)


def _isOptional(kind: Kind) -> bool:
    return isinstance(kind.schema, list) or kind.schema == "null"


_leaves = st.one_of(
    st.sampled_from(_SIMPLE),
    st.integers(1, 38).map(_decimal),
    st.integers(0, 5).map(_fixed),
    st.integers(1, 3).map(_enum),
)

kinds = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        inner.filter(lambda x: not x.isEmpty).map(_array),
        inner.map(_map),
        st.builds(_optional, inner.filter(lambda x: not _isOptional(x)), st.booleans()),
        st.lists(inner, max_size=3).map(_record),
    ),
    max_leaves=5,
)

records = st.lists(kinds, min_size=1, max_size=3).map(_record)
