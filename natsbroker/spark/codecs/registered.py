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

from natsbroker.spark.codecs.avrocodec import AvroCodec, framedAvro, numbered, readAvro
from natsbroker.spark.codecs.jsoncodec import JSONCodec, jsonColumns
from natsbroker.spark.codecs.payloads import BadPayload, Codec, FramedCodec
from natsbroker.spark.codecs.protobufcodec import ProtobufCodec
from natsbroker.spark.codecs.registry import RegisteredSchema, SchemaRegistry
from natsbroker.spark.errors import OptionError

#: How many files of Protobuf are kept, and the most parts of a message's index.
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
            return framedAvro(numbered, partial(_avro, registry), number)
        if kind == "PROTOBUF":
            return _protobuf(registry, number, message, isUnknownBad)
        if kind == "JSON":
            codecOf = partial(_json, registry, isUnknownBad)
            lenient = JSONCodec(codecOf(number).columns, False)
            return FramedCodec(numbered, codecOf, number, lambda *other: lenient.decode(other[-1]))
    except BadPayload as error:
        raise OptionError(str(error)) from None
    raise OptionError(f"registry: schema {number} is {kind}: AVRO, PROTOBUF and JSON are supported")


def _avro(registry: SchemaRegistry, number: int) -> AvroCodec:
    text, named = _texts(registry, number, "AVRO")
    return readAvro(text.encode(), f"schema {number}", [each.encode() for each in named.values()])


def _json(registry: SchemaRegistry, isUnknownBad: bool, number: int) -> JSONCodec:
    text, named = _texts(registry, number, "JSON")
    others = {name: each.encode() for name, each in named.items()}
    return JSONCodec(jsonColumns(text.encode(), f"schema {number}", others), isUnknownBad)


def _protobuf(
    registry: SchemaRegistry, number: int, message: str, isUnknownBad: bool
) -> FramedCodec:
    files = lru_cache(_MOST)(partial(_files, registry))
    wanted = message or _nameOf(files(number)[1], (0,))

    def opened(data: bytes) -> tuple[tuple[int, str], int]:
        other, place = numbered(data)
        path, place = _index(data, place)
        return (other, _nameOf(files(other)[1], path)), place

    def codecOf(key: tuple[int, str], isUnknownBad: bool = isUnknownBad) -> ProtobufCodec:
        other, name = key
        if name != wanted:
            raise BadPayload(f"it is a {name} and not a {wanted}")
        return ProtobufCodec(files(other)[0], f"schema {other}", name, isUnknownBad)

    key = (number, wanted)
    lenient = codecOf(key, False)
    return FramedCodec(opened, codecOf, key, lambda *other: lenient.decode(other[-1]))


def _texts(registry: SchemaRegistry, number: int, kind: str) -> tuple[str, dict[str, str]]:
    """
    A schema, and those that it uses by their names, each behind those that it uses itself.
    """
    isProtobuf, named = kind == "PROTOBUF", {}
    schema = registry.schema(number, isProtobuf)
    if schema.kind != kind:
        raise BadPayload(f"its schema, {number}, is {schema.kind} and not {kind}")

    def refer(schema: RegisteredSchema) -> None:
        for name, subject, version in schema.references:
            if name not in named:
                other = registry.version(subject, version, isProtobuf)
                refer(other)
                named[name] = other.text

    refer(schema)
    return schema.text, named


def _files(registry: SchemaRegistry, number: int) -> tuple[bytes, Any]:
    """
    @return: the set of descriptors that is a schema, and the file of it that is the schema's.
    """
    text, named = _texts(registry, number, "PROTOBUF")
    root = _file(f"schema-{number}.proto", text)
    files = [root, *(_file(*each) for each in named.items())]
    return descriptor_pb2.FileDescriptorSet(file=files).SerializeToString(), root


def _file(name: str, text: str) -> Any:
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        raise OptionError(
            f"{name}: the registry does not give files of Protobuf as descriptors, which is"
            " format=serialized"
        ) from None
    file.name = name
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
    @return: which message of a file, and where it begins. That is a count, and a number for each
        level; a lone 0 is the first one.
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
