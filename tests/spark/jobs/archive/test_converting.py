"""
The job C{convert}.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from natsbroker.spark import cli
from natsbroker.spark.tables.parquet import readFiles
from natsbroker.spark.tables.table import FORMATS, tableAt
from tests.spark.formerarchives import former


def ran(root: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the line of JSON."""
    out = io.StringIO()
    given = ("--archive", str(root / "old"), "--to", str(root / "new"), "--master", "inline")
    code = cli.main(("convert", *given, *more), out, io.StringIO())
    return code, json.loads(out.getvalue() or "{}")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("partition", ["", "date"])
def test_sameMessages(tmp_path: Path, form: str, partition: str) -> None:
    """
    The converted table has the messages and losses of the former archive. Converting again adds
    none.
    """
    former(tmp_path / "old", (1, 15), (15, 16), (16, 33), partition=partition)
    for _ in range(2):
        code, summary = ran(tmp_path, "--format", form)
        assert (code, summary["rows"], summary["start"], summary["stop"]) == (0, 26, 1, 33)
    snapshot = tableAt(tmp_path / "new").require()
    assert (snapshot.log.name, snapshot.lost, snapshot.partition) == ("S", ((6, 8),), partition)
    rows = [
        (row["seq"], row["data"])
        for tile in snapshot.tiles
        for batch in readFiles(tmp_path / "new", tile.files)
        for row in batch.to_pylist()
    ]
    assert rows == [(n, b"%d" % n) for n in range(1, 33) if n % 5]


def test_goesOn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion that was interrupted continues at its position."""
    for name, count in (("ROWS", 9), ("_FILES", 1)):
        monkeypatch.setattr(f"natsbroker.spark.jobs.archive.converting.{name}", count)
    former(tmp_path / "old", (1, 10), (10, 20))
    second = tmp_path / "old" / "data" / "10.parquet"
    data = second.read_bytes()
    second.write_bytes(data[:-1] + b"x")
    code, summary = ran(tmp_path)
    assert (code, "file: sequences 10 to 19: data/10.parquet" in summary["error"]) == (3, True)
    assert tableAt(tmp_path / "new").require().stop == 10
    second.write_bytes(data)
    assert ran(tmp_path)[1]["stop"] == 20


def test_damaged(tmp_path: Path) -> None:
    """A file with changed bytes, or that is missing, is an error."""
    former(tmp_path / "old", (1, 10))
    path = tmp_path / "old" / "data" / "1.parquet"
    pq.write_table(pq.read_table(path), path, compression="gzip")
    assert "has other bytes than were written" in ran(tmp_path)[1]["error"]
    path.unlink()
    assert "No such file" in ran(tmp_path)[1]["error"]


def test_noArchive(tmp_path: Path) -> None:
    """A directory without an earlier version's archive, or with a table of decode, is refused."""
    (tmp_path / "old" / "_nb").mkdir(parents=True)
    code, summary = ran(tmp_path)
    assert (code, "there is no archive of an earlier version" in summary["error"]) == (3, True)
    (tmp_path / "old" / "_nb" / "columns-0000000000.ddl").write_text("x INT")
    assert "run decode again" in ran(tmp_path)[1]["error"]
