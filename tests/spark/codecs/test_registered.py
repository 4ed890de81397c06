"""
Payloads whose schemas are in a registry.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from natsbroker.spark.codecs.mappings import codecOf, readMappings
from natsbroker.spark.codecs.payloads import BadPayload, Codec
from natsbroker.spark.codecs.registry import RegistryAccess
from natsbroker.spark.errors import OptionError
from tests.spark.registries import RegistryServer, registryServer

_FIELD = descriptor_pb2.FieldDescriptorProto

CLERK = {"type": "record", "name": "Clerk", "fields": [{"name": "name", "type": "string"}]}
OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "by", "type": ["null", "Clerk"], "default": None},
    ],
}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    """A registry."""
    with registryServer() as registry:
        yield registry


def codec(server: RegistryServer, what: str) -> Codec:
    """The codec of a mapping."""
    access = RegistryAccess(server.url)
    [mapping] = readMappings([f"a=registry:{what}"], {"a": "t"}, True, access)
    return codecOf(mapping)


def framed(number: int, data: bytes) -> bytes:
    """A payload."""
    return struct.pack(">bI", 0, number) + data


def test_avro(server: RegistryServer) -> None:
    """
    Avro schemas with references are read from the registry, and messages of older schemas are
    converted to the newest.
    """
    reference = [{"name": "Clerk", "subject": "clerk", "version": 3}]
    server.answers = {
        "/subjects/orders/versions/latest": {"id": 2, "schema": ""},
        "/schemas/ids/1": {"schema": json.dumps(OLD)},
        "/schemas/ids/2": {"schema": json.dumps(NEW), "references": reference},
        "/subjects/clerk/versions/3": {"schema": json.dumps(CLERK), "id": 9},
        "/schemas/ids/4": {"schema": "{}"},
        "/schemas/ids/5": {"schema": "{}", "schemaType": "JSON"},
    }
    decoder = codec(server, "orders")
    assert decoder.columns.names == ["id", "by"]
    named: dict[str, Any] = {}
    fastavro.parse_schema(CLERK, named)
    written = io.BytesIO()
    row = {"id": 7, "by": {"name": "Anna"}}
    fastavro.schemaless_writer(written, fastavro.parse_schema(NEW, named), row)
    assert decoder.decode(framed(2, written.getvalue())) == row
    assert decoder.decode(framed(1, b"\x0e")) == {"id": 7, "by": None}
    count = len(server.asked)
    assert decoder.decode(framed(1, b"\x10")) == {"id": 8, "by": None}
    assert len(server.asked) == count
    for data, why in (
        (framed(3, b"\x0e"), "there is no /schemas/ids/3"),
        (framed(4, b"\x0e"), "not an Avro schema"),
        (framed(5, b"\x0e"), "is JSON and not AVRO"),
        (b"\x01" + framed(2, b"")[1:], "does not begin with a zero byte"),
        (b"\x00\x00", "does not begin with a zero byte"),
    ):
        with pytest.raises(BadPayload, match=why):
            decoder.decode(data)


def serialized(*fields: str, dependency: str = "") -> str:
    """A file of Protobuf with C{pkg.First} and C{pkg.Outer.Inner}."""
    file = descriptor_pb2.FileDescriptorProto(name="default", package="pkg", syntax="proto3")
    file.message_type.add(name="First")
    inner = file.message_type.add(name="Outer").nested_type.add(name="Inner")
    for number, name in enumerate(fields, 1):
        inner.field.add(name=name, number=number, type=_FIELD.TYPE_INT64, label=1)
    if dependency:
        file.dependency.append(dependency)
        one = inner.field.add(name="clerk", number=9, type=_FIELD.TYPE_MESSAGE, label=1)
        one.type_name = ".other.Clerk"
    return base64.b64encode(file.SerializeToString()).decode()


def test_protobuf(server: RegistryServer) -> None:
    """
    Protobuf schemas with references are read from the registry. Newer fields of a message are left
    out.
    """
    other = descriptor_pb2.FileDescriptorProto(name="x", package="other", syntax="proto3")
    clerk = other.message_type.add(name="Clerk")
    clerk.field.add(name="name", number=1, type=_FIELD.TYPE_STRING, label=1)
    text = base64.b64encode(other.SerializeToString()).decode()
    kind = {"schemaType": "PROTOBUF"}
    reference = [{"name": "clerk.proto", "subject": "clerk", "version": 1}]
    first = serialized("id", dependency="clerk.proto")
    server.answers = {
        "/subjects/orders/versions/latest": {"id": 1, "schema": ""},
        "/schemas/ids/1": {**kind, "schema": "syntax"},
        "/schemas/ids/1?format=serialized": {**kind, "schema": first, "references": reference},
        "/subjects/clerk/versions/1?format=serialized": {**kind, "schema": text},
        "/schemas/ids/2?format=serialized": {**kind, "schema": serialized("id", "more")},
        "/schemas/ids/3?format=serialized": {**kind, "schema": "syntax = 'proto3';"},
    }
    decoder = codec(server, "orders#pkg.Outer.Inner")
    assert decoder.columns.names == ["id", "clerk"]
    index = b"\x04\x02\x00"
    value = b"\x08\x07\x4a\x06\x0a\x04Anna"
    assert decoder.decode(framed(1, index + value)) == {"id": 7, "clerk": {"name": "Anna"}}
    assert decoder.decode(framed(2, index + b"\x08\x07\x10\x01")) == {"id": 7}
    for data, why in (
        (framed(1, b"\x00"), "it is a pkg.First and not a pkg.Outer.Inner"),
        (framed(1, index + b"\x08\x07\x10\x01"), "of fields unknown to the message"),
        (framed(1, b"\x04\x02\x08"), "has no message 1.4"),
        (framed(1, b"\x04\x02"), "does not end"),
        (framed(1, b"\x01"), "index of -1 numbers"),
        (framed(1, b"\x02\x01"), "below 0"),
        (framed(3, index), "format=serialized"),
        (framed(4, index), "there is no /schemas/ids/4"),
    ):
        with pytest.raises(BadPayload, match=why):
            decoder.decode(data)


def test_json(server: RegistryServer) -> None:
    """
    JSON schemas with references are read from the registry. Keys that only another schema has are
    left out.
    """
    clerk = {"type": "object", "properties": {"name": {"type": "string"}}}
    old = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    new = {"properties": {"id": {"type": "integer"}, "by": {"$ref": "clerk.json"}}}
    more = {"properties": {"id": {"type": "integer"}, "more": {"type": "string"}}}
    kind = {"schemaType": "JSON"}
    reference = [{"name": "clerk.json", "subject": "clerk", "version": 3}]
    server.answers = {
        "/subjects/orders/versions/latest": {"id": 2, "schema": ""},
        "/schemas/ids/1": {**kind, "schema": json.dumps(old)},
        "/schemas/ids/2": {**kind, "schema": json.dumps(new), "references": reference},
        "/schemas/ids/3": {**kind, "schema": json.dumps(more)},
        "/schemas/ids/4": {**kind, "schema": "[]"},
        "/schemas/ids/5": {"schema": json.dumps(OLD)},
        "/subjects/clerk/versions/3": {**kind, "schema": json.dumps(clerk)},
    }
    decoder = codec(server, "orders")
    assert decoder.columns.names == ["id", "by"]
    row = {"id": 7, "by": {"name": "Anna"}}
    assert decoder.decode(framed(2, json.dumps(row).encode())) == row
    assert decoder.decode(framed(1, b'{"id": 7}')) == {"id": 7, "by": None}
    assert decoder.decode(framed(3, b'{"id": 7, "more": "x"}')) == {"id": 7, "by": None}
    for data, why in (
        (framed(2, b'{"id": "7"}'), r"Expected `int \| null`, got `str` - at `\$\.id`"),
        (framed(2, b'{"more": "x"}'), "Object contains unknown field `more`"),
        (framed(1, b"{}"), "Object missing required field `id`"),
        (framed(4, b"{}"), "schema 4: it is no JSON Schema"),
        (framed(5, b"{}"), "is AVRO and not JSON"),
        (b"{}", "does not begin with a zero byte"),
    ):
        with pytest.raises(BadPayload, match=why):
            decoder.decode(data)


def test_unreadableMappings(server: RegistryServer) -> None:
    """A mapping without a registry, subject or columns is refused when it is read."""
    server.answers = {
        "/subjects/j/versions/latest": {"id": 5, "schema": ""},
        "/schemas/ids/5": {"schema": "{}", "schemaType": "XML"},
        "/subjects/gone/versions/latest": {"id": 6, "schema": ""},
    }
    for what, why in (
        ("j", "schema 5 is XML: AVRO, PROTOBUF and JSON are supported"),
        ("gone", "there is no /schemas/ids/6"),
        ("none", "there is no subject none"),
    ):
        with pytest.raises(OptionError, match=why):
            codec(server, what)
    with pytest.raises(OptionError, match="needs a registry"):
        readMappings(["a=registry:j"], {})
