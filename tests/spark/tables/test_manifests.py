"""
Manifests.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from natsbroker.spark.tables.manifests import (
    File,
    Log,
    Manifest,
    TableError,
    dayOf,
    fileOf,
    joined,
    newPath,
    rangeOf,
    tiled,
)

LOG = Log("channel", "orders", "test-cluster", "00ff")

ONE = File("data/a.parquet", 1, 5, 3, 100, "ab", 1, 2)
NONE = File("", 5, 7)
TWO = File("data/b.parquet", 7, 9, 2, 100, "cd", 3, 4)

BASE = Manifest(3, "t", LOG, 1, (ONE, NONE, TWO), ((2, 3), (5, 7)), 10.0)


@given(some.lists(some.tuples(some.integers(0, 30), some.integers(1, 9)), max_size=12))
def test_joined(given: list[tuple[int, int]]) -> None:
    """The same sequences, in order and apart."""
    ranges = [(start, start + length) for start, length in given]
    found = joined(ranges)
    assert {n for a, b in found for n in range(a, b)} == {n for a, b in ranges for n in range(a, b)}
    assert all(before[1] < after[0] for before, after in itertools.pairwise(found))


def test_paths() -> None:
    """No path is given twice; a name says the range, and the SHA-256 if it has one."""
    path = newPath(1, 2)
    assert path != newPath(1, 2)
    assert path.startswith("data/00000000000000000001-00000000000000000002-")
    assert rangeOf(path) == (1, 2, "")
    digest = "0f" * 32
    assert rangeOf(f"{path.removesuffix('.parquet')}-{digest}.parquet") == (1, 2, digest)
    assert rangeOf("data/part-00000-ab.c000.snappy.parquet") is None


def test_dayOf() -> None:
    """The day of a file is that of its directory."""
    assert dayOf(newPath(1, 2, "2026-11-20", "0f" * 32)) == "2026-11-20"
    assert rangeOf(newPath(1, 2, "2026-11-20", "0f" * 32)) == (1, 2, "0f" * 32)
    assert dayOf("date=2026-11-20/part-0.parquet") == "2026-11-20"
    assert dayOf(newPath(1, 2)) == dayOf("update=2026-11-20/x") == ""


def test_fileOf() -> None:
    """A file's range is in its name, or what it has."""
    path = newPath(5, 9)
    assert fileOf(path, 2, 100, (6, 7), (1, 2)) == File(path, 5, 9, 2, 100, "", 1, 2)
    assert fileOf(path, 2, 100, (None, None), (None, None)) == File(path, 5, 9, 2, 100)
    assert fileOf("x", 2, 100, (6, 7), (1, 2)) == File("x", 6, 8, 2, 100, "", 1, 2)
    with pytest.raises(TableError, match="x: has no statistics"):
        fileOf("x", 2, 100, (6, None), (1, 2))


def test_tiled() -> None:
    """Files in any order: gaps are filled, and those that overlap share a range."""

    def file(name: str, start: int, stop: int) -> File:
        return File(name, start, stop, 1)

    assert tiled([], 3, 3) == ()
    assert tiled([], 3, 9) == (File("", 3, 9),)
    assert tiled([TWO, ONE], 1, 11) == (ONE, NONE, TWO, File("", 9, 11))
    assert tiled([ONE], 1, 5) == (ONE,)
    with pytest.raises(TableError, match="files up to 5, where the archive stops at 4"):
        tiled([ONE], 1, 4)
    given = [file("d", 8, 9), file("a", 1, 4), file("b", 3, 6), file("c", 5, 8)]
    found = tiled(given, 1, 9)
    assert [(x.path, x.start, x.stop) for x in found] == [
        ("a", 1, 8),
        ("b", 1, 8),
        ("c", 1, 8),
        ("d", 8, 9),
    ]
    manifest = replace(BASE, files=found, lost=())
    manifest.check()
    assert [len(each) for each in manifest.groups] == [3, 1]
    assert manifest.paths == {"a", "b", "c", "d"}


class TestManifest:
    """One version."""

    def test_comesBack(self) -> None:
        """What is written is read."""
        assert Manifest.read(BASE.dumped()) == BASE
        assert json.loads(BASE.dumped())["stop"] == 9
        first = Manifest.first(LOG, 17)
        assert (first.version, first.stop, first.rows) == (0, 17, 0)
        assert Manifest.read(first.dumped()) == first
        assert (BASE.stop, BASE.rows) == (9, 5)

    def test_extended(self) -> None:
        """The next version has more at its end, and joins what was lost."""
        more = File("data/c.parquet", 9, 12, 1)
        found = BASE.extended([more], [(9, 11), (3, 4)], 20.0)
        assert (found.version, found.stop, found.written) == (4, 12, 20.0)
        assert found.lost == ((2, 4), (5, 7), (9, 11))
        found.check()

    def test_replaced(self) -> None:
        """Files that follow each other give way to others."""
        whole = File("data/d.parquet", 1, 7, 3)
        found = BASE.replaced([ONE, NONE], [whole], 20.0)
        assert (found.version, found.files) == (4, (whole, TWO))
        with pytest.raises(TableError, match="does not follow each other"):
            BASE.replaced([ONE, TWO], [whole], 20.0)

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"files": (ONE, TWO)}, "begins at 7 and not at 5"),
            ({"files": (ONE, replace(NONE, start=4), TWO)}, "begins at 4 and not at 5"),
            ({"start": 2}, "begins at 1 and not at 2"),
            ({"files": (replace(ONE, stop=1),)}, "begins at 1"),
            ({"files": (replace(ONE, rows=5),)}, "cannot have its rows"),
            ({"files": (replace(ONE, path=""),)}, "cannot have its rows"),
            ({"files": (ONE, replace(ONE, path="data/c.parquet"))}, "cannot have its rows"),
            ({"files": (replace(ONE, rows=1), replace(NONE, start=1, stop=5))}, "cannot have"),
            ({"files": (replace(ONE, rows=1), replace(ONE, rows=1))}, "is named twice"),
            (
                {"files": (ONE, replace(NONE, start=5), replace(ONE, start=7, stop=9, rows=1))},
                "twice",
            ),
            ({"lost": ((5, 7), (2, 3))}, "not in order"),
            ({"lost": ((2, 4), (4, 5))}, "not in order"),
            ({"lost": ((8, 10),)}, "lost what it does not account for"),
        ],
    )
    def test_gapsAndDoubles(self, changes: dict[str, object], text: str) -> None:
        """What has gaps, or something twice, is refused before it is written and when read."""
        wrong = replace(BASE, **changes)  # type: ignore[arg-type]
        with pytest.raises(TableError, match=text):
            wrong.check()
        with pytest.raises(TableError, match=text):
            Manifest.read(wrong.dumped())

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"[]",
            b"{}",
            BASE.dumped().replace(b'"format": 1', b'"format": 2'),
            BASE.dumped().replace(b'"table"', b'"tableau"'),
            BASE.dumped().replace(b'"stop": 9\n}', b'"stop": 8\n}'),
        ],
    )
    def test_nonsense(self, data: bytes) -> None:
        """What makes no sense, or is of another format, is refused."""
        with pytest.raises(TableError, match="manifest"):
            Manifest.read(data)
