"""
The job C{export}.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from natsbroker.spark import cli
from natsbroker.spark.tables.table import tableAt
from tests.spark.logged import extended
from tests.spark.tablecontract import forge


def ran(root: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the line of JSON."""
    out = io.StringIO()
    given = ("export", "--archive", str(root / "log"), "--to", str(root / "plain"), *more)
    code = cli.main(given, out, io.StringIO())
    return code, json.loads(out.getvalue() or "{}")


def test_newFiles(tmp_path: Path) -> None:
    """The files have the archive's messages; a later run adds files with the new ones."""
    extended(tmp_path / "log", [("a", b"%d" % n) for n in range(1, 8)])
    code, summary = ran(tmp_path, "--rows-per-file", "4")
    assert (code, summary["rows"], summary["files"], summary["stop"]) == (0, 7, 2, 8)
    extended(tmp_path / "log", [("a", b"8")])
    assert ran(tmp_path)[1]["rows"] == 1
    assert ran(tmp_path)[1]["files"] == 0
    files = sorted((tmp_path / "plain").iterdir())
    assert [file.name[15:41] for file in files] == [
        "00001-00000000000000000005",
        "00005-00000000000000000008",
        "00008-00000000000000000009",
    ]
    rows = pq.read_table(tmp_path / "plain").to_pylist()
    assert [(row["seq"], row["data"]) for row in rows] == [(n, b"%d" % n) for n in range(1, 9)]


def test_otherArchive(tmp_path: Path) -> None:
    """A directory with files beyond the end of the archive is refused."""
    extended(tmp_path / "log", [("a", b"x")])
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / f"{1:020}-{9:020}.parquet").write_bytes(b"")
    code, summary = ran(tmp_path)
    assert (code, "has sequences to 8, the archive to 1" in summary["error"]) == (2, True)
    assert ran(tmp_path, "--rows-per-file", "0")[0] == 2


@pytest.mark.parametrize("place", ["plain", "plain/deep"])
def test_damaged(tmp_path: Path, place: str) -> None:
    """Damage is an error, and no file is written with it."""
    extended(tmp_path / "log", [("a", b"x")] * 5)
    [file] = tableAt(tmp_path / "log").require().files
    forge(tmp_path / "log" / file.path, 3)
    code, summary = ran(tmp_path)
    assert (code, "damaged: sequences 3 to 3" in summary["error"]) == (3, True)
    assert list((tmp_path / "plain").iterdir()) == []
