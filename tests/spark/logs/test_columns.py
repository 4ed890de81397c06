"""
Rows to Arrow batches.
"""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from natsbroker.spark.errors import OptionError
from natsbroker.spark.logs.columns import COLUMNS, MessageRows, checkedColumns, ddlOf, toBatch


def someRows() -> MessageRows:
    """
    @return: three messages, of which some are strange.
    """
    times = [b"2026-11-20T08:00:00.123456789Z", b"2026-11-20T08:00:00Z", b"1969-12-31T23:59:59.5Z"]
    heads = [b"", b"\r\nK: v\r\nK:w \r\nno colon", b"\r\nN\xff: \xc3\xa9: x"]
    payloads = [b"one", b"\x00\xff", b""]
    return MessageRows([7, 8, 9], [b"a.b", b"a.\xff", b"c"], times, heads, payloads)


def test_batch() -> None:
    """
    Every column is filled, with nanoseconds, repeated headers, and subjects that are not UTF-8.
    """
    batch = toBatch(someRows(), "S", tuple(COLUMNS))
    batch.validate(full=True)
    table = batch.to_pydict()
    utc = datetime.timezone.utc
    assert table["seq"] == [7, 8, 9]
    assert table["subject"] == ["a.b", "a.\\xff", "c"]
    assert table["data"] == [b"one", b"\x00\xff", b""]
    assert table["time"] == [
        datetime.datetime(2026, 11, 20, 8, 0, 0, 123456, tzinfo=utc),
        datetime.datetime(2026, 11, 20, 8, tzinfo=utc),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=utc),
    ]
    assert table["time_ns"] == [1795161600123456789, 1795161600000000000, -500000000]
    assert [[(x["key"], x["value"]) for x in header] for header in table["headers"]] == [
        [],
        [("K", "v"), ("K", "w"), ("no colon", "")],
        [("N\\xff", "é: x")],
    ]
    assert table["stream"] == ["S"] * 3


def test_projection() -> None:
    """A batch has the columns that were asked for, in that order."""
    batch = toBatch(someRows(), "S", ("data", "seq"))
    assert batch.schema == pa.schema([("data", pa.binary()), ("seq", pa.int64())])


def test_schema() -> None:
    """A user's schema may have some of the columns. Other names and types are refused."""
    assert ddlOf(["seq", "data"]) == "seq BIGINT, data BINARY"
    good = StructType([StructField("subject", StringType()), StructField("seq", LongType())])
    assert checkedColumns(good) == ("subject", "seq")
    with pytest.raises(OptionError, match="there is no column 'sequence'; there are seq, subject"):
        checkedColumns(StructType([StructField("sequence", LongType())]))
    with pytest.raises(OptionError, match="seq is bigint, not string"):
        checkedColumns(StructType([StructField("seq", StringType())]))
