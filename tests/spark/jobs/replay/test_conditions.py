"""
Conditions without Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.replay.sources import filtered
from natsbroker.spark.tables.parquet import SCHEMA

_SUBJECTS = ("a.b", "orders.x", "orders.y", None)


def table() -> Any:
    """Four rows, a second apart."""
    rows = [
        {"seq": n, "subject": subject, "data": b"d%d" % n, "time": n * 10**6, "time_ns": n}
        for n, subject in enumerate(_SUBJECTS)
    ]
    return pa.Table.from_pylist([{**row, "headers": []} for row in rows], schema=SCHEMA)


GOOD = [
    ("seq > 1", [2, 3]),
    ("seq <> 1", [0, 2, 3]),
    ("seq != 1 AND seq<=2", [0, 2]),
    ("seq == 1 or seq >= 3", [1, 3]),
    ("seq = 0 OR seq = 1 AND seq = 2", [0]),
    ("(seq = 0 OR seq = 1) AND NOT seq < 1", [1]),
    ("seq < 1.5", [0, 1]),
    ("seq > -1 AND seq < 1", [0]),
    ("subject LIKE 'orders.%'", [1, 2]),
    ("subject like 'orders._'", [1, 2]),
    ("subject NOT LIKE 'orders.%'", [0]),
    ("NOT subject LIKE 'orders.%'", [0]),
    ("subject = 'a.b'", [0]),
    ("'a.b' = subject OR seq = (3)", [0, 3]),
    ("subject IN ('a.b', 'orders.y')", [0, 2]),
    ("subject NOT IN ('a.b', 'x')", [1, 2]),
    ("subject IS NULL", [3]),
    ("subject IS NOT NULL", [0, 1, 2]),
    ("seq BETWEEN 1 AND 2 AND subject <> 'orders.x'", [2]),
    ("seq NOT BETWEEN 1 AND 2", [0, 3]),
    ("time >= '1970-01-01T00:00:02Z'", [2, 3]),
    ("time < TIMESTAMP '1970-01-01 01:00:01+01:00'", [0]),
]


@pytest.mark.parametrize(("text", "expected"), GOOD)
def test_matchingRows(text: str, expected: list[int]) -> None:
    """The rows that meet a condition are kept."""
    assert [row[0] for row in filtered(table().to_batches(2), SCHEMA, text)] == expected


def test_asSpark(spark: Any) -> None:
    """Each condition means the same to Spark."""
    rows = [(n, subject, n) for n, subject in enumerate(_SUBJECTS)]
    frame = spark.createDataFrame(rows, "seq BIGINT, subject STRING, second INT").selectExpr(
        "seq", "subject", "timestamp_seconds(second) AS time"
    )
    chosen = [f"collect_list(seq) FILTER (WHERE {text})" for text, _ in GOOD]
    row = frame.selectExpr(*chosen).collect()[0]
    assert [sorted(column) for column in row] == [expected for _, expected in GOOD]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" ", "Parser Error: SELECT clause"),
        ("seq >", "Parser Error: syntax error"),
        ("seq", "boolean"),
        ("seq > 1 seq", "Parser Error: syntax error"),
        ("(seq = 1", "Parser Error: syntax error"),
        ("seq = 1) OR (seq = 2", "Parser Error: syntax error"),
        ("seq = 1, seq = 2", "single expression"),
        ("seq IN (1", "Parser Error: syntax error"),
        ("seq BETWEEN 1 OR 2", "Parser Error: syntax error"),
        ("seq NOT = 1", "Parser Error: syntax error"),
        ("seq = 1; SELECT 1", "'; SELECT 1' is not understood"),
        ("offset = 1", "there is no column 'offset'; there are seq, subject"),
        ("upper(subject) = 'X'", "there is no column 'upper'"),
        ("subject = 'it''s'", "is not understood"),
        (r"subject LIKE 'a\_b'", "is not understood"),
        ('subject = "data"', "is not understood"),
        ("seq ^ 2 = 4", "is not understood"),
        ("headers[1] = seq", "is not understood"),
        ("subject LIKE 1", "Binder Error"),
        ("seq = 'x'", "Conversion Error"),
        ("time = 1", "Conversion Error"),
        ("time > 1", "Binder Error"),
        ("seq = 99999999999999999999", "is not understood"),
        ("time > '1970-01-01 00:00:02'", "a time needs its zone"),
        ("TIMESTAMP '1970-01-01 00:00:02' < TIMESTAMP '2000-01-01T00:00:00Z'", "needs its zone"),
        ("NOT " * 2000 + "seq=1", "expression depth"),
    ],
)
def test_invalidConditions(text: str, reason: str) -> None:
    """
    Any other condition is refused before a row is read, also one that DuckDB alone understands.
    """
    with pytest.raises(OptionError, match=f"where: .*{reason}"):
        filtered([], SCHEMA, text)


@pytest.mark.parametrize(
    ("kind", "value", "text", "expected"),
    [
        (pa.timestamp("us"), 10**6, "at > '1970-01-01T00:00:00'", [0]),
        (pa.date32(), 1, "at >= '1970-01-02'", [0]),
        (pa.string(), "1970-01-01", "at = '1970-01-01'", [0]),
        (pa.float32(), 1.1, "at = 1.1", []),
        (pa.float16(), 1.5, "at = 1.5", [0]),
    ],
)
def test_otherColumns(kind: Any, value: Any, text: str, expected: list[int]) -> None:
    """Columns of other types have the same meaning as in Spark."""
    one = table().slice(0, 1).append_column("at", pa.array([value], kind))
    assert [row[0] for row in filtered(one.to_batches(), one.schema, text)] == expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.timestamp("us"), "at > '1970-01-01T00:00:00Z'"),
        (pa.timestamp("us"), "at < time"),
        (pa.date32(), "at > TIMESTAMP '1970-01-01T00:00:00Z'"),
    ],
)
def test_zones(kind: Any, text: str) -> None:
    """A condition that depends on the zone of Spark's session is refused."""
    with pytest.raises(OptionError, match="a time needs its zone"):
        filtered([], SCHEMA.append(pa.field("at", kind)), text)
