"""
A column of a DataFrame, decoded.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark.codecs.decoding import decodedArrays, withDecoded
from natsbroker.spark.codecs.mappings import readMappings
from natsbroker.spark.codecs.registry import RegistryAccess
from natsbroker.spark.errors import OptionError
from tests.spark.registries import registryServer
from tests.spark.support import BrokerStation

SCHEMA = '{"properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date"}}}'


def test_arrays() -> None:
    """A bad value is null with a reason, and so is one that Arrow refuses."""
    [mapping] = readMappings(['>=json:"id BIGINT"'], {">": "t"})
    payloads = pa.array([b'{"id": 7}', None, b'{"id": "\\ud800"}', b'{"id": 300}', b"{}"])
    values, errors = decodedArrays(mapping, pa.struct([("id", pa.int8())]), payloads)
    assert values.to_pylist() == [{"id": 7}, None, None, None, {"id": None}]
    problems = errors.to_pylist()
    assert [problem is None for problem in problems] == [True, True, False, False, True]
    assert "Input data was truncated" in problems[2] and "columns cannot hold it" in problems[3]


def test_registered(spark: Any) -> None:
    """Payloads with a registry's frame become a struct with the columns of the schema."""
    with registryServer() as server:
        server.answers = {
            "/subjects/orders/versions/latest": {"id": 5, "schema": ""},
            "/schemas/ids/5": {"schemaType": "JSON", "schema": SCHEMA},
        }
        head = struct.pack(">bI", 0, 5)
        rows = [(1, head + b'{"id": 7, "at": "2026-11-20"}'), (2, b"bad"), (3, None)]
        frame = spark.createDataFrame(rows, "seq BIGINT, data BINARY")
        decoded = withDecoded(frame, "registry:orders", RegistryAccess(server.url))
        texts = decoded.selectExpr("seq", "value.id", "string(value.at)", "value_error").collect()
    assert [tuple(text)[:3] for text in texts] == [
        (1, 7, "2026-11-20"),
        (2, None, None),
        (3, None, None),
    ]
    assert texts[0].value_error is None and texts[2].value_error is None
    assert "does not begin with a zero byte" in texts[1].value_error


def test_streaming(spark: Any, broker: BrokerStation, tmp_path: Path) -> None:
    """A streaming query decodes each micro-batch, and goes on from its checkpoint."""
    name = broker.channel([b'{"id": 1}', b"bad", b'{"id": 3, "at": "2026-11-20"}'])
    options = {"servers": broker.url, "channel": name, "startingOffsets": "earliest"}

    def run() -> list[tuple[Any, ...]]:
        frame = spark.readStream.format("natsbroker").options(**options).load()
        decoded = withDecoded(frame, 'json:"id BIGINT, at DATE"', to="order")
        assert decoded.isStreaming
        query = (
            decoded.selectExpr("seq", "order.id", "string(order.at) AS at", "order_error")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "table"))
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        rows = spark.read.parquet(str(tmp_path / "table")).orderBy("seq").collect()
        return [tuple(row) for row in rows]

    first = run()
    assert "is malformed" in first[1][3]
    expected = [(1, 1, None, None), (2, None, None, first[1][3]), (3, 3, "2026-11-20", None)]
    assert first == expected
    broker.fill(name, [b'{"id": 4}'])
    assert run() == [*expected, (4, 4, None, None)]


def test_names(spark: Any) -> None:
    """A missing column, and a new one with an existing name, are refused."""
    frame = spark.range(1).selectExpr("id", "id AS Value")
    for column in ("data", "id"):
        with pytest.raises(OptionError, match="or there is a column 'value'"):
            withDecoded(frame, 'json:"id BIGINT"', column=column)
