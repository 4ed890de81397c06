"""
Tables of rows that a stream did not take.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from natsbroker.spark.tables.delta import DeadLetterTable
from natsbroker.spark.tables.snapshots import TableError

COLUMNS = pa.schema([("data", pa.binary())])


def test_onceEach(tmp_path: Path) -> None:
    """Dead letters of a micro-batch that is repeated, or older than the last one, are dropped."""
    table = DeadLetterTable(tmp_path / "t", COLUMNS)
    for write, number, isNew in (("a", 0, True), ("a", 2, True), ("a", 1, False), ("b", 0, True)):
        dead = DeadLetterTable(tmp_path / "t", COLUMNS, 7)
        for count in range(1500):
            dead.add({"data": b"%d" % count}, 5, "why")
        files = dead.finish()
        assert table.record(files, write, number) is isNew
        assert table.record(files, write, number) is False
    rows = table._open().to_pyarrow_table()
    assert rows.num_rows == 4500
    assert rows.to_pylist()[0] == {"data": b"0", "code": 5, "error": "why"}


def test_noDeadLetters(tmp_path: Path) -> None:
    """A task without dead letters writes nothing."""
    dead = DeadLetterTable(tmp_path / "t", COLUMNS)
    dead.abandon()
    assert dead.finish() == ()
    assert not (tmp_path / "t").exists()


def test_unwritable(tmp_path: Path) -> None:
    """A place where no table can be is an error."""
    dead = DeadLetterTable(tmp_path / "t", COLUMNS)
    (tmp_path / "t").write_text("")
    dead.add({"data": b""}, 0, "")
    with pytest.raises(TableError, match="Not a directory"):
        dead.finish()
