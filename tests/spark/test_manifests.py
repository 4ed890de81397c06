"""
Manifests.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from natsbroker.spark.manifests import File, Log, Manifest, Table, TableError, joined

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
            ({"lost": ((5, 7), (2, 3))}, "not in order"),
            ({"lost": ((2, 4), (4, 5))}, "not in order"),
            ({"lost": ((8, 10),)}, "lost what it does not account for"),
        ],
    )
    def test_wrong(self, changes: dict[str, object], text: str) -> None:
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


class TestTable:
    """The directory."""

    def test_versions(self, tmp_path: Path) -> None:
        """The highest number holds; drafts and other files are nothing."""
        table = Table(tmp_path / "a")
        assert (table.latest(), table.versions()) == (None, [])
        with pytest.raises(TableError, match="there is no archive"):
            table.require()
        table.make()
        table.make()
        assert table.commit(Manifest.first(LOG, 1))
        assert table.commit(BASE)
        (table.root / "_nb" / ".x.tmp").write_text("half")
        (table.root / "_nb" / "notes.json").write_text("no")
        assert (table.versions(), table.require()) == ([0, 3], BASE)

    def test_oneWins(self, tmp_path: Path) -> None:
        """Of many who make the same version at the same time, one succeeds."""
        Table(tmp_path).make()
        barrier = threading.Barrier(8)
        won: list[str] = []

        def race(name: str) -> None:
            manifest = replace(BASE, table=name)
            barrier.wait()
            if Table(tmp_path).commit(manifest):
                won.append(name)

        threads = [threading.Thread(target=race, args=[f"t{n}"]) for n in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(won) == 1
        assert Table(tmp_path).require().table == won[0]
        assert os.listdir(tmp_path / "_nb") == ["0000000003.json"]

    def test_refusesWhatIsWrong(self, tmp_path: Path) -> None:
        """A version that has gaps is not written."""
        table = Table(tmp_path)
        table.make()
        with pytest.raises(TableError):
            table.commit(replace(BASE, start=2))
        assert table.versions() == []

    def test_otherNumber(self, tmp_path: Path) -> None:
        """A file whose number is another one is refused, with its name."""
        table = Table(tmp_path)
        table.make()
        table.commit(BASE)
        (tmp_path / "_nb" / "0000000009.json").write_bytes(BASE.dumped())
        with pytest.raises(TableError, match=r"0000000009\.json: is version 3"):
            table.latest()
        (tmp_path / "_nb" / "0000000009.json").write_bytes(b"?")
        with pytest.raises(TableError, match=r"0000000009\.json: the manifest makes no sense"):
            table.latest()

    def test_cannotWrite(self, tmp_path: Path) -> None:
        """What cannot be written is an error that names the place."""
        (tmp_path / "file").write_text("x")
        with pytest.raises(TableError, match="file"):
            Table(tmp_path / "file").make()
        with pytest.raises(TableError, match="No such file"):
            Table(tmp_path / "nothing").commit(BASE)

    @pytest.mark.parametrize("root", ["s3://bucket/x", "hdfs://h/x", "file://host/x"])
    def test_otherPlaces(self, root: str) -> None:
        """What is no directory here is refused."""
        with pytest.raises(TableError, match="only directories of mounted file systems"):
            Table(root)
        assert Table("file:///lake/x").root == Path("/lake/x")

    def test_paths(self, tmp_path: Path) -> None:
        """No path is given twice."""
        table = Table(tmp_path)
        assert table.newPath(1, 2) != table.newPath(1, 2)
        assert table.newPath(1, 2).startswith("data/00000000000000000001-00000000000000000002-")
