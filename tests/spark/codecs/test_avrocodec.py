"""
Payloads in Avro.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.spark.codecs.avrocodec import (
    AvroCodec,
    byFingerprint,
    confluent,
    readAvro,
    singleObjects,
)
from natsbroker.spark.codecs.decoding import structsOf
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.errors import OptionError
from tests.spark.avrovalues import Kind, kinds, records, schemaText, written
from tests.spark.codecs.schemas import record


def codecOf(schema: Any) -> AvroCodec:
    """The codec of bare values."""
    return readAvro(schemaText(schema), "a.avsc")


def seen(codec: Any, data: bytes) -> dict[str, Any]:
    """The content of a payload, as Arrow returns it."""
    [content] = pa.array([codec.decode(data)], pa.struct(list(codec.columns))).to_pylist()
    assert isinstance(content, dict)
    return content


class TestBare:
    """Bare values."""

    @given(records, st.data())
    def test_roundTrip(self, kind: Kind, data: st.DataObject) -> None:
        """A value that fastavro writes is read as the same value, for all types."""
        value = data.draw(kind.values)
        assert seen(codecOf(kind.schema), written(kind.schema, value)) == kind.seen(value)

    @given(kinds, st.data())
    def test_noRecord(self, kind: Kind, data: st.DataObject) -> None:
        """A value that is no record becomes a single column."""
        value = data.draw(kind.values)
        content = seen(codecOf(kind.schema), written(kind.schema, value))
        isRecord = isinstance(kind.schema, dict) and kind.schema["type"] == "record"
        if not isRecord:
            assert content == {"value": kind.seen(value)}

    @given(records, st.data(), st.binary(min_size=1, max_size=3))
    def test_garbage(self, kind: Kind, data: st.DataObject, more: bytes) -> None:
        """A value with additional or missing bytes is bad."""
        whole = written(kind.schema, data.draw(kind.values))
        codec = codecOf(kind.schema)
        with pytest.raises(BadPayload, match=f"{len(more)} bytes follow the value"):
            codec.decode(whole + more)
        for size in range(len(whole)):
            with pytest.raises(BadPayload):
                codec.decode(whole[:size])

    @given(records, st.binary(max_size=50), st.data())
    def test_anyBytes(self, kind: Kind, data: bytes, drawn: st.DataObject) -> None:
        """Random bytes are either bad or decoded to the schema's types."""
        whole = bytearray(written(kind.schema, drawn.draw(kind.values)))
        if whole:
            whole[drawn.draw(st.integers(0, len(whole) - 1))] ^= drawn.draw(st.integers(1, 255))
        codec = codecOf(kind.schema)
        for payload in (data, bytes(whole)):
            try:
                row = codec.decode(payload)
            except BadPayload:
                continue
            structsOf([row], pa.struct(list(codec.columns)))


OLD = record(("id", "int"), ("gone", "string"))
NEW = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "number", "aliases": ["id"], "type": "long"},
        {"name": "more", "type": ["null", "string"], "default": None},
    ],
}
OTHER = record(("number", "boolean"), ("more", ["null", "string"]))
CHOICE = record(("id", ["int", "string"]))


