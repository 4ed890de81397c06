"""
Conditions that limit what is asked for.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from natsbroker.spark.datasource import tasks
from natsbroker.spark.datasource.source import PushedFilters, PushingReader
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.settings import readOptions
from tests.spark.support import BrokerStation

SPANS = [SequenceRange("A", "then", 1, 101), SequenceRange("B", "then", 50, 60)]


def left(*conditions: Any) -> list[tuple[str, int, int]]:
    """
    @return: what conditions leave of L{SPANS}.
    """
    limits = PushedFilters()
    for each in conditions:
        limits.take(each)
    return [(each.stream, each.start, each.stop) for each in limits.ranges(SPANS)]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], [("A", 1, 101), ("B", 50, 60)]),
        ([EqualTo(("seq",), 7)], [("A", 7, 8)]),
        ([EqualNullSafe(("seq",), 7)], [("A", 7, 8)]),
        ([GreaterThan(("seq",), 54)], [("A", 55, 101), ("B", 55, 60)]),
        ([GreaterThanOrEqual(("seq",), 99), LessThan(("seq",), 100)], [("A", 99, 100)]),
        ([LessThanOrEqual(("seq",), 50)], [("A", 1, 51), ("B", 50, 51)]),
        ([GreaterThan(("seq",), 9), LessThan(("seq",), 5)], []),
        ([EqualTo(("stream",), "B")], [("B", 50, 60)]),
        ([In(("stream",), ("B", "C")), EqualTo(("stream",), "C")], []),
        ([In(("subject",), ())], []),
        ([Not(EqualTo(("seq",), 7))], [("A", 1, 101), ("B", 50, 60)]),
        ([IsNotNull(("seq",)), EqualTo(("data",), b"x")], [("A", 1, 101), ("B", 50, 60)]),
    ],
)
def test_ranges(conditions: list[Any], expected: list[tuple[str, int, int]]) -> None:
    """Conditions on C{seq} and C{stream} narrow the ranges; others leave them."""
    assert left(*conditions) == expected


@pytest.mark.parametrize(
    ("conditions", "given", "expected"),
    [
        ([], ("a.*",), ("a.*",)),
        ([EqualTo(("subject",), "a.b")], (), ("a.b",)),
        ([EqualTo(("subject",), "a.b")], ("a.*",), ("a.b",)),
        ([In(("subject",), ("c", "a.b"))], ("a.*",), ("a.b",)),
        ([EqualTo(("subject",), "c")], ("a.*",), None),
        ([EqualTo(("subject",), "a"), EqualTo(("subject",), "b")], (), None),
        ([EqualTo(("subject",), "a.*")], ("a.>",), ("a.>",)),
        ([EqualTo(("subject",), "no subject")], ("a.>",), ("a.>",)),
        ([StringContains(("subject",), "b")], (), ()),
    ],
)
def test_patterns(
    conditions: list[Any], given: tuple[str, ...], expected: tuple[str, ...] | None
) -> None:
    """Conditions on C{subject} become filters where they are subjects."""
    limits = PushedFilters()
    for each in conditions:
        limits.take(each)
    assert limits.patterns(given) == expected


def test_frames(broker: BrokerStation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker of ours gives frames of the subjects that are left, and of no others."""
    stream = broker.stream()
    for number in range(60):
        stream.add(f"x.{number % 4}", b"")
    name = stream.name
    given = {"servers": broker.url, "stream": name, "subject": f"{name}.x.*", "minPartitions": "4"}
    reader = PushingReader(("seq", "subject"), {**readOptions(given), "parallelism": 1})
    subjects = (f"{name}.x.1", f"{name}.x.3", "elsewhere")
    conditions = [In(("subject",), subjects), GreaterThan(("seq",), 20)]
    assert list(reader.pushFilters(conditions)) == conditions
    # What is read without frames would be filtered as well, by direct gets.
    monkeypatch.setattr(tasks, "RangeReader", None)
    pieces = [[x for y in reader.read(each) for x in y.to_pylist()] for each in reader.partitions()]
    rows = [(row["seq"], row["subject"]) for piece in pieces for row in piece]
    assert rows == [(n + 1, f"{name}.x.{n % 4}") for n in range(20, 60) if n % 2]
    assert len(pieces) == 4
