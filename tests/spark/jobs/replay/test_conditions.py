"""
Conditions without Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.replay.sources import Condition
from natsbroker.spark.tables.parquet import SCHEMA

_SUBJECTS = ("a.b", "orders.x", "orders.y", None)


def table() -> Any:
    """Four rows, a second apart."""
    rows = [
        {"seq": n, "subject": each, "data": b"d%d" % n, "time": n * 10**6, "time_ns": n}
        for n, each in enumerate(_SUBJECTS)
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
    ('subject = "a.b"', [0]),
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
def test_kept(text: str, expected: list[int]) -> None:
    """The rows that meet a condition are kept."""
    assert Condition(text, SCHEMA).kept(table()).column("seq").to_pylist() == expected


def test_asSpark(spark: Any) -> None:
    """Each of them means the same to Spark."""
    rows = [(n, each, n) for n, each in enumerate(_SUBJECTS)]
    frame = spark.createDataFrame(rows, "seq BIGINT, subject STRING, second INT").selectExpr(
        "seq", "subject", "timestamp_seconds(second) AS time"
    )
    chosen = [f"collect_list(seq) FILTER (WHERE {text})" for text, _ in GOOD]
    found = frame.selectExpr(*chosen).collect()[0]
    assert [sorted(each) for each in found] == [expected for _, expected in GOOD]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it ends too soon"),
        ("seq >", "it ends too soon"),
        ("seq", "it ends too soon"),
        ("seq > 1 seq", "what is 'seq' there for"),
        ("(seq = 1", r"\) is missing"),
        ("seq IN (1", r"\) is missing"),
        ("seq BETWEEN 1 OR 2", "AND is missing"),
        ("seq NOT = 1", "'=' is not understood behind seq"),
        ("offset = 1", "there is no column 'offset'; there are seq, subject"),
        ("upper(subject) = 'X'", "there is no column 'upper'"),
        ("1 = seq", "there is no column '1'"),
        ("subject = 'it''s'", "is not understood"),
        (r"subject LIKE 'a\_b'", "is not understood"),
        ("subject LIKE 1", "LIKE takes a text"),
        ("subject = 1", "no kernel"),
        ("seq = 'x'", "no kernel"),
        ("seq = 99999999999999999999", "is not understood"),
        ("time > '1970-01-01 00:00:02'", "no time with its zone"),
        ("seq = (1)", r"'\(' is no value"),
        ("(" * 99 + "seq=1", "too deep"),
        ("NOT " * 99 + "seq=1", "too deep"),
    ],
)
def test_invalidConditions(text: str, reason: str) -> None:
    """Anything else is refused before a row is read."""
    with pytest.raises(OptionError, match=reason):
        Condition(text, SCHEMA)
