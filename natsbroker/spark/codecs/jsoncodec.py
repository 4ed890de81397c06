"""
Payloads in JSON, strictly by columns in Spark's language or by a JSON Schema, whose limits beside
types, such as patterns, are not looked at.

Nothing is guessed: a number is not a text, C{1.0} is not a whole number, and a value outside of its
type is bad, not null. A payload is one object, in UTF-8. msgspec reads it by types that are made
from the schema. Of equal keys, the last one counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from natsbroker.spark.codecs.datatypes import TIMESTAMP, checkNames, readingSchema
from natsbroker.spark.codecs.payloads import BadPayload, FramedCodec, numbered
from natsbroker.spark.codecs.registry import SchemaRegistry
from natsbroker.spark.errors import OptionError

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}

#: Between this and infinity, numbers are nearer to the largest C{FLOAT} than to what follows it.
_LARGEST = 3.4028235677973366e38

_TYPES: dict[Any, Any] = {
    **{
        kind: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
        for kind, bits in _BITS.items()
    },
    pa.bool_(): bool,
    pa.float32(): Annotated[float, msgspec.Meta(gt=-_LARGEST, lt=_LARGEST)],
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
    TIMESTAMP: Annotated[datetime, msgspec.Meta(tz=True)],
    pa.timestamp("us"): Annotated[datetime, msgspec.Meta(tz=False)],
}

#: The types that Arrow takes unchanged.
_KEPT = (bytes, date, datetime, Decimal)


class _Digits(Decimal):
    """The numbers of a C{DECIMAL} column. Arrow 26 ends the process for C{1E-999999999}."""

    kind: Any


class JSONCodec:
    def __init__(self, columns: Any, isUnknownBad: bool = True) -> None:
        self.columns = columns
        kind = _typeOf(pa.struct(list(columns)), "", isUnknownBad)
        self._decoder = msgspec.json.Decoder(kind, dec_hook=_digits, float_hook=Decimal)

    def decode(self, data: bytes) -> Mapping[str, Any]:
        try:
            value = self._decoder.decode(data)
        except RecursionError:
            raise BadPayload("it is nested too deeply") from None
        except (msgspec.MsgspecError, ValueError) as error:
            raise BadPayload(str(error)) from None
        fields: Mapping[str, Any] = msgspec.to_builtins(
            value, builtin_types=_KEPT, enc_hook=Decimal
        )
        return fields


def _typeOf(kind: Any, place: str, isStrict: bool) -> Any:
    if pa.types.is_struct(kind):
        inside = f"{place}." if place else ""
        fields: list[Any] = []
        names = {f"field{number}": field.name for number, field in enumerate(kind)}
        for name, field in zip(names, kind, strict=True):
            inner = _typeOf(field.type, inside + field.name, isStrict)
            fields.append((name, inner | None, None) if field.nullable else (name, inner))
        return msgspec.defstruct(
            "Object", fields, rename=names, forbid_unknown_fields=isStrict, kw_only=True
        )
    if pa.types.is_list(kind):
        item = _typeOf(kind.value_type, f"{place}[]", isStrict)
        return GenericAlias(list, (item | None,))
    if pa.types.is_map(kind):
        if kind.key_type != pa.string():
            raise OptionError(f"schema: {place}: the keys of JSON are STRING")
        item = _typeOf(kind.item_type, f"{place}{{}}", isStrict)
        return GenericAlias(dict, (str, item | None))
    if pa.types.is_decimal(kind):
        return type("Number", (_Digits,), {"kind": kind})
    return _TYPES[kind]


def _digits(kind: type[_Digits], value: Any) -> _Digits:
    if type(value) is not int and type(value) is not Decimal:
        raise ValueError("Expected a number")
    number, precision, scale = Decimal(value), kind.kind.precision, kind.kind.scale
    exact = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        return kind(number.quantize(Decimal((0, (1,), -scale)), context=exact))
    except DecimalException:
        raise BadPayload(f"{str(number)[:80]} is not a DECIMAL({precision}, {scale})") from None


_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError)

_SIMPLE = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
_TEXTS = {"date": pa.date32(), "date-time": TIMESTAMP}


def jsonColumns(data: bytes, name: str, references: Mapping[str, bytes] | None = None) -> Any:
    """C{references} are other schemas, by their names in this one and each other."""
    with readingSchema(name, "no JSON Schema", _MALFORMED):
        texts = {"": data, **(references or {})}
        builder = _ColumnBuilder({textName: json.loads(text) for textName, text in texts.items()})
        kind, _ = builder.kindOf(builder.documents[""], "", "", ())
        if not pa.types.is_struct(kind):
            raise OptionError("not a schema of an object with properties")
        columns = pa.schema(list(kind))
        checkNames(columns)
    return columns


def registeredJSON(registry: SchemaRegistry, number: int, isUnknownBad: bool) -> FramedCodec:
    def codecOf(number: int) -> JSONCodec:
        text, named = registry.texts(number, "JSON")
        others = {name: reference.encode() for name, reference in named.items()}
        return JSONCodec(jsonColumns(text.encode(), f"schema {number}", others), isUnknownBad)

    lenient = JSONCodec(codecOf(number).columns, False)
    return FramedCodec(numbered, codecOf, number, lambda *other: lenient.decode(other[-1]))


@dataclass
class _ColumnBuilder:
    documents: Mapping[str, Any]

    def kindOf(
        self, schema: Any, document: str, place: str, outer: tuple[str, ...]
    ) -> tuple[Any, bool]:
        """
        @param document: the document of references that name none.
        @return: the type of a value, and whether it may be null.
        """
        while "$ref" in schema:
            file, _, path = schema["$ref"].partition("#")
            document = file or document
            if document not in self.documents:
                raise OptionError(f"{place}: there is no schema {document}")
            whole = f"{document}#{path}"
            if whole in outer:
                raise OptionError(f"{place}: {whole} contains itself, which columns cannot hold")
            outer = (*outer, whole)
            schema = self.documents[document]
            for step in path.split("/")[1:]:
                schema = schema[step.replace("~1", "/").replace("~0", "~")]
        branches = [schema]
        for word in ("oneOf", "anyOf"):
            branches = schema.get(word, branches)
        if isinstance(schema.get("type"), list):
            branches = [{**schema, "type": single} for single in schema["type"]]
        some = [branch for branch in branches if branch.get("type") != "null"]
        if len(some) != 1:
            raise OptionError(f"{place or 'it'}: a column cannot hold a choice of types")
        isNullable = len(branches) > 1
        if some[0] is not schema:
            kind, isAlso = self.kindOf(some[0], document, place, outer)
            return kind, isNullable or isAlso
        return self._single(schema, document, place, outer), isNullable

    def _single(self, schema: Any, document: str, place: str, outer: tuple[str, ...]) -> Any:
        word = schema.get("type") or _guessed(schema)
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word == "string":
            if schema.get("contentEncoding") == "base64":
                return pa.binary()
            return _TEXTS.get(schema.get("format"), pa.string())
        if word == "array":
            item, _ = self.kindOf(schema["items"], document, f"{place}[]", outer)
            return pa.list_(pa.field("element", item))
        more = schema.get("additionalProperties")
        if word != "object" or not (schema.get("properties") or isinstance(more, dict)):
            raise OptionError(f"{place or 'it'}: a column cannot hold {json.dumps(schema)[:80]}")
        if not schema.get("properties"):
            return pa.map_(pa.string(), self.kindOf(more, document, f"{place}{{}}", outer)[0])
        inside, required = f"{place}." if place else "", schema.get("required", ())
        fields = []
        for name, member in schema["properties"].items():
            kind, isNullable = self.kindOf(member, document, inside + name, outer)
            fields.append(pa.field(name, kind, isNullable or name not in required))
        return pa.struct(fields)


def _guessed(schema: Any) -> str:
    if "properties" in schema:
        return "object"
    values = schema.get("enum") or [schema.get("const")]
    return "string" if all(isinstance(value, str) for value in values) else ""
