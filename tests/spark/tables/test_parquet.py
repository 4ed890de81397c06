"""
Archives with manifests of their own.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from natsbroker.spark.tables.manifests import File, Log, Manifest, TableError
from natsbroker.spark.tables.parquet import ParquetTable
from tests.spark.tablecontract import TableContract

LOG = Log("channel", "orders", "test-cluster", "00ff")

ONE = File("data/a.parquet", 1, 5, 3, 100, "ab", 1, 2)
BASE = Manifest(3, "t", LOG, 1, (ONE,), (), 10.0)


class TestContract(TableContract):
    """What every format does."""

    form = "parquet"

    def seen(self, root: Path) -> list[dict[str, object]]:
        """The rows of the files of the manifest with the highest number."""
        manifest = Manifest.read(max((root / "_nb").glob("*.json")).read_bytes())
        return [row for x in sorted(manifest.paths) for row in pq.read_table(root / x).to_pylist()]


class TestVersions:
    """The manifests."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> ParquetTable:
        """An empty directory of an archive."""
        table = ParquetTable(tmp_path)
        table.make()
        return table

    def test_highest(self, table: ParquetTable) -> None:
        """The highest number holds; drafts and other files are nothing."""
        assert table.versions() == []
        assert table.commit(Manifest.first(LOG, 1))
        assert table.commit(BASE)
        (table.root / "_nb" / ".x.tmp").write_text("half")
        (table.root / "_nb" / "notes.json").write_text("no")
        assert (table.versions(), table.require()) == ([0, 3], BASE)
        assert not table.commit(replace(BASE, table="another"))
        assert sorted(os.listdir(table.root / "_nb")) == [
            ".x.tmp",
            "0000000000.json",
            "0000000003.json",
            "notes.json",
        ]

    def test_refusesWhatIsWrong(self, table: ParquetTable) -> None:
        """A version that has gaps is not written."""
        with pytest.raises(TableError):
            table.commit(replace(BASE, start=2))
        assert table.versions() == []

    def test_otherNumber(self, table: ParquetTable) -> None:
        """A file whose number is another one is refused, with its name."""
        table.commit(BASE)
        (table.root / "_nb" / "0000000009.json").write_bytes(BASE.dumped())
        with pytest.raises(TableError, match=r"0000000009\.json: is version 3"):
            table.latest()
        (table.root / "_nb" / "0000000009.json").write_bytes(b"?")
        with pytest.raises(TableError, match=r"0000000009\.json: the manifest makes no sense"):
            table.latest()

    def test_cannotWrite(self, tmp_path: Path) -> None:
        """What cannot be written is an error that names the place."""
        (tmp_path / "file").write_text("x")
        with pytest.raises(TableError, match="file"):
            ParquetTable(tmp_path / "file").make()
        with pytest.raises(TableError, match="No such file"):
            ParquetTable(tmp_path / "nothing").commit(BASE)

    def test_fails(self, table: ParquetTable) -> None:
        """A version that cannot be written leaves no draft."""
        (table.root / "_nb" / "0000000003.json").mkdir()
        assert not table.commit(BASE)
        assert os.listdir(table.root / "_nb") == ["0000000003.json"]
