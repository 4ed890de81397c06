"""
Frames as Arrow batches.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark.logs.columns import COLUMNS, MessageRows, toBatch
from natsbroker.spark.logs.exports import frameBatch, neededColumns
from natsbroker.wire.columnar import ColumnFrame, FramePosition, encodeFrame, readFrame

BLOCK = b"NATS/1.0\r\nStan-Reply: a.b\r\nX: 1\r\n\r\n"


def frameOf(*rows: tuple[int, int, bytes, bytes, bytes], left: tuple[str, ...] = ()) -> ColumnFrame:
    """A frame that went over the wire."""
    parts: dict[str, Any] = {
        "sequences": array("Q", [row[0] for row in rows]),
        "timestamps": array("q", [row[1] for row in rows]),
        "damaged": (),
    }
    for place, name in enumerate(("subject", "header", "payload"), 2):
        column: list[bytes] = [row[place] for row in rows]  # type: ignore[misc]
        parts[f"{name}s"] = b"".join(column)
        parts[f"{name}Ends"] = array("q", accumulate(map(len, column), initial=0))
    return readFrame(encodeFrame(SimpleNamespace(**parts), FramePosition(1, 9, 1, 9), left))


def test_sameAsRows() -> None:
    """Frames and direct gets give the same columns."""
    times = [b"1970-01-01T00:00:01.000000007Z", b"1970-01-01T00:00:02Z"]
    heads = [b"\r\nStan-Reply: a.b\r\nX: 1", b""]
    rows = MessageRows([3, 4], [b"a", b"b\xff"], times, heads, [b"one", b""])
    frame = frameOf((3, 10**9 + 7, b"a", BLOCK, b"one"), (4, 2 * 10**9, b"b\xff", b"", b""))
    expected = toBatch(rows, "c", list(COLUMNS))
    batch = frameBatch(frame, "c", list(COLUMNS))
    assert batch.schema == expected.schema
    assert batch.to_pylist() == expected.to_pylist()
    batch.validate(full=True)


def test_oneSubject() -> None:
    """A subject that a frame has only once is that of all rows."""
    frame = frameOf((1, 1, b"c", b"", b"x"), (2, 2, b"c", b"", b"y"))
    batch = frameBatch(frame, "c", ["subject", "headers", "data"])
    assert batch.column("subject").to_pylist() == ["c", "c"]
    assert batch.column("headers").to_pylist() == [[], []]
    assert batch.column("data").to_pylist() == [b"x", b"y"]


def test_copiesNothing() -> None:
    """Sequences and payloads are not copied out of the frame."""
    frame = frameOf((1, 1, b"c", b"", b"x"), (2, 2, b"c", b"", b"y"))
    batch = frameBatch(frame, "c", ["seq", "data"])
    whole = pa.py_buffer(frame.payloads.obj)
    for column in batch.columns:
        for buffer in column.buffers()[1:]:
            assert whole.address <= buffer.address < whole.address + whole.size


def test_emptyFrame() -> None:
    """A frame without rows is a batch without rows."""
    assert frameBatch(frameOf(), "c", list(COLUMNS)).num_rows == 0


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["seq", "time", "stream", "time_ns"], []),
        (["data", "seq", "subject"], ["data", "subject"]),
        (["headers"], ["headers"]),
    ],
)
def test_neededFields(names: list[str], expected: list[str]) -> None:
    """Only the fields that the columns need are requested."""
    assert neededColumns(names) == expected


def test_leftOut() -> None:
    """Columns can be made from a frame that lacks other fields."""
    frame = frameOf((1, 5000, b"c", BLOCK, b"x"), left=("subject", "headers", "data"))
    row = frameBatch(frame, "ch", ["seq", "time_ns", "stream"]).to_pylist()
    assert row == [{"seq": 1, "time_ns": 5000, "stream": "ch"}]
