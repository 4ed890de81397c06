"""
Conditions that limit what is asked for.
"""

from __future__ import annotations

from datetime import datetime, timezone
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
    StringStartsWith,
)

from natsbroker.spark.datasource import tasks
from natsbroker.spark.datasource.source import PushedFilters, PushingReader
from natsbroker.spark.logs.wholeranges import SequenceRange, planned
from natsbroker.spark.settings import readOptions
from tests.spark.support import BrokerStation, Station

SPANS = [SequenceRange("A", "then", 1, 101), SequenceRange("B", "then", 50, 60)]


def left(*conditions: Any) -> list[tuple[str, int, int]]:
    """
    @return: what conditions leave of L{SPANS}.
    """
    limits = PushedFilters()
    for condition in conditions:
        limits.take(condition)
    return [(bounds.stream, bounds.start, bounds.stop) for bounds in limits.ranges(SPANS)]


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
    """Conditions on C{seq} and C{stream} narrow the ranges to read; other conditions do not."""
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
        ([EqualTo(("subject",), "u.\\xff")], (), ()),
        ([StringStartsWith(("subject",), "a.b.")], (), ("a.b.>",)),
        ([StringStartsWith(("subject",), "a.bc")], (), ("a.>",)),
        ([StringStartsWith(("subject",), "abc")], ("x.>",), ("x.>",)),
        ([StringStartsWith(("subject",), "a.b\\x")], (), ("a.>",)),
        ([StringStartsWith(("subject",), "a.b.")], ("a.>", "c"), ("a.b.>",)),
        ([StringStartsWith(("subject",), "a.b.")], ("a.*.c", "*.x.c"), ("a.*.c",)),
        ([StringStartsWith(("subject",), "a.b.")], ("c.>",), None),
        ([StringStartsWith(("subject",), "a.*.")], (), ()),
    ],
)
def test_patterns(
    conditions: list[Any], given: tuple[str, ...], expected: tuple[str, ...] | None
) -> None:
    """Conditions on C{subject} become filters if they are valid subjects."""
    limits = PushedFilters()
    for condition in conditions:
        limits.take(condition)
    assert limits.patterns(given) == expected


def test_frames(broker: BrokerStation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our broker sends frames of the remaining subjects, and of no others."""
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
    pieces = [
        [x for y in reader.read(partition) for x in y.to_pylist()]
        for partition in reader.partitions()
    ]
    rows = [(row["seq"], row["subject"]) for piece in pieces for row in piece]
    assert rows == [(n + 1, f"{name}.x.{n % 4}") for n in range(20, 60) if n % 2]
    assert len(pieces) == 4


def test_times(station: Station) -> None:
    """Conditions on C{time} narrow the range to read, and no selected row is lost."""
    stream = station.stream()
    stream.fill([b"x"] * 20)
    reader = PushingReader(
        ("seq", "time"),
        {**readOptions({"servers": station.url, "stream": stream.name}), "parallelism": 1},
    )
    rows = [x for y in map(reader.read, reader.partitions()) for z in y for x in z.to_pylist()]
    moment = rows[9]["time"]
    tests: dict[Any, Any] = {
        GreaterThan: datetime.__gt__,
        GreaterThanOrEqual: datetime.__ge__,
        LessThan: datetime.__lt__,
        LessThanOrEqual: datetime.__le__,
        EqualTo: datetime.__eq__,
    }
    for condition, isSelected in tests.items():
        limits = PushedFilters()
        limits.take(condition(("time",), moment))
        state = station.streams.state(stream.name)
        [bounds] = limits.timed(station.streams, [planned(state, 1, 21)])
        wanted = {row["seq"] for row in rows if isSelected(row["time"], moment)}
        assert wanted <= set(range(bounds.start, bounds.stop))
        assert bounds.stop - bounds.start <= len(wanted) + 2


def test_timesAway(station: Station) -> None:
    """
    If no message can meet the conditions on C{time}, the range is empty. Times without a zone are
    ignored.
    """
    stream = station.stream()
    stream.fill([b"x"] * 3)
    state = station.streams.state(stream.name)
    late = datetime(2100, 1, 1, tzinfo=timezone.utc)
    for conditions, expected in (
        ([GreaterThan(("time",), late)], (4, 4)),
        ([LessThan(("time",), late)], (1, 4)),
        ([LessThan(("time",), late.replace(year=2000))], (1, 1)),
        ([GreaterThan(("time",), late.replace(tzinfo=None))], (1, 4)),
    ):
        limits = PushedFilters()
        for condition in conditions:
            limits.take(condition)
        [bounds] = limits.timed(station.streams, [planned(state, 1, 4)])
        assert (bounds.start, bounds.stop) == expected


@pytest.mark.parametrize("server", ["station", "broker"])
def test_notUtf8(server: str, request: pytest.FixtureRequest) -> None:
    """A condition finds a subject that is not UTF-8 by the text in its column."""
    started: Station | BrokerStation = request.getfixturevalue(server)
    stream = started.stream()
    subject = stream.name.encode() + b".\xff"
    reply, pieces = started.connection.composed(subject, b"x", b"")
    started.connection.send(*pieces)
    started.connection.answer(reply)
    options = readOptions({"servers": started.url, "stream": stream.name})
    reader = PushingReader(("subject",), {**options, "parallelism": 1})
    list(reader.pushFilters([EqualTo(("subject",), f"{stream.name}.\\xff")]))
    rows = [x for y in map(reader.read, reader.partitions()) for z in y for x in z.to_pylist()]
    assert rows == [{"subject": f"{stream.name}.\\xff"}]
