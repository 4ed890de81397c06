"""
Payloads in Avro: bare, as single objects, or behind the five bytes of Confluent's serializers.
fastavro trusts payloads: eight bytes can make it build an array with any number of nulls. So arrays
whose items have zero bytes are refused. Other arrays cannot have more items than bytes.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from natsbroker.spark.codecs.datatypes import DIGITS, TIMESTAMP, checkNames, readingSchema
from natsbroker.spark.codecs.payloads import BadPayload, FramedCodec, numbered
from natsbroker.spark.codecs.registry import SchemaRegistry
from natsbroker.spark.errors import OptionError

#: The logical type by which fastavro reads a record without fields as true.
_THERE = "natsbroker-there"

#: The errors of fastavro for bytes that are no value, or a time beyond those of Python.
_BAD = (EOFError, ValueError, IndexError, ArithmeticError)


@dataclass
class AvroCodec:
    """
    @ivar parsed: the schema itself, for fingerprints and for payloads of another schema.
    @ivar reading: another schema for the same bytes, with which fastavro makes values for Arrow.
    @ivar columns: the fields of a record; anything else is one column C{value}.
    @ivar hasChoices: whether there are unions of several types.
    """

    parsed: Any
    reading: Any
    columns: Any
    isRecord: bool
    hasChoices: bool

    def decode(self, data: bytes) -> Mapping[str, Any]:
        import fastavro

        source = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(source, self.reading, None)
        except _BAD as error:
            raise BadPayload(f"it does not match its schema: {error!r}") from None
        place = source.tell()
        if place < len(data):
            raise BadPayload(f"{len(data) - place} bytes follow the value, from byte {place} on")
        if not self.isRecord:
            return {"value": value}
        # The value of a record without fields is whether it is present.
        return value if isinstance(value, dict) else {}


_SIMPLE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.bool_(),
}

#: The types of other logical types; the rest are as the types beneath.
_TIMES = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}

#: Unions of numbers that one column holds without loss.
_NUMBERS = {frozenset(("int", "long")): pa.int64(), frozenset(("float", "double")): pa.float64()}


def readAvro(data: bytes, name: str, references: Sequence[bytes] = ()) -> AvroCodec:
    """
    Read a schema. C{references} are the schemas that it uses, each after those that it uses itself.
    """
    try:
        from fastavro.read import LOGICAL_READERS
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema
    except ImportError:
        raise OptionError("Avro needs fastavro: pip install 'natsbroker[avro]'") from None
    LOGICAL_READERS[f"record-{_THERE}"] = lambda *given: True
    malformed = (SchemaParseException, UnknownType, ValueError, KeyError, TypeError)
    with readingSchema(name, "not an Avro schema", malformed):
        builder = _SchemaBuilder()
        named: tuple[dict[str, Any], ...] = {}, {}, {}
        for text in (*references, data):
            parsed = parse_schema(json.loads(text), named[0])
            reading = parse_schema(json.loads(text), named[1], _write_hint=False)
            kind, _ = builder.made(reading, "")
            reading = parse_schema(reading, named[2])
        isRecord = isinstance(parsed, dict) and parsed["type"] in ("record", "error")
        if isRecord:
            columns = pa.schema(list(kind) if pa.types.is_struct(kind) else [])
        else:
            columns = pa.schema([pa.field("value", kind)])
        checkNames(columns)
    return AvroCodec(parsed, reading, columns, isRecord, builder.hasChoices)


class _SchemaBuilder:
    """Makes columns of a schema, changed to the one in L{AvroCodec.reading}."""

    def __init__(self) -> None:
        self.hasChoices = False
        self._members = itertools.count()
        self._named: dict[str, tuple[Any, bool] | None] = {}

    def made(self, schema: Any, place: str) -> tuple[Any, bool]:
        if isinstance(schema, list):
            return self._union(schema, place), False
        if isinstance(schema, str):
            if schema in _SIMPLE:
                return _SIMPLE[schema], schema == "null"
            known = self._named[schema]
            if known is None:
                what = f"{place or schema}: {schema} contains itself"
                raise OptionError(f"{what}, which columns cannot hold")
            return known
        word, logical = schema["type"], schema.pop("logicalType", None)
        if word == "array":
            kind, isEmpty = self.made(schema["items"], f"{place}[]")
            if isEmpty:
                raise OptionError(f"{place}[]: columns cannot hold items of zero bytes")
            return pa.list_(pa.field("element", kind)), False
        if word == "map":
            return pa.map_(pa.string(), self.made(schema["values"], f"{place}{{}}")[0]), False
        if word in _SIMPLE:
            kind, isEmpty = _SIMPLE[word], word == "null"
        else:
            self._named[schema["name"]] = None
            if word == "enum":
                kind, isEmpty = pa.string(), False
            elif word == "fixed":
                kind, isEmpty = pa.binary(), not schema["size"]
            else:
                kind, isEmpty = self._record(schema, place)
        known = _logical(word, logical, schema, place)
        if known is not None:
            kind, schema["logicalType"] = known, logical
        if word not in _SIMPLE:
            self._named[schema["name"]] = kind, isEmpty
        return kind, isEmpty

    def _record(self, schema: Any, place: str) -> tuple[Any, bool]:
        inside = f"{place}." if place else ""
        fields, areEmpty = [], True
        for field in schema["fields"]:
            field.pop("default", None)
            kind, isEmpty = self.made(field["type"], inside + field["name"])
            fields.append(pa.field(field["name"], kind))
            areEmpty &= isEmpty
        if fields:
            return pa.struct(fields), areEmpty
        schema["logicalType"] = _THERE
        return pa.bool_(), True

    def _union(self, branches: list[Any], place: str) -> Any:
        """
        The type of a union. One branch beside null is that type. Several are a struct with a field
        for each. fastavro reads each as a record with one field, which has the same bytes.
        """
        words = frozenset(
            branch for branch in branches if isinstance(branch, str) and branch != "null"
        )
        kinds = [self.made(branch, place)[0] for branch in branches]
        places = [number for number, branch in enumerate(branches) if branch != "null"]
        if len(places) <= 1:
            return kinds[places[0]] if places else pa.bool_()
        if len(words) == len(places) and words in _NUMBERS:
            return _NUMBERS[words]
        self.hasChoices = True
        for member, number in enumerate(places):
            inside = [{"name": f"member{member}", "type": branches[number]}]
            name = f"natsbroker.Member{next(self._members)}"
            branches[number] = {"type": "record", "name": name, "fields": inside}
        return pa.struct([pa.field(f"member{x}", kinds[y]) for x, y in enumerate(places)])


def _logical(word: str, logical: Any, schema: Mapping[str, Any], place: str) -> Any:
    """The type of values with a logical type; C{None} if that is unknown or malformed."""
    precision = schema.get("precision")
    if logical != "decimal" or word not in ("bytes", "fixed") or not precision:
        return _TIMES.get((word, logical)) if isinstance(logical, str) else None
    if precision > DIGITS:
        raise OptionError(f"{place}: decimals have {DIGITS} digits at most, not {precision}")
    return pa.decimal128(precision, schema.get("scale", 0))


_MARK = b"\xc3\x01"


def framedAvro(
    opened: Callable[[bytes], tuple[Any, int]], codecOf: Callable[[Any], AvroCodec], key: Any
) -> FramedCodec:
    import fastavro

    target = codecOf(key)

    def brought(other: Any, writer: Any, data: bytes) -> Mapping[str, Any]:
        which, written = f"{other} to {key}", io.BytesIO()
        if writer.hasChoices or target.hasChoices:
            raise BadPayload(
                f"it cannot be converted from schema {which}: they have unions of several types"
            )
        try:
            value = fastavro.schemaless_reader(io.BytesIO(data), writer.parsed, target.parsed)
            fastavro.schemaless_writer(written, target.parsed, value)
        except Exception as error:
            # Schemas that do not go together, and values beyond what Python's times can be.
            raise BadPayload(f"it cannot be converted from schema {which}: {error}") from None
        return target.decode(written.getvalue())

    return FramedCodec(opened, codecOf, key, brought)


def confluent(files: Mapping[str, bytes], number: str) -> FramedCodec:
    schemas: dict[Any, AvroCodec] = {}
    for name, data in files.items():
        stem = name.removesuffix(".avsc")
        if not stem.isascii() or not stem.isdigit() or int(stem) >> 32:
            raise OptionError(f"{name}: files of a registry have numbers as names, such as 7.avsc")
        schemas[int(stem)] = readAvro(data, name)
    if not number.isdigit() or int(number) not in schemas:
        raise OptionError(f"there is no schema {number}.avsc")
    return framedAvro(numbered, schemas.__getitem__, int(number))


def registeredAvro(registry: SchemaRegistry, number: int) -> FramedCodec:
    def codecOf(number: int) -> AvroCodec:
        text, named = registry.texts(number, "AVRO")
        references = [reference.encode() for reference in named.values()]
        return readAvro(text.encode(), f"schema {number}", references)

    return framedAvro(numbered, codecOf, number)


def singleObjects(files: Mapping[str, bytes], name: str) -> FramedCodec:
    if name not in files:
        raise OptionError(f"there is no schema {name}")
    schemas = {schemaName: readAvro(data, schemaName) for schemaName, data in files.items()}
    byKey = {byFingerprint(schema): schema for schema in schemas.values()}
    key = byFingerprint(schemas[name])
    byKey[key] = schemas[name]
    return framedAvro(_printed, byKey.__getitem__, key)


def byFingerprint(schema: AvroCodec) -> str:
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return str(fingerprint(to_parsing_canonical_form(schema.parsed), "CRC-64-AVRO"))


def _printed(data: bytes) -> tuple[str, int]:
    if data[:2] != _MARK or len(data) < 10:
        raise BadPayload("it does not begin with C3 01 and the fingerprint of a schema")
    return data[2:10].hex(), 10
