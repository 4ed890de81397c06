"""
Avro schemas.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark.codecs.avrocodec import readAvro
from natsbroker.spark.codecs.datatypes import ddlText
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.errors import OptionError
from tests.spark.avrovalues import schemaText, written
from tests.spark.codecs.schemas import record


def columns(schema: Any) -> str:
    """Its columns, in Spark's language."""
    return ddlText(readAvro(schemaText(schema), "a.avsc").columns)


DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}

TYPES = [
    ("boolean", "BOOLEAN"),
    ("int", "INT"),
    ("long", "BIGINT"),
    ("float", "FLOAT"),
    ("double", "DOUBLE"),
    ("bytes", "BINARY"),
    ("string", "STRING"),
    ("null", "BOOLEAN"),
    ({"type": "string"}, "STRING"),
    ({"type": "int", "logicalType": "date"}, "DATE"),
    ({"type": "int", "logicalType": "time-millis"}, "INT"),
    ({"type": "long", "logicalType": "time-micros"}, "BIGINT"),
    ({"type": "long", "logicalType": "timestamp-millis"}, "TIMESTAMP"),
    ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP"),
    ({"type": "long", "logicalType": "timestamp-nanos"}, "BIGINT"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, "TIMESTAMP_NTZ"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, "TIMESTAMP_NTZ"),
    ({"type": "bytes", **DECIMAL}, "DECIMAL(9, 2)"),
    ({"type": "fixed", "name": "F", "size": 5, **DECIMAL}, "DECIMAL(9, 2)"),
    ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, "BINARY"),
    ({"type": "string", "logicalType": "uuid"}, "STRING"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "STRING"),
    ({"type": "array", "items": ["null", "int"]}, "ARRAY<INT>"),
    ({"type": "map", "values": "long"}, "MAP<STRING, BIGINT>"),
    (record(("x", "int"), name="In"), "STRUCT<x: INT>"),
    (record(name="In"), "BOOLEAN"),
    (["null", "string"], "STRING"),
    (["string"], "STRING"),
    (["null"], "BOOLEAN"),
    (["int", "null", "long"], "BIGINT"),
    (["double", "float"], "DOUBLE"),
    (["null", "int", "string"], "STRUCT<member0: INT, member1: STRING>"),
]

WRONG = [
    (b"{", "it is not an Avro schema"),
    (b"\xff", "it is not an Avro schema"),
    ("no.such.Type", "it is not an Avro schema"),
    ({"type": "array"}, "it is not an Avro schema"),
    (7, "it is not an Avro schema"),
    (record(("a", "int"), ("A", "int")), "column A is there twice"),
    (record(("n", ["null", "R"])), "n: R contains itself, which columns cannot hold"),
    (record(("n", {"type": "array", "items": "R"})), r"n\[\]: R contains itself"),
    (
        record(("a", {"type": "array", "items": "null"})),
        r"a\[\]: columns cannot hold items of zero",
    ),
    (
        {"type": "array", "items": record(("a", "null"), ("b", record(name="E")))},
        "items of zero bytes",
    ),
    (
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        "items of zero bytes",
    ),
    (
        record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 39})),
        "a: decimals have 38 digits at most, not 39",
    ),
]


class TestColumns:
    """The columns of types."""

    @pytest.mark.parametrize(("schema", "kind"), TYPES, ids=range(len(TYPES)))
    def test_types(self, schema: Any, kind: str) -> None:
        """Each type has its column, in a record and by itself."""
        assert columns(record(("a", schema))) == f"a {kind}"
        if not isinstance(schema, dict) or schema["type"] != "record":
            assert columns(schema) == f"value {kind}"

    def test_names(self) -> None:
        """A named type may be used again by its name."""
        point = {**record(("x", "int"), name="Point"), "namespace": "geo"}
        schema = {**record(("a", point), ("b", "geo.Point"), ("c", "Point")), "namespace": "geo"}
        inner = "STRUCT<x: INT>"
        assert columns(schema) == f"a {inner}, b {inner}, c {inner}"

    @pytest.mark.parametrize(("schema", "error"), WRONG, ids=range(len(WRONG)))
    def test_unsupportedSchemas(self, schema: Any, error: str) -> None:
        """An invalid or unsupported schema is refused with its file and the place."""
        text = schema if isinstance(schema, bytes) else schemaText(schema)
        with pytest.raises(OptionError, match=f"^a.avsc: .*{error}"):
            readAvro(text, "a.avsc")

    def test_deep(self) -> None:
        """Types that are nested too deeply are refused."""
        text = '{"type":"array","items":' * 3000 + '"int"' + "}" * 3000
        with pytest.raises(OptionError, match=r"a.avsc: .*(deep|not an Avro schema)"):
            readAvro(text.encode(), "a.avsc")

    def test_noFastavro(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without fastavro the error names the package to install."""
        monkeypatch.setitem(sys.modules, "fastavro.schema", None)
        with pytest.raises(OptionError, match=r"pip install 'natsbroker\[avro\]'"):
            readAvro(b'"int"', "a.avsc")


class TestValues:
    """Values that fastavro by itself reads in another form, or not at all."""

    def read(self, schema: Any, data: bytes) -> Any:
        """A value, as Arrow gives it back."""
        codec = readAvro(schemaText(schema), "a.avsc")
        [row] = pa.array([codec.decode(data)], pa.struct(list(codec.columns))).to_pylist()
        return row["value"]

    def test_choices(self) -> None:
        """A union becomes a struct in which one member has the value."""
        schema = ["null", "int", "string"]
        assert self.read(schema, b"\x00") is None
        assert self.read(schema, b"\x02\x0a") == {"member0": 5, "member1": None}
        assert self.read(schema, b"\x04\x02x") == {"member0": None, "member1": "x"}
        assert self.read(["int", "long"], b"\x00\x03") == -2

    def test_timestampBeyondTheYear9999(self) -> None:
        """A time after the year 9999 is bad."""
        schema = {"type": "long", "logicalType": "timestamp-millis"}
        with pytest.raises(BadPayload, match="OverflowError"):
            self.read(schema, written("long", 1 << 60))

    def test_decimals(self) -> None:
        """A decimal may have more bytes than necessary, but not more digits than its precision."""
        schema = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
        assert str(self.read(schema, b"\x06\xff\xfc\x19")) == "-99.9"
        for data in (b"\x04\x03\xe8", b"\x04\xfc\x18"):
            with pytest.raises(pa.ArrowInvalid, match="precision"):
                self.read(schema, data)

    def test_emptyRecords(self) -> None:
        """An empty record is decoded as true or null."""
        schema = ["null", json.loads(schemaText(record(name="Nothing")))]
        assert self.read(schema, b"\x02") is True
        assert self.read(schema, b"\x00") is None

    def test_hugeCount(self) -> None:
        """An array has no more items than the payload has bytes."""
        with pytest.raises(BadPayload, match="EOFError"):
            self.read({"type": "array", "items": "int"}, written("long", 1 << 62) + b"\x00")