class TestConfluent:
    """Values behind the number of their schema."""

    FILES = {
        "1.avsc": schemaText(OLD),
        "7.avsc": schemaText(NEW),
        "8.avsc": schemaText(OTHER),
        "9.avsc": schemaText(CHOICE),
    }

    def framed(self, number: int, schema: Any, value: Any) -> bytes:
        """A value in Confluent's frame."""
        return struct.pack(">bI", 0, number) + written(schema, value)

    def test_versions(self) -> None:
        """
        Messages of every schema in the directory are converted to the columns of the chosen one.
        """
        codec = confluent(self.FILES, "7")
        assert codec.columns.names == ["number", "more"]
        new = self.framed(7, NEW, {"number": 1 << 40, "more": "x"})
        assert seen(codec, new) == {"number": 1 << 40, "more": "x"}
        old = self.framed(1, OLD, {"id": 5, "gone": "y"})
        assert seen(codec, old) == {"number": 5, "more": None}

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", "it does not begin with a zero byte"),
            (b"\x00\x00\x00\x00", "it does not begin with a zero byte"),
            (b"\x01\x00\x00\x00\x07\x00\x00", "it does not begin with a zero byte"),
            (b"\x00\x00\x00\x00\x63\x00\x00", "its schema, 99, is not known"),
            (b"\x00\x00\x00\x00\x07\x00\x00\x00", "1 bytes follow the value"),
            (b"\x00\x00\x00\x00\x01\x00\x00\x00", "1 bytes follow the value"),
            (b"\x00\x00\x00\x00\x01\x00\x7f", "63|-64"),
            (b"\x00\x00\x00\x00\x08\x01\x00", "it cannot be converted from schema 8 to 7: "),
            (
                b"\x00\x00\x00\x00\x09\x00\x00",
                "from schema 9 to 7: they have unions of several types",
            ),
        ],
    )
    def test_badPayload(self, data: bytes, error: str) -> None:
        """A payload that belongs to no schema is bad, with the reason."""
        with pytest.raises(BadPayload, match=error):
            confluent(self.FILES, "7").decode(data)

    @given(st.sampled_from([1, 7, 8, 9]), st.binary(max_size=30))
    def test_anyBytesAndSchema(self, number: int, data: bytes) -> None:
        """Random bytes in the frame are either bad or decoded to the schema's types."""
        codec = confluent(self.FILES, "7")
        try:
            row = codec.decode(struct.pack(">bI", 0, number) + data)
        except BadPayload:
            return
        structsOf([row], pa.struct(list(codec.columns)))

    @pytest.mark.parametrize(
        ("files", "number", "error"),
        [
            ({"order.avsc": b'"int"'}, "7", "files of a registry have numbers as names"),
            ({"7.avsc": b'"int"'}, "8", r"there is no schema 8\.avsc"),
            ({"7.avsc": b'"int"'}, "x", r"there is no schema x\.avsc"),
            ({"7.avsc": b"?"}, "7", r"7\.avsc: it is not an Avro schema"),
        ],
    )
    def test_directoryIsNoRegistry(self, files: dict[str, bytes], number: str, error: str) -> None:
        """A directory that is no registry is refused."""
        with pytest.raises(OptionError, match=error):
            confluent(files, number)


class TestSingleObjects:
    """Values behind the fingerprint of their schema."""

    FILES = {"old.avsc": schemaText(OLD), "new.avsc": schemaText(NEW)}

    def test_fingerprint(self) -> None:
        """The fingerprint is the one of Avro's specification, little endian."""
        fingerprint = byFingerprint(readAvro(b'"int"', "x"))
        assert bytes.fromhex(fingerprint) == (0x7275D51A3F395C8F).to_bytes(8, "little")

    def test_versions(self) -> None:
        """
        Messages of every schema in the directory are converted to the columns of the chosen one.
        """
        codec = singleObjects(self.FILES, "new.avsc")
        for name, schema, value in (
            ("new.avsc", NEW, {"number": 5, "more": None}),
            ("old.avsc", OLD, {"id": 5, "gone": "y"}),
        ):
            mark = bytes.fromhex(byFingerprint(readAvro(self.FILES[name], name)))
            data = b"\xc3\x01" + mark + written(schema, value)
            assert seen(codec, data) == {"number": 5, "more": None}

    def test_badFingerprint(self) -> None:
        """A payload with another mark or fingerprint is bad."""
        codec = singleObjects({"old.avsc": schemaText(OLD)}, "old.avsc")
        for data in (b"", b"\xc3\x01\x00", b"\xc3\x02" + bytes(8)):
            with pytest.raises(BadPayload, match="it does not begin with C3 01"):
                codec.decode(data)
        with pytest.raises(BadPayload, match="its schema, 0000000000000000, is not known"):
            codec.decode(b"\xc3\x01" + bytes(8))

    def test_missingSchema(self) -> None:
        """The schema of the table must be there."""
        with pytest.raises(OptionError, match=r"there is no schema none\.avsc"):
            singleObjects(self.FILES, "none.avsc")
