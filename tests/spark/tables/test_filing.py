"""
Data files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from natsbroker.spark.errors import ApiError
from natsbroker.spark.tables.filing import FileWriter, added, writeDays, writeFile
from natsbroker.spark.tables.manifests import File, Log, Manifest, TableError, rangeOf
from natsbroker.spark.tables.parquet import ParquetTable
from tests.spark.tablecontract import dated, small


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    """A table that has nothing yet."""
    made = ParquetTable(tmp_path)
    made.make()
    return made


def left(table: ParquetTable) -> list[str]:
    """The data files that are there."""
    return [f"data/{each.name}" for each in (table.root / "data").iterdir()]


def rows(*seqs: int) -> Any:
    """Some rows."""
    return pa.RecordBatch.from_pydict({"seq": list(seqs), "time_ns": [x * 1000 for x in seqs]})


class TestWriting:
    """Writing a file."""

    def test_rows(self, table: ParquetTable) -> None:
        """All rows are in it, in order, and what is said of it is so."""
        file = writeFile(table.root, [rows(5), rows(), rows(6, 8)], 5, 9)
        assert (file.start, file.stop, file.rows) == (5, 9, 3)
        assert (file.first_time, file.last_time) == (5000, 8000)
        assert pq.read_table(table.root / file.path).column("seq").to_pylist() == [5, 6, 8]
        assert left(table) == [file.path]
        digest = hashlib.sha256((table.root / file.path).read_bytes()).hexdigest()
        assert rangeOf(file.path) == (5, 9, digest)
        assert file.sha256 == digest

    def test_full(self, table: ParquetTable) -> None:
        """A file that cannot be written whole is an error, and leaves nothing."""
        with small(500), pytest.raises(TableError, match="File too large"):
            writeFile(table.root, [rows(*range(1, 1000))], 1, 1000)
        assert left(table) == []

    def test_timestamps(self, table: ParquetTable) -> None:
        """When its messages were stored may also be known in microseconds, and before 1970."""
        times = pa.array([-5, 7], pa.timestamp("us", tz="UTC"))
        writer = FileWriter(table.root, 1, 3, "at")
        writer.add(pa.RecordBatch.from_arrays([times], names=["at"]))
        file = writer.finish()
        assert (file.first_time, file.last_time) == (-5000, 7000)

    def test_emptyRange(self, table: ParquetTable) -> None:
        """A range without messages has no file."""
        assert writeFile(table.root, [], 5, 9) == File("", 5, 9)
        assert left(table) == []

    def test_sourceFails(self, table: ParquetTable) -> None:
        """If the messages cannot be read to their end, nothing is left."""

        def batches() -> Any:
            for _ in range(3):
                yield pa.RecordBatch.from_pydict({"seq": [1] * 100_000, "time_ns": [1] * 100_000})
            assert len(left(table)) == 1
            raise ApiError("gone")

        with pytest.raises(ApiError, match="gone"):
            writeFile(table.root, batches(), 1, 2)
        assert left(table) == []


class TestDays:
    """Files of one day each."""

    def test_days(self, table: ParquetTable) -> None:
        """A range becomes files that follow each other, wherever batches begin."""
        batches = list(dated(5, 20, 6))
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
        for given in (batches, whole):
            files = writeDays(table.root, given, 2, 30)
            found = [(each.start, each.stop, each.rows) for each in files]
            assert found == [(2, 7, 2), (7, 13, 6), (13, 19, 6), (19, 30, 1)]
            for number, each in enumerate(files):
                assert each.path.startswith(f"data/date=2026-11-2{number}/")
                assert rangeOf(each.path) == (each.start, each.stop, each.sha256)
                said = pq.read_metadata(table.root / each.path).metadata
                assert (said[b"nb.start"], said[b"nb.stop"]) == (
                    b"%d" % each.start,
                    b"%d" % each.stop,
                )

    def test_backAgain(self, table: ParquetTable) -> None:
        """Where a clock went back there is one file more."""
        one, two = dated(3, 4, 3), dated(4, 5, 3)
        shifted = [x.set_column(0, "seq", pa.array([n])) for n, x in enumerate([*two, *one], 1)]
        files = writeDays(table.root, shifted, 1, 3)
        assert [each.path[5:20] for each in files] == ["date=2026-11-21", "date=2026-11-20"]

    def test_emptyRangeOfDays(self, table: ParquetTable) -> None:
        """A range without messages has no file."""
        assert writeDays(table.root, [rows()], 5, 9) == [File("", 5, 9)]

    def test_fails(self, table: ParquetTable) -> None:
        """If one cannot be written, none is left."""

        def batches() -> Any:
            yield from dated(1, 10, 3)
            raise ApiError("gone")

        with pytest.raises(ApiError, match="gone"):
            writeDays(table.root, batches(), 1, 20)
        assert list((table.root / "data").rglob("*.parquet")) == []


class TestAdding:
    """Adding files to the manifest."""

    def test_race(self, table: ParquetTable) -> None:
        """Who is first has added its files; those of the other go."""
        base = Manifest.first(Log("stream", "S", "", "x"), 1)
        assert table.commit(base)
        one, two = writeFile(table.root, [rows(1)], 1, 2), writeFile(table.root, [rows(1, 2)], 1, 3)
        assert added(table, base.extended([one], [], 0.0), [one])
        assert not added(table, base.extended([two], [], 0.0), [two])
        assert table.require().files == (one,)
        assert left(table) == [one.path]

    def test_vacuumed(self, table: ParquetTable) -> None:
        """A file that somebody deleted before it was named is not named."""
        base = Manifest.first(Log("stream", "S", "", "x"), 1)
        file = writeFile(table.root, [rows(1)], 1, 2)
        (table.root / file.path).unlink()
        with pytest.raises(TableError, match="was deleted before it was named"):
            added(table, base.extended([file], [], 0.0), [file])
        assert table.latest() is None
