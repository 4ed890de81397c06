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

from natsbroker.spark.tables import delta as deltatable
from natsbroker.spark.tables.delta import DeltaLakeTable
from natsbroker.spark.tables.filing import SCHEMA, readFiles, writeDays
from natsbroker.spark.tables.manifests import File, Manifest, TableError
from tests.spark.tablecontract import LOG, TableContract, dated, filed, grown


class TestContract(TableContract):
    """What every format does."""

    form = "delta"

    def seen(self, root: Path) -> list[dict[str, object]]:
        """What the library that reads Delta tables finds."""
        rows: list[dict[str, object]] = (
            deltalake.DeltaTable(str(root)).to_pyarrow_table().to_pylist()
        )
        return rows


@pytest.fixture
def table(tmp_path: Path) -> DeltaLakeTable:
    """A table that has the sequences from 1 to 8."""
    table = DeltaLakeTable(tmp_path)
    table.make()
    assert table.commit(Manifest.first(LOG, 1))
    assert table.commit(grown(table, 9))
    return table


def seqsIn(root: Path) -> list[int]:
    """The sequences that other programs see."""
    found = deltalake.DeltaTable(str(root)).to_pyarrow_table(columns=["seq"])
    return sorted(found["seq"].to_pylist())


class TestLog:
    """What the table's own log says."""

    def test_transactions(self, table: DeltaLakeTable) -> None:
        """Where the archive stops and what it lost are application transactions."""
        lost = table.require().extended([File("", 9, 20)], [(9, 20)], 5.0)
        assert table.commit(lost)
        found = deltalake.DeltaTable(str(table.root))
        name = f"nb/{LOG.name}"
        assert found.transaction_version(name) == 20
        assert found.transaction_version(f"{name}/lost") == 1
        assert found.transaction_version(f"{name}/lost/0/start") == 9
        assert found.transaction_version(f"{name}/lost/0/stop") == 20
        settings = found.metadata().configuration
        assert json.loads(settings["natsbroker.log"])["identity"] == LOG.identity
        assert (settings["natsbroker.start"], len(settings["natsbroker.table"])) == ("1", 32)

    def test_statistics(self, table: DeltaLakeTable) -> None:
        """The statistics are right, so that readers pass over files by them."""
        assert table.commit(grown(table, 20))
        found = deltalake.DeltaTable(str(table.root))
        rows = pa.table(found.get_add_actions(flatten=True)).to_pylist()
        ends = {(row["min.seq"], row["max.seq"], row["num_records"]) for row in rows}
        assert ends == {(1, 8, 8), (9, 19, 11)}
        for wanted in (1, 8, 9, 19):
            part = found.to_pyarrow_table(filters=[("seq", "=", wanted)])
            assert part["data"].to_pylist() == [b"%d" % wanted]

    def test_statisticsOfGaps(self, table: DeltaLakeTable) -> None:
        """A file whose first or last messages were deleted is found by those that it has."""
        assert table.commit(grown(table, 20, 9, 10, 19))
        found = deltalake.DeltaTable(str(table.root))
        rows = pa.table(found.get_add_actions(flatten=True)).to_pylist()
        ends = {(row["min.seq"], row["max.seq"], row["min.time"], row["max.time"]) for row in rows}
        times = [datetime(1970, 1, 1, 0, 0, 0, n, timezone.utc) for n in (1, 8, 11, 18)]
        assert ends == {(1, 8, *times[:2]), (11, 18, *times[2:])}
        assert found.to_pyarrow_table(filters=[("seq", ">=", 11)]).num_rows == 8
        assert table.require().files[-1].start == 9

    def test_checkpoints(self, table: DeltaLakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """Everything is still known from a checkpoint, when the log before it has gone."""
        monkeypatch.setattr(deltatable, "_CHECKPOINT", 5)
        for stop in range(10, 22, 2):
            following = table.require().extended(
                [File("", stop - 1, stop)], [(stop - 1, stop)], 5.0
            )
            assert table.commit(following)
            assert table.commit(grown(table, stop + 1))
        before = table.require()
        log = table.root / "_delta_log"
        last = json.loads((log / "_last_checkpoint").read_text())["version"]
        assert last == before.version // 5 * 5
        for each in log.glob("*.json"):
            if int(each.stem) < last:
                each.unlink()
        assert table.require() == before
        assert len(before.lost) == 6

    def test_checkpointFails(self, table: DeltaLakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """That there is no room for a checkpoint does not undo the commit."""
        monkeypatch.setattr(deltatable, "_CHECKPOINT", 1)

        def full(table: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(deltalake.DeltaTable, "create_checkpoint", full)
        assert table.commit(grown(table, 12))
        assert seqsIn(table.root) == list(range(1, 12))

    def test_onDisk(self, table: DeltaLakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """The entry of a commit is on disk, with its name, when the commit is said to hold."""
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", lambda each: synced.append(os.fstat(each).st_ino))
        following = grown(table, 12)
        synced.clear()
        assert table.commit(following)
        log = table.root / "_delta_log"
        assert synced == [each.stat().st_ino for each in (max(log.glob("*.json")), log)]

        def broken(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        following = grown(table, 15)
        monkeypatch.setattr(os, "fsync", broken)
        with pytest.raises(TableError, match=r"00003\.json: Input/output error"):
            table.commit(following)

    def test_unknownOutcome(self, table: DeltaLakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """A commit that holds although it raised an error is taken for what it is."""
        commit = deltalake.DeltaTable.create_write_transaction

        def torn(self: Any, *given: Any, **named: Any) -> None:
            commit(self, *given, **named)
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", torn)
        assert table.commit(grown(table, 12))
        assert table.commit(table.require().extended([File("", 12, 13)], [], 5.0))
        monkeypatch.undo()
        assert seqsIn(table.root) == list(range(1, 12))

    def test_alone(self, table: DeltaLakeTable) -> None:
        """Without our application transaction Delta takes both of two appends."""
        racers = [deltalake.DeltaTable(str(table.root)) for _ in range(2)]
        files = [filed(table.root, 9, 12) for _ in racers]
        for stop, (racer, file) in enumerate(zip(racers, files, strict=True), 12):
            action = AddAction(file.path, file.bytes, {}, 0, True, "{}")
            properties = deltalake.CommitProperties(
                app_transactions=[Transaction(f"x{stop}", stop)]
            )
            racer.create_write_transaction([action], "append", SCHEMA, commit_properties=properties)
        assert seqsIn(table.root) == sorted([*range(1, 12), 9, 10, 11])


def test_days(tmp_path: Path) -> None:
    """The day is a column of the table, and others read only the files of the one they ask for."""
    table = DeltaLakeTable(tmp_path)
    table.make()
    assert table.commit(Manifest.first(LOG, 1, "date"))
    files = writeDays(tmp_path, dated(1, 10, 3), 1, 10)
    assert table.commit(table.require().extended(files, [], 1.0))
    found = deltalake.DeltaTable(str(tmp_path))
    assert found.metadata().partition_columns == ["date"]
    day = date(2026, 11, 21)
    rows = found.to_pyarrow_table(filters=[("date", "=", day)]).to_pylist()
    assert [(row["seq"], row["date"]) for row in rows] == [(n, day) for n in (4, 5, 6)]
    assert len(list((tmp_path / "data" / "date=2026-11-21").iterdir())) == 1
    found.optimize.compact()
    assert table.require().rows == 9


class TestOthers:
    """Other programs that write to the table."""

    def test_optimized(self, table: DeltaLakeTable) -> None:
        """Files that Delta's own compaction makes are read, and archiving goes on."""
        for stop in (12, 15, 18):
            assert table.commit(grown(table, stop))
        before = table.require()
        done = deltalake.DeltaTable(str(table.root)).optimize.compact()
        assert done["numFilesRemoved"] == 4
        after = table.require()
        [file] = after.files
        assert (file.start, file.stop, file.rows, file.sha256) == (1, 18, 17, "")
        assert (after.stop, after.table, after.start) == (before.stop, before.table, 1)
        [batch] = readFiles(table.root, after.files)
        assert batch.column("data").to_pylist() == [b"%d" % n for n in range(1, 18)]
        assert table.commit(grown(table, 25))
        assert seqsIn(table.root) == list(range(1, 25))
        assert [each.start for each in table.require().files] == [1, 18]

    def test_optimizedInRace(self, table: DeltaLakeTable) -> None:
        """An append that began before somebody compacted is not taken, and then it is."""
        following = grown(table, 12)
        assert table.commit(grown(table, 11))
        deltalake.DeltaTable(str(table.root)).optimize.compact()
        assert not table.commit(following)
        assert table.commit(grown(table, 12))
        assert seqsIn(table.root) == list(range(1, 12))

    def test_rowsDeleted(self, table: DeltaLakeTable) -> None:
        """Rows that somebody deleted are gone for us too."""
        deltalake.DeltaTable(str(table.root)).delete("seq IN (1, 5, 8)")
        manifest = table.require()
        assert (manifest.rows, manifest.stop) == (5, 9)
        assert [(each.start, each.stop) for each in manifest.files] == [(1, 2), (2, 8), (8, 9)]

    def test_rowsAdded(self, table: DeltaLakeTable) -> None:
        """Rows that nobody archived are refused: what the archive accounts for would move."""
        found = deltalake.DeltaTable(str(table.root))
        rows = found.to_pyarrow_table(filters=[("seq", ">", 6)])
        later = rows.set_column(0, "seq", pa.array([9, 10], pa.int64()))
        deltalake.write_deltalake(found, later, mode="append")
        with pytest.raises(TableError, match="files up to 11, where the archive stops at 9"):
            table.latest()

    def test_noArchive(self, tmp_path: Path) -> None:
        """A Delta table of somebody else is left alone."""
        deltalake.write_deltalake(str(tmp_path), pa.table({"x": [1]}))
        with pytest.raises(TableError, match="is a Delta table, and no archive"):
            DeltaLakeTable(tmp_path).latest()

    def test_newerProtocol(self, table: DeltaLakeTable) -> None:
        """What needs more than files to be read is refused."""
        features = [deltalake.TableFeatures.DeletionVectors]
        deltalake.DeltaTable(str(table.root)).alter.add_feature(
            features, allow_protocol_versions_increase=True
        )
        with pytest.raises(TableError, match="a table of reader version 3: its files are not all"):
            table.latest()

    def test_damaged(self, table: DeltaLakeTable) -> None:
        """A log that makes no sense is an error that says where."""
        last = max((table.root / "_delta_log").glob("*.json"))
        last.write_text("?")
        with pytest.raises(TableError, match=str(table.root)):
            table.latest()

    def test_noStatistics(self, table: DeltaLakeTable) -> None:
        """A file of somebody else that does not say its sequences is refused with its name."""
        file = filed(table.root, 9, 12)
        (table.root / file.path).rename(table.root / "data" / "other")
        action = AddAction("data/other", file.bytes, {}, 0, True, json.dumps({"numRecords": 3}))
        deltalake.DeltaTable(str(table.root)).create_write_transaction([action], "append", SCHEMA)
        with pytest.raises(TableError, match="data/other: has no statistics"):
            table.latest()


def test_notFirst(tmp_path: Path) -> None:
    """Nothing is added where there is no table."""
    table = DeltaLakeTable(tmp_path)
    table.make()
    manifest = Manifest.first(LOG, 1).extended([filed(tmp_path, 1, 5)], [], 0.0)
    with pytest.raises(TableError, match="there is no archive"):
        table.commit(replace(manifest, version=0))
