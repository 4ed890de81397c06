"""
Archives that are Iceberg tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables.iceberg import IcebergTable
from natsbroker.spark.tables.locations import filesBelow
from natsbroker.spark.tables.parquet import readFiles, writeFiles
from natsbroker.spark.tables.snapshots import TableError, TableSnapshot
from natsbroker.spark.tables.table import ArchiveTable, tableAt
from tests.spark.objectstore import IN_CATALOG, icebergCatalog, openedInCatalog
from tests.spark.tablecontract import LOG, TableContract, dated, filed, grow, together


def opened(root: Path) -> Any:
    """The table as the documentation says that others open it."""
    catalog = SqlCatalog("natsbroker", uri=f"sqlite:///{root}/catalog.db")
    return catalog.load_table("natsbroker.archive")


def seqsIn(root: Path) -> list[int]:
    """The sequences that other programs see."""
    return sorted(opened(root).scan(selected_fields=("seq",)).to_arrow()["seq"].to_pylist())


class TestContract(TableContract):
    """The contract of every format."""

    form = "iceberg"
    limits = (0, 1000, 2500, 5000, 7000, 12_000, 16_384)
    fatal = (1000, 4500)

    def seen(self, root: Path) -> list[dict[str, object]]:
        """The content for the library that reads Iceberg tables."""
        return list(opened(root).scan().to_arrow().to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """A table that has the sequences from 1 to 8."""
    table = IcebergTable(tmp_path)
    table.make()
    table.create(TableSnapshot.first(LOG, 1))
    assert grow(table, 9)
    return table


class TestMetadata:
    """The table's own metadata."""

    def test_properties(self, table: IcebergTable) -> None:
        """The archive's end and losses are stored as properties of the table."""
        assert table.append(table.require(), (), [(9, 20)], 20)
        current = opened(table.directory)
        assert current.properties["natsbroker.stop"] == "20"
        assert json.loads(current.properties["natsbroker.lost"]) == [[9, 20]]
        assert json.loads(current.properties["natsbroker.log"])["identity"] == LOG.identity
        stops = [snapshot.summary["natsbroker.stop"] for snapshot in current.snapshots()]
        assert stops == ["9", "20"]

    def test_fileAlone(self, table: IcebergTable) -> None:
        """A reader without a catalog can open the metadata file, and skip data files."""
        assert grow(table, 20, 9, 19)
        static = StaticTable.from_metadata(opened(table.directory).metadata_location)
        assert static.scan().to_arrow().num_rows == 17
        [task] = static.scan("seq >= 10 and seq < 15").plan_files()
        assert task.file.record_count == 9

    def test_notTriedAgain(self, table: IcebergTable) -> None:
        """A lost race is not repeated, even if the table is configured to retry."""
        racers = [IcebergTable(table.directory) for _ in range(2)]
        for number in range(3):
            with opened(table.directory).transaction() as change:
                change.set_properties({"commit.retry.num-retries": "4"})
            stop = table.require().stop
            base = table.require()
            files = [filed(table.directory, stop, stop + 2 + n) for n in range(2)]
            won = together(2, lambda n: racers[n].append(base, files[n], (), stop + 2 + n))  # noqa: B023
            assert len(won) == 1, number
            assert seqsIn(table.directory) == list(range(1, stop + 2 + won[0]))

    def test_unknownOutcome(self, table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """A commit that succeeds but raises an error counts as successful."""
        commit = SqlCatalog.commit_table

        def torn(self: Any, *given: Any) -> None:
            commit(self, *given)
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(SqlCatalog, "commit_table", torn)
        assert grow(table, 12)
        assert table.append(table.require(), (), (), 13)
        monkeypatch.undo()
        assert seqsIn(table.directory) == list(range(1, 12))

    def test_vacuumKeeps(self, table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """A vacuum keeps snapshots that were current recently, with their files."""
        for stop in (12, 15):
            assert grow(table, stop)
        snapshots = opened(table.directory).snapshots()
        moment = snapshots[1].timestamp_ms / 1000
        monkeypatch.setattr("natsbroker.spark.tables.iceberg.time.time", lambda: moment + 0.0005)
        done = table.vacuum(0, False)
        monkeypatch.undo()
        assert done.versions == 1
        left = opened(table.directory)
        assert [x.snapshot_id for x in left.snapshots()] == [x.snapshot_id for x in snapshots[1:]]
        assert left.scan(snapshot_id=snapshots[1].snapshot_id).to_arrow().num_rows == 11
        assert table.require().stop == 15


def test_days(tmp_path: Path) -> None:
    """The table is partitioned by the day of the time, and other programs skip files by it."""
    table = IcebergTable(tmp_path)
    table.make()
    table.create(TableSnapshot.first(LOG, 1, "date"))
    files = writeFiles(tmp_path, dated(1, 10, 3), 1, True)
    assert table.append(table.require(), files, (), 10)
    current = opened(tmp_path)
    assert [str(field.transform) for field in current.spec().fields] == ["day"]
    day = "time >= '2026-11-21T00:00:00+00:00' and time < '2026-11-22T00:00:00+00:00'"
    [task] = current.scan(day).plan_files()
    assert task.file.partition[0] == (date(2026, 11, 21) - date(1970, 1, 1)).days
    assert sorted(current.scan(day).to_arrow()["seq"].to_pylist()) == [4, 5, 6]


class TestOthers:
    """Other programs that write to the table."""

    def test_rewritten(self, table: IcebergTable) -> None:
        """
        Files that other programs wrote in the place of ours are read, and archiving continues.
        """
        assert grow(table, 12)
        current = opened(table.directory)
        current.overwrite(current.scan().to_arrow().sort_by([("seq", "descending")]))
        snapshot = table.require()
        [file] = snapshot.files
        assert (file.first, file.last, file.rows) == (1, 11, 11)
        [batch] = readFiles(table.directory, snapshot.files)
        assert batch.column("data").to_pylist() == [b"%d" % n for n in range(1, 12)]
        assert grow(table, 15)
        assert seqsIn(table.directory) == list(range(1, 15))

    def test_rowsDeleted(self, table: IcebergTable) -> None:
        """Rows that another program has deleted are missing from the archive."""
        opened(table.directory).delete("seq = 5")
        assert (table.require().rows, table.require().stop) == (7, 9)

    def test_noArchive(self, table: IcebergTable, tmp_path: Path) -> None:
        """An Iceberg table of somebody else is left alone."""
        with opened(table.directory).transaction() as change:
            change.remove_properties("natsbroker.log")
        with pytest.raises(TableError, match="is an Iceberg table, but not an archive"):
            table.latest()

    def test_damaged(self, table: IcebergTable) -> None:
        """Missing metadata is an error with its place."""
        location = opened(table.directory).metadata_location
        Path(location.removeprefix("file://")).unlink()
        with pytest.raises(TableError, match=r"metadata\.json"):
            table.latest()
        (table.directory / "catalog.db").write_bytes(b"?" * 5000)
        with pytest.raises(TableError, match="file is not a database"):
            IcebergTable(table.directory).latest()

    def test_deletesOfRows(self, table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """A table with deleted rows in existing files is refused."""

        class Scan:
            """A plan in which rows of a file are deleted."""

            def plan_files(self) -> list[Any]:
                """Plan one file."""
                return [type("Task", (), {"delete_files": {1}})()]

        monkeypatch.setattr("pyiceberg.table.Table.scan", lambda self: Scan())
        with pytest.raises(TableError, match="has deleted rows of files that are still there"):
            table.latest()


def test_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in a catalog that PyIceberg is configured for is found there again."""
    shared = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/prod.db")
    monkeypatch.setattr("natsbroker.spark.tables.iceberg.load_catalog", lambda name, **_: shared)
    root = tmp_path / "lake"
    table = tableAt(root, "iceberg", "prod:lake.orders")
    table.make()
    table.create(TableSnapshot.first(LOG, 1))
    assert grow(table, 5)
    assert tableAt(root).require().rows == 4
    assert shared.load_table("lake.orders").scan().to_arrow().num_rows == 4
    assert not (root / "catalog.db").exists()
    with pytest.raises(OptionError, match=r"is an archive in the catalog prod:lake\.orders"):
        tableAt(root, "", "prod:lake.other")
    assert tableAt(root, "", "prod:lake.orders").require().stop == 5


class TestObjects:
    """A table in an object store, whose catalog is elsewhere."""

    @pytest.fixture
    def objects(self, bucket: str, tmp_path: Path) -> Iterator[ArchiveTable]:
        """An archive with the sequences from 1 to 8."""
        with icebergCatalog(tmp_path):
            table = tableAt(f"{bucket}/lake", "iceberg", IN_CATALOG)
            assert table.latest() is None
            table.make()
            table.create(TableSnapshot.first(LOG, 1))
            assert grow(table, 9)
            yield table

    def seqs(self) -> list[int]:
        """The sequences that other programs see."""
        arrow = openedInCatalog().scan(selected_fields=("seq",)).to_arrow()
        return sorted(arrow["seq"].to_pylist())

    def test_seen(self, objects: ArchiveTable) -> None:
        """A table in an object store is found again by its URL, and read by other programs."""
        again = tableAt(str(objects.root))
        assert isinstance(again, IcebergTable)
        assert grow(again, 15)
        assert objects.require() == again.require()
        assert self.seqs() == list(range(1, 15))
        [first, second] = objects.require().files
        [*batches] = readFiles(objects.root, (first, second))
        assert [x for batch in batches for x in batch["seq"].to_pylist()] == list(range(1, 15))

    def test_race(self, objects: ArchiveTable) -> None:
        """
        Of several writers that continue from one version one succeeds, and only its files stay.
        """
        racers = [tableAt(objects.root) for _ in range(4)]
        base = objects.require()
        files = [filed(objects.root, 9, 10 + n) for n in range(4)]
        [won] = together(4, lambda n: racers[n].append(base, files[n], (), 10 + n))
        assert objects.require().stop == 10 + won
        assert self.seqs() == list(range(1, 10 + won))
        names = sorted(file.path for file in objects.require().files)
        assert sorted(path for path, _, _ in filesBelow(objects.root, "data")) == names

    def test_tidied(self, objects: ArchiveTable) -> None:
        """
        Small files become one. The small ones, orphans and old metadata are removed by a vacuum.
        """
        assert grow(objects, 15)
        [orphan] = filed(objects.root, 20, 23)
        assert objects.compact(1 << 30) == 2
        before = objects.vacuum(3600, False)
        assert (before.files, before.versions) == (0, 0)
        assert objects.vacuum(0, True).files >= 3
        assert (objects.root / orphan.path).exists()
        assert objects.vacuum(0, False).files >= 3
        names = [file.path for file in objects.require().files]
        assert [path for path, _, _ in filesBelow(objects.root, "data")] == names
        assert self.seqs() == list(range(1, 15))

    def test_noCatalog(self, objects: ArchiveTable, bucket: str) -> None:
        """A table in an object store needs a catalog. Another catalog than its own is refused."""
        with pytest.raises(OptionError, match="an object store needs a catalog that makes"):
            tableAt(f"{bucket}/other", "iceberg")
        with pytest.raises(OptionError, match=r"is an archive in the catalog lake:raw\.log"):
            tableAt(objects.root, "iceberg", "lake:raw.other")
