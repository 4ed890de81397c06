"""
Payloads in Avro: bare, as single objects, or behind the five bytes of Confluent's serializers.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any

from natsbroker.spark.codecs.avroschemas import AvroSchema, readAvro
from natsbroker.spark.codecs.payloads import BadPayload, FramedCodec
from natsbroker.spark.errors import OptionError

_MARK = b"\xc3\x01"
_ID = struct.Struct(">bI")

#: What fastavro raises for bytes that are no value, or beyond what times of Python can be.
_BAD = (EOFError, ValueError, IndexError, ArithmeticError)


class AvroCodec:
    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema
        self.columns = schema.columns

    def decode(self, data: bytes) -> Mapping[str, Any]:
        import fastavro

        source = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(source, self.schema.reading, None)
        except _BAD as error:
            raise BadPayload(f"it is no value of its schema: {error!r}") from None
        place = source.tell()
        if place < len(data):
            raise BadPayload(f"{len(data) - place} bytes follow the value, from byte {place} on")
        if not self.schema.isRecord:
            return {"value": value}
        # A record without fields is read as its being there.
        return value if isinstance(value, dict) else {}


def framedAvro(
    opened: Callable[[bytes], tuple[Any, int]], schemaOf: Callable[[Any], AvroSchema], key: Any
) -> FramedCodec:
    """
    @param schemaOf: gives the schema that payloads call so, or raises an error.
    @param key: the one whose columns are made.
    """
    target = AvroCodec(schemaOf(key))

    def brought(other: Any, data: bytes) -> Mapping[str, Any]:
        return target.decode(_resolved(schemaOf(other), target.schema, data, f"{other} to {key}"))

    return FramedCodec(opened, lambda other: AvroCodec(schemaOf(other)), key, brought)


def _resolved(writer: AvroSchema, reader: AvroSchema, data: bytes, which: str) -> bytes:
    import fastavro

    if writer.hasChoices or reader.hasChoices:
        raise BadPayload(f"it does not go from schema {which}: they have unions of several types")
    written = io.BytesIO()
    try:
        value = fastavro.schemaless_reader(io.BytesIO(data), writer.parsed, reader.parsed)
        fastavro.schemaless_writer(written, reader.parsed, value)
    except Exception as error:
        # Schemas that do not go together, and values beyond what Python's times can be.
        raise BadPayload(f"it does not go from schema {which}: {error}") from None
    return written.getvalue()


def confluent(files: Mapping[str, bytes], number: str) -> FramedCodec:
    """
    What reads values behind a zero byte and the number of a schema in four.
    """
    schemas: dict[Any, AvroSchema] = {}
    for name, data in files.items():
        stem = name.removesuffix(".avsc")
        if not stem.isascii() or not stem.isdigit() or int(stem) >> 32:
            raise OptionError(f"{name}: files of a registry are called by numbers, such as 7.avsc")
        schemas[int(stem)] = readAvro(data, name)
    if not number.isdigit() or int(number) not in schemas:
        raise OptionError(f"there is no schema {number}.avsc")
    return framedAvro(numbered, _among(schemas), int(number))


def _among(schemas: Mapping[Any, AvroSchema]) -> Callable[[Any], AvroSchema]:
    def schemaOf(key: Any) -> AvroSchema:
        if key not in schemas:
            raise BadPayload(f"its schema, {key}, is not known")
        return schemas[key]

    return schemaOf


def numbered(data: bytes) -> tuple[int, int]:
    if len(data) < _ID.size or data[0]:
        raise BadPayload("it does not begin with a zero byte and the number of a schema")
    return int(_ID.unpack_from(data)[1]), _ID.size


def singleObjects(files: Mapping[str, bytes], name: str) -> FramedCodec:
    """
    What reads single objects: values behind a mark and the fingerprint of a schema.
    """
    if name not in files:
        raise OptionError(f"there is no schema {name}")
    schemas = {each: readAvro(data, each) for each, data in files.items()}
    found = {byFingerprint(schema): schema for schema in schemas.values()}
    key = byFingerprint(schemas[name])
    found[key] = schemas[name]
    return framedAvro(_printed, _among(found), key)


def byFingerprint(schema: AvroSchema) -> str:
    """
    What single objects call a schema: its CRC-64-AVRO as it is written, in hexadecimal digits.
    """
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return str(fingerprint(to_parsing_canonical_form(schema.parsed), "CRC-64-AVRO"))


def _printed(data: bytes) -> tuple[str, int]:
    if data[:2] != _MARK or len(data) < 10:
        raise BadPayload("it does not begin with C3 01 and the fingerprint of a schema")
    return data[2:10].hex(), 10
