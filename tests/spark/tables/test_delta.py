"""
Archives that are Delta tables.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.transaction import AddAction, Transaction

from natsbroker.spark.codecs.datatypes import Clash, readSchema
from natsbroker.spark.tables.delta import DeltaLakeTable
from natsbroker.spark.tables.locations import filesBelow, locationOf
from natsbroker.spark.tables.parquet import STORED, ArchiveDamaged, readFiles, writeFiles
from natsbroker.spark.tables.snapshots import File, TableError, TableSnapshot
from natsbroker.spark.tables.table import formOf
from tests.spark.tablecontract import LOG, TableContract, dated, filed, grow, together


class TestContract(TableContract):
    """The contract of every format."""

    form = "delta"

    def seen(self, root: Path) -> list[dict[str, object]]:
        """The content for the library that reads Delta tables."""
        rows: list[dict[str, object]] = (
            deltalake.DeltaTable(str(root)).to_pyarrow_table().to_pylist()
        )
        return rows


@pytest.fixture
def table(tmp_path: Path) -> DeltaLakeTable:
    """A table that has the sequences from 1 to 8."""
    table = DeltaLakeTable(tmp_path)
    table.make()
    table.create(TableSnapshot.first(LOG, 1))
    assert grow(table, 9)
    return table


def seqsIn(root: Path) -> list[int]:
    """The sequences that other programs see."""
    opened = deltalake.DeltaTable(str(root)).to_pyarrow_table(columns=["seq"])
    return sorted(opened["seq"].to_pylist())


class TestLog:
    """The table's own log."""

    def test_transactions(self, table: DeltaLakeTable) -> None:
        """The archive's end and losses are stored as application transactions."""
        assert table.append(table.require(), (), [(9, 20)], 20)
        opened = deltalake.DeltaTable(str(table.directory))
        name = f"nb/{LOG.name}"
        assert opened.transaction_version(name) == 20
        assert opened.transaction_version(f"{name}/lost") == 1
        assert opened.transaction_version(f"{name}/lost/0/start") == 9
        assert opened.transaction_version(f"{name}/lost/0/stop") == 20
        settings = opened.metadata().configuration
        assert json.loads(settings["natsbroker.log"])["identity"] == LOG.identity
        assert (settings["natsbroker.start"], len(settings["natsbroker.table"])) == ("1", 32)

    def test_statistics(self, table: DeltaLakeTable) -> None:
        """The statistics of files are right, so that readers can skip files."""
        assert grow(table, 20)
        opened = deltalake.DeltaTable(str(table.directory))
        rows = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
        ends = {(row["min.seq"], row["max.seq"], row["num_records"]) for row in rows}
        assert ends == {(1, 8, 8), (9, 19, 11)}
        for wanted in (1, 8, 9, 19):
            part = opened.to_pyarrow_table(filters=[("seq", "=", wanted)])
            assert part["data"].to_pylist() == [b"%d" % wanted]

    def test_statisticsOfGaps(self, table: DeltaLakeTable) -> None:
        """The statistics of a file are those of its existing messages."""
        assert grow(table, 20, 9, 10, 19)
        opened = deltalake.DeltaTable(str(table.directory))
        rows = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
        ends = {(row["min.seq"], row["max.seq"], row["min.time"], row["max.time"]) for row in rows}
        times = [datetime(1970, 1, 1, 0, 0, 0, n, timezone.utc) for n in (1, 8, 11, 18)]
        assert ends == {(1, 8, *times[:2]), (11, 18, *times[2:])}
        assert opened.to_pyarrow_table(filters=[("seq", ">=", 11)]).num_rows == 8
        assert table.require().tiles[-1].start == 19

    def test_checkpoints(self, table: DeltaLakeTable) -> None:
        """Everything can be read from a checkpoint without the earlier log."""
        for stop in range(10, 22, 2):
            assert table.append(table.require(), (), [(stop - 1, stop)], stop)
            assert grow(table, stop + 1)
        before = table.require()
        deltalake.DeltaTable(str(table.directory)).create_checkpoint()
        for path in (table.directory / "_delta_log").glob("*.json"):
            if int(path.stem) < before.version:
                path.unlink()
        assert table.require() == before
        assert len(before.lost) == 6
        assert grow(table, 25)

    def test_onDisk(self, table: DeltaLakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """A commit is synced to disk before it is reported."""
        synced: list[int] = []
        monkeypatch.setattr(
            os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino)
        )
        base = table.require()
        files = filed(table.directory, 9, 12)
        synced.clear()
        assert table.append(base, files, (), 12)
        log = table.directory / "_delta_log"
        assert synced == [path.stat().st_ino for path in (max(log.glob("*.json")), log)]

        def broken(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        base = table.require()
        files = filed(table.directory, 12, 15)
        monkeypatch.setattr(os, "fsync", broken)
        with pytest.raises(TableError, match=r"00003\.json: Input/output error"):
            table.append(base, files, (), 15)

    def test_unknownOutcome(self, table: DeltaLakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """A commit that succeeds but raises an error counts as successful."""
        commit = deltalake.DeltaTable.create_write_transaction

        def torn(self: Any, *given: Any, **named: Any) -> None:
            commit(self, *given, **named)
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", torn)
        assert grow(table, 12)
        assert table.append(table.require(), (), (), 13)
        monkeypatch.undo()
        assert seqsIn(table.directory) == list(range(1, 12))

    def test_withoutOurTransaction(self, table: DeltaLakeTable) -> None:
        """Without natsbroker's application transaction, Delta accepts two conflicting appends."""
        racers = [deltalake.DeltaTable(str(table.directory)) for _ in range(2)]
        files = [filed(table.directory, 9, 12)[0] for _ in racers]
        for stop, (racer, file) in enumerate(zip(racers, files, strict=True), 12):
            action = AddAction(file.path, file.bytes, {}, 0, True, "{}")
            properties = deltalake.CommitProperties(
                app_transactions=[Transaction(f"x{stop}", stop)]
            )
            racer.create_write_transaction([action], "append", STORED, commit_properties=properties)
        assert seqsIn(table.directory) == sorted([*range(1, 12), 9, 10, 11])


def test_days(tmp_path: Path) -> None:
    """
    The day is a column of the table, and other programs read only the files of the day that they
    need.
    """
    table = DeltaLakeTable(tmp_path)
    table.make()
    table.create(TableSnapshot.first(LOG, 1, "date"))
    files = writeFiles(tmp_path, dated(1, 10, 3), 1, True)
    assert table.append(table.require(), files, (), 10)
    opened = deltalake.DeltaTable(str(tmp_path))
    assert opened.metadata().partition_columns == ["date"]
    day = date(2026, 11, 21)
    rows = opened.to_pyarrow_table(filters=[("date", "=", day)]).to_pylist()
    assert [(row["seq"], row["date"]) for row in rows] == [(n, day) for n in (4, 5, 6)]
    assert len(list((tmp_path / "data" / "date=2026-11-21").iterdir())) == 1
    opened.optimize.compact()
    assert table.require().rows == 9


class TestOthers:
    """Other programs that write to the table."""

    def test_optimized(self, table: DeltaLakeTable) -> None:
        """Files that Delta's own compaction has made are read, and archiving continues."""
        for stop in (12, 15, 18):
            assert grow(table, stop)
        before = table.require()
        done = deltalake.DeltaTable(str(table.directory)).optimize.compact()
        assert done["numFilesRemoved"] == 4
        after = table.require()
        [file] = after.files
        assert (file.first, file.last, file.rows) == (1, 17, 17)
        assert (after.stop, after.table, after.start) == (before.stop, before.table, 1)
        [batch] = readFiles(table.directory, after.files)
        assert batch.column("data").to_pylist() == [b"%d" % n for n in range(1, 18)]
        assert grow(table, 25)
        assert seqsIn(table.directory) == list(range(1, 25))
        assert [part.first for part in table.require().files] == [1, 18]

    def test_optimizedInRace(self, table: DeltaLakeTable) -> None:
        """
        An append that began before a compaction is accepted, because the messages are the same.
        """
        assert grow(table, 11)
        base = table.require()
        deltalake.DeltaTable(str(table.directory)).optimize.compact()
        assert table.append(base, filed(table.directory, 11, 12), (), 12)
        assert seqsIn(table.directory) == list(range(1, 12))

    def test_rowsDeleted(self, table: DeltaLakeTable) -> None:
        """Rows that another program has deleted are missing from the archive."""
        deltalake.DeltaTable(str(table.directory)).delete("seq IN (1, 5, 8)")
        snapshot = table.require()
        assert (snapshot.rows, snapshot.stop) == (5, 9)
        assert [(file.first, file.last) for file in snapshot.files] == [(2, 7)]

    def test_rowsAdded(self, table: DeltaLakeTable) -> None:
        """
        Rows of another program are refused: the archive's account of sequences would be wrong.
        """
        opened = deltalake.DeltaTable(str(table.directory))
        rows = opened.to_pyarrow_table(filters=[("seq", ">", 6)])
        later = rows.set_column(0, "seq", pa.array([9, 10], pa.int64()))
        deltalake.write_deltalake(opened, later, mode="append")
        with pytest.raises(
            TableError, match="has sequences 9 to 10, and the archive those from 1 to 8"
        ):
            table.latest()

    def test_noArchive(self, tmp_path: Path) -> None:
        """A Delta table of another program is left alone."""
        deltalake.write_deltalake(str(tmp_path), pa.table({"x": [1]}))
        with pytest.raises(TableError, match="is a Delta table, but not an archive"):
            DeltaLakeTable(tmp_path).latest()

    def test_newerProtocol(self, table: DeltaLakeTable) -> None:
        """A table that needs more than files to be read is refused."""
        features = [deltalake.TableFeatures.DeletionVectors]
        deltalake.DeltaTable(str(table.directory)).alter.add_feature(
            features, allow_protocol_versions_increase=True
        )
        with pytest.raises(TableError, match="a table of reader version 3: its files are not all"):
            table.latest()

    def test_damaged(self, table: DeltaLakeTable) -> None:
        """A malformed log is an error with its place."""
        last = max((table.directory / "_delta_log").glob("*.json"))
        last.write_text("?")
        with pytest.raises(TableError, match=str(table.directory)):
            table.latest()

    def test_noStatistics(self, table: DeltaLakeTable) -> None:
        """A file of another program without the range of its sequences is refused by name."""
        [file] = filed(table.directory, 9, 12)
        (table.directory / file.path).rename(table.directory / "data" / "other")
        action = AddAction("data/other", file.bytes, {}, 0, True, json.dumps({"numRecords": 3}))
        deltalake.DeltaTable(str(table.directory)).create_write_transaction(
            [action], "append", STORED
        )
        with pytest.raises(TableError, match="data/other: has no statistics"):
            table.latest()


def test_doubled(table: DeltaLakeTable) -> None:
    """A row that another program has duplicated is an error when it is read."""
    opened = deltalake.DeltaTable(str(table.directory))
    deltalake.write_deltalake(
        opened, opened.to_pyarrow_table(filters=[("seq", "=", 5)]), mode="append"
    )
    with pytest.raises(
        ArchiveDamaged, match="doubled: sequences 5 to 5: is in the archive more than"
    ):
        list(readFiles(table.directory, table.require().files))


class TestColumns:
    """Tables with other columns than archives."""

    @pytest.fixture
    def other(self, tmp_path: Path) -> DeltaLakeTable:
        """A table with two columns."""
        table = DeltaLakeTable(tmp_path / "other")
        assert table.columns() is None
        table.make()
        table.create(TableSnapshot.first(LOG, 1), readSchema("seq BIGINT, s STRUCT<a: INT>"))
        return table

    def test_newColumns(self, other: DeltaLakeTable) -> None:
        """
        Missing columns are added, also inside structs. No column is removed, and all are nullable.
        """
        wanted = readSchema("s STRUCT<b: STRING NOT NULL>, t TIMESTAMP_NTZ NOT NULL")
        expected = readSchema("seq BIGINT, s STRUCT<a: INT, b: STRING>, t TIMESTAMP_NTZ")
        assert other.widen(wanted) == expected
        assert other.widen(wanted) == other.columns() == expected
        assert other.require().stop == 1

    def test_clash(self, other: DeltaLakeTable) -> None:
        """A column with another type is refused, and nothing is changed."""
        with pytest.raises(Clash, match=r"column s\.a is INT in the table and STRING now"):
            other.widen(readSchema("s STRUCT<a: STRING>, u INT"))
        assert other.columns() == readSchema("seq BIGINT, s STRUCT<a: INT>")

    def test_race(self, other: DeltaLakeTable) -> None:
        """Of several that add columns at the same moment each has its own."""

        def widened(number: int) -> bool:
            DeltaLakeTable(other.root).widen(readSchema(f"c{number} INT"))
            return True

        assert len(together(3, widened)) == 3
        assert set(other.columns().names) == {"seq", "s", "c0", "c1", "c2"}


class TestObjectStore:
    """Archives in an object store, which takes the place of a disk."""

    @pytest.fixture
    def lake(self, bucket: str) -> DeltaLakeTable:
        """A table that has the sequences from 1 to 8."""
        table = DeltaLakeTable(locationOf(f"{bucket}/lake"))
        assert (table.latest(), formOf(table.root)) == (None, "")
        table.make()
        table.create(TableSnapshot.first(LOG, 1))
        assert formOf(table.root) == "delta"
        assert table.append(table.require(), self.filed(table, 1, 9), (), 9)
        return table

    def filed(self, table: DeltaLakeTable, start: int, stop: int) -> list[File]:
        """A data file of a table."""
        return writeFiles(table.root, dated(start, stop, 100), start)

    def test_race(self, lake: DeltaLakeTable) -> None:
        """
        A race of writers from one version has one winner. The files of the others are deleted.
        """
        base = lake.require()
        racers = [DeltaLakeTable(lake.root) for _ in range(4)]
        files = [self.filed(racer, 9, 12) for racer in racers]
        won = together(4, lambda n: racers[n].append(base, files[n], (), 12 + n))
        assert len(won) == 1
        snapshot = lake.require()
        assert (snapshot.stop, snapshot.rows) == (12 + won[0], 11)
        names = sorted(file.path for file in snapshot.files)
        assert sorted(path for path, _, _ in filesBelow(lake.root, "data")) == names

    def test_damage(self, lake: DeltaLakeTable) -> None:
        """A file that was deleted is found."""
        [file] = lake.require().files
        (lake.root / file.path).unlink()
        with pytest.raises(ArchiveDamaged, match="file: sequences 1 to 8"):
            list(readFiles(lake.root, [file]))
        with pytest.raises(TableError, match="was deleted before the table named it"):
            lake.append(lake.require(), [replace(file, first=9, last=16)], (), 17)

    def test_tidied(self, lake: DeltaLakeTable) -> None:
        """Small files become one, and are removed by a vacuum."""
        for stop in (12, 15):
            assert lake.append(lake.require(), self.filed(lake, stop - 3, stop), (), stop)
        assert lake.compact(1 << 20) == 3
        [file] = lake.require().files
        assert (file.first, file.last) == (1, 14)
        assert lake.vacuum(0, True).files == lake.vacuum(0, False).files == 3
        assert sum(batch.num_rows for batch in readFiles(lake.root, [file])) == 14

    def test_unreachable(self, bucket: str) -> None:
        """A missing bucket is an error that names the table."""
        with pytest.raises(TableError, match=f"{bucket}-none/lake: "):
            DeltaLakeTable(locationOf(f"{bucket}-none/lake")).latest()
