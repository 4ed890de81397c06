"""
Payloads in Avro: bare, as single objects, or behind the five bytes of Confluent's serializers.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any

from natsbroker.spark.codecs.avroschemas import AvroCodec, readAvro
from natsbroker.spark.codecs.payloads import BadPayload, FramedCodec
from natsbroker.spark.errors import OptionError

_MARK = b"\xc3\x01"
_ID = struct.Struct(">bI")


def framedAvro(
    opened: Callable[[bytes], tuple[Any, int]], codecOf: Callable[[Any], AvroCodec], key: Any
) -> FramedCodec:
    import fastavro

    target = codecOf(key)

    def brought(other: Any, writer: Any, data: bytes) -> Mapping[str, Any]:
        which, written = f"{other} to {key}", io.BytesIO()
        if writer.hasChoices or target.hasChoices:
            raise BadPayload(
                f"it does not go from schema {which}: they have unions of several types"
            )
        try:
            value = fastavro.schemaless_reader(io.BytesIO(data), writer.parsed, target.parsed)
            fastavro.schemaless_writer(written, target.parsed, value)
        except Exception as error:
            # Schemas that do not go together, and values beyond what Python's times can be.
            raise BadPayload(f"it does not go from schema {which}: {error}") from None
        return target.decode(written.getvalue())

    return FramedCodec(opened, codecOf, key, brought)


def confluent(files: Mapping[str, bytes], number: str) -> FramedCodec:
    """
    What reads values behind a zero byte and the number of a schema in four.
    """
    schemas: dict[Any, AvroCodec] = {}
    for name, data in files.items():
        stem = name.removesuffix(".avsc")
        if not stem.isascii() or not stem.isdigit() or int(stem) >> 32:
            raise OptionError(f"{name}: files of a registry are called by numbers, such as 7.avsc")
        schemas[int(stem)] = readAvro(data, name)
    if not number.isdigit() or int(number) not in schemas:
        raise OptionError(f"there is no schema {number}.avsc")
    return framedAvro(numbered, schemas.__getitem__, int(number))


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
    return framedAvro(_printed, found.__getitem__, key)


def byFingerprint(schema: AvroCodec) -> str:
    """
    What single objects call a schema: its CRC-64-AVRO as it is written, in hexadecimal digits.
    """
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return str(fingerprint(to_parsing_canonical_form(schema.parsed), "CRC-64-AVRO"))


def _printed(data: bytes) -> tuple[str, int]:
    if data[:2] != _MARK or len(data) < 10:
        raise BadPayload("it does not begin with C3 01 and the fingerprint of a schema")
    return data[2:10].hex(), 10
