"""
Avro schemas: what their values become, and what reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from natsbroker.spark.codecs import avrobytes
from natsbroker.spark.codecs.avrobytes import Input, Read
from natsbroker.spark.codecs.datatypes import TIMESTAMP, checkNames, readingSchema
from natsbroker.spark.codecs.payloads import BadPayload, checkedLong
from natsbroker.spark.errors import OptionError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.A)
_FULL = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.A)

#: The most digits of decimals in Spark and Arrow.
_DIGITS = 38
_WIDE = Context(prec=_DIGITS)


@dataclass(frozen=True)
class Node:
    """
    @ivar kind: what its values become.
    @ivar least: how many bytes one takes at least.
    """

    kind: Any
    read: Read
    least: int


@dataclass(frozen=True)
class AvroSchema:
    """
    @ivar columns: of its values: the fields of a record; anything else is one column C{value}.
    @ivar hasChoices: whether there are unions of several types.
    """

    parsed: Any
    columns: Any
    root: Node
    isRecord: bool
    hasChoices: bool


_SIMPLE = {
    "boolean": Node(pa.bool_(), Input.boolean, 1),
    "int": Node(pa.int32(), Input.whole, 1),
    "long": Node(pa.int64(), Input.long, 1),
    "float": Node(pa.float32(), avrobytes.single, 4),
    "double": Node(pa.float64(), avrobytes.double, 8),
    "bytes": Node(pa.binary(), Input.binary, 1),
    "string": Node(pa.string(), Input.text, 1),
    "null": Node(pa.bool_(), lambda source: None, 0),
}

#: What else a logical type makes of a number, and by what it is multiplied.
_TIMES = {
    ("int", "date"): (pa.date32(), 1),
    ("long", "timestamp-millis"): (TIMESTAMP, 1000),
    ("long", "timestamp-micros"): (TIMESTAMP, 1),
    ("long", "local-timestamp-millis"): (pa.timestamp("us"), 1000),
    ("long", "local-timestamp-micros"): (pa.timestamp("us"), 1),
}

#: Unions of numbers that one column holds without loss.
_NUMBERS = {
    frozenset(("int", "long")): pa.int64(),
    frozenset(("float", "double")): pa.float64(),
}


def readAvro(data: bytes, name: str, references: Sequence[bytes] = ()) -> AvroSchema:
    """
    @param references: the schemas whose names it uses, each behind those that it uses itself.
    """
    try:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema
    except ImportError:
        raise OptionError("Avro needs fastavro: pip install 'natsbroker[avro]'") from None
    malformed = (SchemaParseException, UnknownType, ValueError, KeyError, TypeError)
    with readingSchema(name, "no Avro schema", malformed):
        builder = _SchemaBuilder()
        named: dict[str, Any] = {}
        for each in references:
            builder.node(parse_schema(json.loads(each), named), "")
        parsed = parse_schema(json.loads(data), named)
        root = builder.node(parsed, "")
        isRecord = isinstance(parsed, dict) and parsed["type"] in ("record", "error")
        if isRecord:
            columns = pa.schema(list(root.kind) if pa.types.is_struct(root.kind) else [])
        else:
            columns = pa.schema([pa.field("value", root.kind)])
        checkNames(columns)
    return AvroSchema(parsed, columns, root, isRecord, builder.hasChoices)


class _SchemaBuilder:
    def __init__(self) -> None:
        self.hasChoices = False
        self._named: dict[str, Node | None] = {}

    def node(self, schema: Any, place: str) -> Node:
        if isinstance(schema, str):
            return _SIMPLE[schema] if schema in _SIMPLE else self._known(schema, place)
        if isinstance(schema, list):
            return self._union(schema, place)
        word = schema["type"]
        if not isinstance(word, str):
            return self.node(word, place)
        if word == "array":
            item = self.node(schema["items"], f"{place}[]")
            read = avrobytes.arrayOf(item.read, item.least)
            kind = pa.list_(pa.field("element", item.kind))
            return Node(kind, read, 1)
        if word == "map":
            item = self.node(schema["values"], f"{place}{{}}")
            kind = pa.map_(pa.string(), item.kind)
            return Node(kind, avrobytes.mapOf(item.read), 1)
        if word in ("record", "error", "enum", "fixed"):
            return self._new(word, schema, place)
        return _logical(self.node(word, place), word, schema, place)

    def _known(self, name: str, place: str) -> Node:
        node = self._named[name]
        if node is None:
            raise OptionError(f"{place or name}: {name} has itself in it, and no columns for that")
        return node

    def _new(self, word: str, schema: Mapping[str, Any], place: str) -> Node:
        name = schema["name"]
        if not _FULL.fullmatch(name):
            raise OptionError(f"{name!r} is no name")
        self._named[name] = None
        if word == "enum":
            node = _enum(schema["symbols"])
        elif word == "fixed":
            size = schema["size"]
            if type(size) is not int or size < 0:
                raise OptionError(f"{name} has no size")
            node = Node(pa.binary(), avrobytes.fixedOf(size), size)
            node = _logical(node, word, schema, place)
        else:
            node = self._record(schema["fields"], place)
        self._named[name] = node
        return node

    def _record(self, fields: list[Any], place: str) -> Node:
        inside = f"{place}." if place else ""
        nodes: list[tuple[str, Node]] = []
        for each in fields:
            name = each["name"]
            if not _NAME.fullmatch(name):
                raise OptionError(f"{inside}{name!r} is no name")
            nodes.append((name, self.node(each["type"], f"{inside}{name}")))
        if not nodes:
            return Node(pa.bool_(), lambda source: True, 0)
        readers = [(name, node.read) for name, node in nodes]
        kind = pa.struct([pa.field(name, node.kind) for name, node in nodes])
        least = sum(node.least for _, node in nodes)
        return Node(kind, lambda source: {name: read(source) for name, read in readers}, least)

    def _union(self, branches: list[Any], place: str) -> Node:
        """
        One branch beside null is that type; several are a struct with a field for each.
        """
        kinds = [each for each in branches if each != "null"]
        if not branches or any(isinstance(each, list) for each in branches):
            raise OptionError(f"{place}: a union has types, and no unions")
        nodes = [_SIMPLE["null"] if x == "null" else self.node(x, place) for x in branches]
        if len(kinds) <= 1:
            kind = next((node.kind for node in nodes if node is not _SIMPLE["null"]), pa.bool_())
            return Node(kind, _choice([node.read for node in nodes]), 1)
        words = frozenset(each for each in kinds if isinstance(each, str))
        if len(kinds) == len(words) and words in _NUMBERS:
            return Node(_NUMBERS[words], _choice([node.read for node in nodes]), 1)
        self.hasChoices = True
        members = [x for x in nodes if x is not _SIMPLE["null"]]
        names = iter(f"member{number}" for number in range(len(members)))
        reads = [x.read if x is _SIMPLE["null"] else _member(next(names), x.read) for x in nodes]
        fields = [pa.field(f"member{number}", x.kind) for number, x in enumerate(members)]
        return Node(pa.struct(fields), _choice(reads), 1)


def _choice(reads: list[Read]) -> Read:
    count = len(reads)

    def read(source: Input) -> Any:
        return reads[source.index(count, "types")](source)

    return read


def _member(name: str, read: Read) -> Read:
    return lambda source: {name: read(source)}


def _enum(symbols: list[str]) -> Node:
    if not symbols or not all(_NAME.fullmatch(each) for each in symbols):
        raise OptionError("an enum has symbols that are names")
    count = len(symbols)
    return Node(pa.string(), lambda source: symbols[source.index(count, "symbols")], 1)


def _logical(node: Node, word: str, schema: Mapping[str, Any], place: str) -> Node:
    """
    What a logical type makes of another; those that are not known, or make no sense, nothing.
    """
    logical = schema.get("logicalType")
    read = node.read
    if logical == "decimal" and word in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            return node
        if precision > _DIGITS:
            raise OptionError(f"{place}: decimals have {_DIGITS} digits at most, not {precision}")
        if not precision:
            return node
        kind = pa.decimal128(precision, scale)
        return Node(kind, _decimalReader(read, precision, scale, place), node.least)
    if not isinstance(logical, str) or (word, logical) not in _TIMES:
        return node
    kind, scale = _TIMES[word, logical]
    if scale == 1:
        return Node(kind, read, node.least)
    return Node(kind, lambda source: checkedLong(read(source) * scale, place), node.least)


def _decimalReader(read: Read, precision: int, scale: int, place: str) -> Read:
    limit = 10**precision

    def found(source: Input) -> Any:
        data = read(source)
        if not data:
            raise BadPayload(f"{place}: a decimal has at least one byte")
        number = int.from_bytes(data, "big", signed=True)
        if abs(number) >= limit:
            raise BadPayload(f"{place}: a decimal has more than {precision} digits")
        return Decimal(number).scaleb(-scale, _WIDE)

    return found
