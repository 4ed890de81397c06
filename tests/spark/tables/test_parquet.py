"""
Data files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from natsbroker.spark.errors import ApiError
from natsbroker.spark.tables.parquet import (
    SCHEMA,
    STORED,
    FileWriter,
    damageOf,
    discard,
    writeFiles,
)
from natsbroker.spark.tables.snapshots import TableError
from tests.spark.tablecontract import dated, small


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of a table that has nothing yet."""
    (tmp_path / "data").mkdir()
    return tmp_path


def left(root: Path) -> list[str]:
    """The data files that are there."""
    return [str(path.relative_to(root)) for path in (root / "data").rglob("*.parquet")]


def rows(*seqs: int) -> Any:
    """Some rows."""
    names = {"subject": "a", "data": b"x", "time": 0, "headers": []}
    content = [{"seq": seq, "time_ns": seq * 1000, **names} for seq in seqs]
    return pa.RecordBatch.from_struct_array(pa.array(content, pa.struct(list(SCHEMA))))


class TestWriting:
    """Writing a file."""

    def test_rows(self, root: Path) -> None:
        """
        All rows are in the file, in order, each with its checksum, and the statistics are right.
        """
        [file] = writeFiles(root, [rows(5), rows(), rows(6, 8)], 4)
        assert (file.first, file.last, file.rows) == (5, 8, 3)
        arrow = pq.read_table(root / file.path)
        assert arrow.schema.names == STORED.names
        assert arrow.column("seq").to_pylist() == [5, 6, 8]
        assert left(root) == [file.path]
        assert file.path.startswith("data/00000000000000000004-")
        assert damageOf(root, [file]) == []

    def test_noRoom(self, root: Path) -> None:
        """A file that cannot be written whole is an error, and leaves nothing."""
        with small(500), pytest.raises(TableError, match="File too large"):
            writeFiles(root, [rows(*range(1, 1000))], 1)
        assert left(root) == []

    def test_otherColumns(self, root: Path) -> None:
        """A table with other columns may name the column with the sequences."""
        writer = FileWriter(root, 1, seq="x_seq")
        writer.add(pa.RecordBatch.from_pydict({"x_seq": [3, 7]}))
        [file] = writer.finish()
        assert (file.first, file.last, file.rows) == (3, 7, 2)
        discard(root, [file])
        assert left(root) == []

    def test_emptyRange(self, root: Path) -> None:
        """A range without messages has no file."""
        assert writeFiles(root, [], 5) == writeFiles(root, [rows()], 5, True) == []
        assert left(root) == []

    def test_sourceFails(self, root: Path) -> None:
        """If the messages cannot be read to their end, no file is left."""

        def batches() -> Any:
            for _ in range(3):
                yield rows(*[1] * 100_000)
            assert len(left(root)) == 1
            raise ApiError("gone")

        with pytest.raises(ApiError, match="gone"):
            writeFiles(root, batches(), 1)
        assert left(root) == []


class TestDays:
    """Files of one day each."""

    def test_days(self, root: Path) -> None:
        """With days, a range is written as one file a day, however it is split into batches."""
        batches = list(dated(5, 20, 6))
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
        for given in (batches, whole):
            files = writeFiles(root, given, 2, True)
            bounds = [(file.first, file.last, file.rows) for file in files]
            assert bounds == [(5, 6, 2), (7, 12, 6), (13, 18, 6), (19, 19, 1)]
            for number, file in enumerate(files):
                assert file.path.startswith(f"data/date=2026-11-2{number}/")

    def test_backAgain(self, root: Path) -> None:
        """If the time goes back to an earlier day, another file is written."""
        one, two = dated(3, 4, 3), dated(4, 5, 3)
        shifted = [x.set_column(0, "seq", pa.array([n])) for n, x in enumerate([*two, *one], 1)]
        files = writeFiles(root, shifted, 1, True)
        assert [file.path[5:20] for file in files] == ["date=2026-11-21", "date=2026-11-20"]

    def test_writeFails(self, root: Path) -> None:
        """If one file cannot be written, no file is left."""

        def batches() -> Any:
            yield from dated(1, 10, 3)
            raise ApiError("gone")

        with pytest.raises(ApiError, match="gone"):
            writeFiles(root, batches(), 1, True)
        assert list((root / "data").rglob("*.parquet")) == []
