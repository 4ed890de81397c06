"""
Offsets of streaming queries.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from natsbroker.spark.datasource.offsets import (
    advance,
    offsetOf,
    present,
    rangesBetween,
    readOffset,
)
from natsbroker.spark.errors import DataLoss, LogGone, OptionError
from natsbroker.spark.logs.apis import StreamState
from natsbroker.spark.logs.wholeranges import SequenceRange


def stateOf(name: str, stop: int, size: int = 0, messages: int = 0) -> StreamState:
    """
    @return: a stream that ends somewhere.
    """
    return StreamState(name, "then", 1, stop, messages, size, True)


class TestKept:
    """The offsets that Spark keeps."""

    def test_roundTrip(self) -> None:
        """An offset that is written as JSON is read unchanged."""
        places = {"A": ("then", 5), "B": ("now", 2**60)}
        kept = json.loads(json.dumps(offsetOf(places)))
        assert kept["logs"]["A"] == {"created": "then", "seq": 5}
        assert readOffset(kept, ["B", "A"]) == places

    @pytest.mark.parametrize(
        ("offset", "why"),
        [
            ({}, "not one of the data source"),
            ({"v": 1, "logs": {"A": 5}}, "not one of the data source"),
            ({"v": 1, "logs": {"A": {"created": "x", "seq": "y"}}}, "not one of the data source"),
            ({"v": 2, "logs": {}}, "has version 2, and this is 1"),
        ],
    )
    def test_otherCheckpoint(self, offset: dict[str, Any], why: str) -> None:
        """A checkpoint of another source is refused."""
        with pytest.raises(OptionError, match=why):
            readOffset(offset, ["A"])

    @pytest.mark.parametrize("names", [["A"], ["A", "B", "C"], ["A", "C"]])
    def test_otherStreams(self, names: list[str]) -> None:
        """A query whose streams differ from those of its checkpoint is refused."""
        offset = offsetOf({"A": ("then", 1), "B": ("then", 1)})
        with pytest.raises(OptionError, match="the checkpoint is of the streams A, B, and the"):
            readOffset(offset, names)


class TestAdvance:
    """The end of a micro-batch."""

    def test_noLimit(self) -> None:
        """Without a limit, a micro-batch reads to the end."""
        places = {"A": ("then", 1), "B": ("then", 5)}
        states = {"A": stateOf("A", 9), "B": stateOf("B", 5)}
        assert advance(places, states, 0, 0) == {"A": ("then", 9), "B": ("then", 5)}

    def test_bytes(self) -> None:
        """
        A limit of bytes uses the average size of stored messages; at least one message is read.
        """
        places = {"A": ("then", 1)}
        states = {"A": stateOf("A", 101, size=10_000, messages=100)}
        assert advance(places, states, 0, 1000) == {"A": ("then", 11)}
        assert advance(places, states, 0, 10**6) == {"A": ("then", 101)}
        assert advance(places, states, 0, 1) == {"A": ("then", 2)}
        assert advance({"A": ("then", 101)}, states, 0, 1) == {"A": ("then", 101)}

    def test_trimmed(self) -> None:
        """If no message is stored any more, a limit of bytes has no effect."""
        assert advance({"A": ("then", 1)}, {"A": stateOf("A", 9)}, 0, 1) == {"A": ("then", 9)}

    @given(
        some.lists(some.integers(0, 1000), min_size=1, max_size=5),
        some.integers(1, 2000),
    )
    def test_rows(self, lags: list[int], limit: int) -> None:
        """
        The limit of rows is shared among streams by their lag. Each stream with new messages gets
        at least one row.
        """
        places = {str(n): ("then", 7) for n in range(len(lags))}
        states = {str(n): stateOf(str(n), 7 + lag) for n, lag in enumerate(lags)}
        after = advance(places, states, limit, 0)
        steps = [after[str(n)][1] - 7 for n in range(len(lags))]
        assert sum(steps) == min(max(limit, sum(map(bool, lags))), sum(lags))
        assert all(bool(step) == bool(lag) for step, lag in zip(steps, lags, strict=True))
        assert all(0 <= step <= lag for step, lag in zip(steps, lags, strict=True))

    def test_quietStream(self) -> None:
        """A quiet stream keeps up beside a busy one."""
        places: Any = {"busy": ("then", 1), "quiet": ("then", 1)}
        states = {"busy": stateOf("busy", 10**9), "quiet": stateOf("quiet", 4)}
        for _ in range(3):
            places = advance(places, states, 100, 0)
        assert places == {"busy": ("then", 298), "quiet": ("then", 4)}

    def test_shrunkenStream(self) -> None:
        """A stream that ends before the query's position is data loss."""
        with pytest.raises(DataLoss, match="ends before 9, and the query has read up to 9"):
            advance({"A": ("then", 10)}, {"A": stateOf("A", 9)}, 0, 0)


class TestPresent:
    """Streams that were deleted."""

    def test_goneIsLoss(self) -> None:
        """A stream that was deleted or created again is data loss."""
        with pytest.raises(LogGone, match=r"made again \(before, now then\)"):
            present({"A": ("before", 1)}, {"A": stateOf("A", 9)}, None)
        with pytest.raises(LogGone, match="stream A is gone: the query has read up to 4"):
            present({"A": ("then", 5)}, {}, None)

    def test_leaves(self) -> None:
        """
        A missing stream leaves the query, which reports it. Its successor begins with the oldest
        message.
        """
        losses: list[str] = []
        start = {"A": ("before", 7), "B": ("then", 2), "C": ("then", 4)}
        states = {"A": stateOf("A", 9), "C": stateOf("C", 6)}
        places = present(start, states, losses.append)
        assert (places, len(losses)) == ({"C": ("then", 4)}, 2)
        end = advance(places, states, 0, 0)
        assert end == {"A": ("then", 1), "C": ("then", 6)}
        assert rangesBetween(start, end, mayLeave=True) == [SequenceRange("C", "then", 4, 6)]


def test_rangesBetween() -> None:
    """A micro-batch is a half-open range of each stream."""
    start = {"A": ("then", 1), "B": ("then", 5)}
    end = {"A": ("then", 9), "B": ("then", 5)}
    assert rangesBetween(start, end) == [
        SequenceRange("A", "then", 1, 9),
        SequenceRange("B", "then", 5, 5),
    ]
    with pytest.raises(DataLoss, match="made again"):
        rangesBetween(start, {**end, "A": ("now", 3)})
