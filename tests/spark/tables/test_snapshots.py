"""
Versions of tables.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.spark.tables.snapshots import (
    File,
    TableError,
    TableSnapshot,
    Tile,
    joined,
    newPath,
    ordered,
    storing,
)
from tests.spark.tablecontract import LOG


def file(first: int, last: int) -> File:
    """A data file."""
    return File(f"data/{first}", first, last, last - first + 1, 100)


def test_tiles() -> None:
    """Files with overlapping ranges form one tile. Tiles do not overlap."""
    a, b, c, d = file(3, 5), file(8, 20), file(10, 12), file(21, 22)
    snapshot = TableSnapshot(1, "t", LOG, 1, 30, (a, b, c, d))
    assert snapshot.tiles == [
        Tile(1, 6, (a,)),
        Tile(6, 21, (b, c)),
        Tile(21, 23, (d,)),
        Tile(23, 30),
    ]
    assert snapshot.rows == 21
    assert TableSnapshot.first(LOG, 5).tiles == []


def test_joined() -> None:
    """Adjacent ranges are joined."""
    assert joined([(5, 7), (1, 3), (3, 4), (6, 9)]) == ((1, 4), (5, 9))


def test_ordered() -> None:
    """Files are ordered by their sequences, and those outside the accounted range are refused."""
    assert ordered([file(5, 6), file(1, 2)], 1, 7) == (file(1, 2), file(5, 6))
    for start, stop in ((2, 7), (1, 6)):
        with pytest.raises(TableError, match="another program has added it"):
            ordered([file(5, 6), file(1, 2)], start, stop)


@pytest.mark.parametrize(
    ("error", "text"), [(OSError(28, "No space left"), "No space left"), (OSError("odd"), "odd")]
)
def test_failed(error: OSError, text: str) -> None:
    """An error names the table and the reason."""
    with pytest.raises(TableError, match=f"^/x: {text}$"), storing("/x"):
        raise error


def test_paths() -> None:
    """Names of files are unique, and sorted by their ranges."""
    assert newPath(5) != newPath(5)
    assert newPath(5) < newPath(60) < newPath(700)
    assert newPath(5, "2026-11-20").startswith("data/date=2026-11-20/00000000000000000005-")
    assert [file(1, 1).day, replace(file(1, 1), path=newPath(5, "2026-11-20")).day] == [
        "",
        "2026-11-20",
    ]
