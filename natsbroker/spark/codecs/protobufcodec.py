"""
Payloads in Protobuf, by the descriptors that C{protoc --descriptor_set_out} writes. Google's
library reads the bytes. It takes garbage behind a message for unknown fields, which are bad on
request.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
from google.protobuf import (
    descriptor_database,
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    wrappers_pb2,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError

from natsbroker.spark.codecs.datatypes import TIMESTAMP, checkNames, readingSchema
from natsbroker.spark.codecs.payloads import BadPayload, FramedCodec, numbered
from natsbroker.spark.codecs.registry import SchemaRegistry
from natsbroker.spark.errors import OptionError

_Reader = Callable[[Any], Any]

_DECIMAL = pa.decimal128(20, 0)

#: The types of scalar fields, by their types in C++, where C{bytes} are strings too.
_SCALARS = {
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: _DECIMAL,
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
}

_WELL_KNOWN = "google/protobuf/"
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = {
    message.full_name for message in wrappers_pb2.DESCRIPTOR.message_types_by_name.values()
}

#: The seconds that a C{Timestamp} may have: of the years 1 to 9999.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799


class ProtobufCodec:
    def __init__(self, data: bytes, name: str, message: str, isUnknownBad: bool = True) -> None:
        """C{data} is a C{FileDescriptorSet}."""
        if api_implementation.Type() == "python":
            # The library reports neither unknown fields by their sizes nor texts that are not
            # UTF-8.
            raise OptionError("Protobuf needs the compiled form of Google's library: protobuf")
        self._isUnknownBad = isUnknownBad
        with readingSchema(
            name, "not a set of descriptors", (DecodeError, TypeError, descriptor_database.Error)
        ):
            try:
                descriptor = _pool(data).FindMessageTypeByName(message)
            except KeyError:
                raise OptionError(f"it has no message {message}") from None
            self._class = message_factory.GetMessageClass(descriptor)
            kind, self._read = _message(descriptor, "", ())
            self.columns = pa.schema(list(kind) if pa.types.is_struct(kind) else [])
            checkNames(self.columns)

    def decode(self, data: bytes) -> Mapping[str, Any]:
        message: Any = self._class()
        try:
            message.ParseFromString(data)
            if not message.IsInitialized():
                missing = ", ".join(message.FindInitializationErrors())
                raise BadPayload(f"it lacks {missing}")
            if self._isUnknownBad:
                size = message.ByteSize()
                message.DiscardUnknownFields()
                if message.ByteSize() != size:
                    unknown = size - message.ByteSize()
                    raise BadPayload(f"{unknown} bytes are of fields unknown to the message")
            fields = self._read(message)
        except DecodeError as error:
            raise BadPayload(f"it is not such a message: {error}") from None
        except UnicodeDecodeError:
            raise BadPayload("a text is not UTF-8") from None
        # The value of a message without fields is whether it is present.
        return fields if isinstance(fields, dict) else {}


def _pool(data: bytes) -> Any:
    files = list(descriptor_pb2.FileDescriptorSet.FromString(data).file)
    names = {file.name for file in files}
    database = descriptor_database.DescriptorDatabase()
    for file in files:
        for name in set(file.dependency) - names:
            names.add(name)
            files.append(_wellKnown(name))
        _forgetExtensions(file, file.message_type)
        database.Add(file)
    return descriptor_pool.DescriptorPool(database)


def _wellKnown(name: str) -> Any:
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    try:
        if not name.startswith(_WELL_KNOWN):
            raise ImportError
        serialized = importlib.import_module(module).DESCRIPTOR.serialized_pb
    except ImportError:
        raise OptionError(f"it has no {name}: run protoc with --include_imports") from None
    return descriptor_pb2.FileDescriptorProto.FromString(serialized)


def _forgetExtensions(outer: Any, messages: Any) -> None:
    """Remove the extensions, for which there are no columns, so that they are unknown fields."""
    del outer.extension[:]
    for message in messages:
        _forgetExtensions(message, message.nested_type)


def _isRepeated(field: Any) -> bool:
    # Versions of the library that have one of these warn of the other, or lack it.
    answer = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if answer is None else answer)


def _message(descriptor: Any, place: str, outer: tuple[str, ...]) -> tuple[Any, _Reader]:
    name = descriptor.full_name
    if name in outer:
        raise OptionError(f"{place}: {name} contains itself, which columns cannot hold")
    if name == _TIMESTAMP:
        return TIMESTAMP, lambda message: _micros(message, place)
    inner = (*outer, name)
    if name in _WRAPPERS:
        kind, reader = _single(descriptor.fields_by_name["value"], place, inner)
        return kind, lambda message: reader(message.value)
    fields, readers = [], []
    for field in descriptor.fields:
        kind, reader = _field(field, f"{place}.{field.name}" if place else field.name, inner)
        fields.append(pa.field(field.name, kind))
        readers.append((field.name, field.has_presence, reader))
    if not fields:
        return pa.bool_(), lambda message: True

    def read(message: Any) -> dict[str, Any]:
        return {
            name: reader(getattr(message, name))
            for name, hasPresence, reader in readers
            if not hasPresence or message.HasField(name)
        }

    return pa.struct(fields), read


def _field(field: Any, place: str, outer: tuple[str, ...]) -> tuple[Any, _Reader]:
    if not _isRepeated(field):
        return _single(field, place, outer)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        key, readKey = _single(entry["key"], place, outer)
        kind, readItem = _single(entry["value"], f"{place}{{}}", outer)
        return pa.map_(key, kind), lambda entries: [
            (readKey(x), readItem(entries[x])) for x in entries
        ]
    kind, reader = _single(field, f"{place}[]", outer)
    return pa.list_(pa.field("element", kind)), lambda values: [reader(value) for value in values]


def _single(field: Any, place: str, outer: tuple[str, ...]) -> tuple[Any, _Reader]:
    if field.message_type is not None:
        return _message(field.message_type, place, outer)
    if field.enum_type is not None:
        return pa.string(), _enum(field.enum_type, place)
    isBinary = field.type == FieldDescriptor.TYPE_BYTES
    kind = pa.binary() if isBinary else _SCALARS[field.cpp_type]
    return kind, _READERS.get(kind, lambda value: value)


def _text(value: str | bytes) -> str:
    # Texts of proto2 may be anything, and the library gives bytes where they are no UTF-8.
    if isinstance(value, bytes):
        raise BadPayload("a text is not UTF-8")
    return value


_READERS: dict[Any, _Reader] = {_DECIMAL: Decimal, pa.string(): _text}


def _enum(descriptor: Any, place: str) -> _Reader:
    names = {number: value.name for number, value in descriptor.values_by_number.items()}

    def read(number: int) -> str:
        if number not in names:
            raise BadPayload(f"{place}: {number} is not a value of {descriptor.full_name}")
        return str(names[number])

    return read


def _micros(message: Any, place: str) -> int:
    seconds, nanos = message.seconds, message.nanos
    if not (_FIRST <= seconds <= _LAST and 0 <= nanos < 1_000_000_000):
        raise BadPayload(f"{place}: {seconds} s and {nanos} ns is not a time")
    return int(seconds * 1_000_000 + nanos // 1000)


#: The files that are kept, and the most parts of a message's index.
_MOST, _DEEPEST = 256, 32


def registeredProtobuf(
    registry: SchemaRegistry, number: int, message: str, isUnknownBad: bool
) -> FramedCodec:
    """C{message} is a full name; the first of the file if empty."""
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


def _files(registry: SchemaRegistry, number: int) -> tuple[bytes, Any]:
    text, named = registry.texts(number, "PROTOBUF")
    root = _file(f"schema-{number}.proto", text)
    files = [root, *(_file(*pair) for pair in named.items())]
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
    for index in path:
        if index >= len(messages):
            raise BadPayload(f"its file has no message {'.'.join(map(str, path))}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def _index(data: bytes, place: int) -> tuple[tuple[int, ...], int]:
    """
    The message of a file, as a path, and where its bytes begin. The path is a count, and a number
    for each level; a lone 0 is the first one.
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
