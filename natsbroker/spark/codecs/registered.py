"""
Payloads behind Confluent's frame, with their schemas in a registry: a zero byte, the number of the
schema in four bytes, and for Protobuf which message of the file it is.
"""

from __future__ import annotations

import base64
from functools import lru_cache, partial
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from natsbroker.spark.codecs.avrocodec import framedAvro, numbered
from natsbroker.spark.codecs.avroschemas import AvroSchema, readAvro
from natsbroker.spark.codecs.jsoncodec import JSONCodec
from natsbroker.spark.codecs.jsonschemas import jsonColumns
from natsbroker.spark.codecs.payloads import BadPayload, Codec, FramedCodec
from natsbroker.spark.codecs.protobufcodec import ProtobufCodec
from natsbroker.spark.codecs.registry import RegisteredSchema, SchemaRegistry
from natsbroker.spark.errors import OptionError

#: How many schemas are kept, and the most parts of a message's index.
_MOST, _DEEPEST = 256, 32


def registered(
    registry: SchemaRegistry, number: int, message: str, isUnknownBad: bool = True
) -> Codec:
    """
    What reads payloads into the columns of one schema. In JSON and Protobuf, what another one wrote
    is read without the fields that this one has not.

    @param message: of Protobuf, its full name; the first of the file if empty.
    @raise OptionError: if there is no such schema, or no columns for it.
    """
    try:
        kind = registry.schema(number).kind
        if kind == "AVRO":
            return framedAvro(numbered, lru_cache(_MOST)(partial(_avro, registry)), number)
        if kind == "PROTOBUF":
            return _protobuf(_ProtobufFiles(registry), number, message, isUnknownBad)
        if kind == "JSON":
            codecOf = partial(_json, registry, isUnknownBad)
            lenient = JSONCodec(codecOf(number).columns, False)
            return FramedCodec(numbered, codecOf, number, lambda _, data: lenient.decode(data))
    except BadPayload as error:
        raise OptionError(str(error)) from None
    raise OptionError(f"registry: schema {number} is {kind}: AVRO, PROTOBUF and JSON are supported")


def _avro(registry: SchemaRegistry, number: int) -> AvroSchema:
    text, named = _texts(registry, number, "AVRO")
    return readAvro(text, f"schema {number}", list(named.values()))


def _json(registry: SchemaRegistry, isUnknownBad: bool, number: int) -> JSONCodec:
    text, named = _texts(registry, number, "JSON")
    return JSONCodec(jsonColumns(text, f"schema {number}", named), isUnknownBad)


def _protobuf(files: _ProtobufFiles, number: int, message: str, isUnknownBad: bool) -> FramedCodec:
    wanted = message or _nameOf(files.of(number)[1], (0,))

    def opened(data: bytes) -> tuple[tuple[int, str], int]:
        other, place = numbered(data)
        path, place = _index(data, place)
        return (other, _nameOf(files.of(other)[1], path)), place

    def codecOf(key: tuple[int, str], isUnknownBad: bool = isUnknownBad) -> ProtobufCodec:
        other, name = key
        if name != wanted:
            raise BadPayload(f"it is a {name} and not a {wanted}")
        return ProtobufCodec(files.of(other)[0], f"schema {other}", name, isUnknownBad)

    key = (number, wanted)
    lenient = codecOf(key, False)
    return FramedCodec(opened, codecOf, key, lambda _, data: lenient.decode(data))


def _texts(registry: SchemaRegistry, number: int, kind: str) -> tuple[bytes, dict[str, bytes]]:
    """
    A schema, and those that it uses by their names.
    """
    schema = registry.schema(number)
    if schema.kind != kind:
        raise BadPayload(f"its schema, {number}, is {schema.kind} and not {kind}")
    named: dict[str, bytes] = {}
    _refer(registry, schema, named)
    return schema.text.encode(), named


def _refer(registry: SchemaRegistry, schema: RegisteredSchema, found: dict[str, bytes]) -> None:
    for name, subject, version in schema.references:
        if name not in found:
            other = registry.version(subject, version)
            _refer(registry, other, found)
            found[name] = other.text.encode()


class _ProtobufFiles:
    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self.of = lru_cache(_MOST)(self._found)

    def _found(self, number: int) -> tuple[bytes, Any]:
        """
        @return: the set of descriptors that is a schema, and the file of it that is the schema's.
        """
        schema = self._registry.schema(number, True)
        if schema.kind != "PROTOBUF":
            raise BadPayload(f"its schema, {number}, is {schema.kind} and not PROTOBUF")
        found: dict[str, Any] = {}
        root = self._file(schema, f"schema-{number}.proto", found)
        every = descriptor_pb2.FileDescriptorSet(file=found.values())
        return every.SerializeToString(), root

    def _file(self, schema: RegisteredSchema, name: str, found: dict[str, Any]) -> Any:
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(
                base64.b64decode(schema.text, validate=True)
            )
        except (ValueError, DecodeError):
            raise OptionError(
                f"{name}: the registry does not give files of Protobuf as descriptors, which is"
                " format=serialized"
            ) from None
        file.name = name
        found[name] = file
        for each, subject, version in schema.references:
            if each not in found:
                self._file(self._registry.version(subject, version, True), each, found)
        return file


def _nameOf(file: Any, path: tuple[int, ...]) -> str:
    names = [file.package] if file.package else []
    messages = file.message_type
    for each in path:
        if each >= len(messages):
            raise BadPayload(f"its file has no message {'.'.join(map(str, path))}")
        names.append(messages[each].name)
        messages = messages[each].nested_type
    return ".".join(names)


def _index(data: bytes, place: int) -> tuple[tuple[int, ...], int]:
    """
    Which message of a file: a count, and a number for each level; a lone 0 is the first one.

    @return: it, and where the message begins.
    """
    count, place = _varint(data, place)
    if not count:
        return (0,), place
    if not 0 < count <= _DEEPEST:
        raise BadPayload(f"its message has an index of {count} numbers")
    path = []
    for _ in range(count):
        number, place = _varint(data, place)
        if number < 0:
            raise BadPayload("its message has an index below 0")
        path.append(number)
    return tuple(path), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 35:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value >> 1 ^ -(value & 1), place
    raise BadPayload("the index of its message does not end")
