"""
Tidying archives.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from natsbroker.spark import cli
from natsbroker.spark.jobs.archive.archiver import Archiver, FilePlan
from natsbroker.spark.jobs.archive.tidying import bytesOf, compact
from natsbroker.spark.jobs.archive.verify import verified
from natsbroker.spark.jobs.common import inline
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.parquet import ArchiveDamaged
from natsbroker.spark.tables.snapshots import TableError
from natsbroker.spark.tables.table import FORMATS, tableAt
from tests.spark.support import BrokerStation
from tests.spark.tablecontract import forge


class Kept:
    """
    An archive of a channel, in files of ten messages.

    @ivar table: the archive.
    """

    def __init__(self, broker: BrokerStation, root: Path, form: str = "") -> None:
        self.broker = broker
        self.name = broker.channel(b"%d" % n for n in range(1, 96))
        self.table = tableAt(root, form)
        self.archive()

    def archive(self) -> None:
        """Archive what has come."""
        options = readOptions({"servers": self.broker.url, "channel": self.name})
        Archiver(options, self.table, plan=FilePlan(10, 3)).once()

    @property
    def files(self) -> set[str]:
        """The data files in the directory, whether the table names them or not."""
        paths = self.table.directory.rglob("*.parquet")
        names = {str(path.relative_to(self.table.directory)) for path in paths}
        return {name for name in names if not name.startswith("_")}

    @property
    def named(self) -> set[str]:
        """The data files that the current version of the table names."""
        return {file.path for file in self.table.require().files}

    def check(self, rows: int) -> None:
        """Check that the archive has a number of messages, all intact."""
        summary = verified(None, {"servers": self.broker.url}, str(self.table.root))
        assert (summary["findings"], summary["rows"], summary["deleted"]) == ([], rows, 0)
        assert self.table.require().rows == rows


@pytest.fixture
def kept(broker: BrokerStation, tmp_path: Path, request: pytest.FixtureRequest) -> Kept:
    """An archive of 95 messages in ten files, of the format that a test asks for."""
    return Kept(broker, tmp_path, getattr(request, "param", ""))


@pytest.mark.parametrize("kept", FORMATS, indirect=True)
class TestCompact:
    """Few files of many."""

    def test_sameMessages(self, kept: Kept) -> None:
        """The archive has the same messages in one file. The old files are still there."""
        before = kept.files
        assert compact(kept.table) == 10
        snapshot = kept.table.require()
        [whole] = snapshot.files
        assert (whole.first, whole.last, whole.rows, snapshot.stop) == (1, 95, 95, 96)
        assert before < kept.files
        kept.check(95)
        assert compact(kept.table) == 0

    def test_target(self, kept: Kept) -> None:
        """Compacting makes files of the requested size."""
        size = max(file.bytes for file in kept.table.require().files)
        assert compact(kept.table, target=3 * size) > 1
        files = kept.table.require().files
        assert 2 < len(files) < 8
        assert len([x for x in kept.table.require().tiles if x.files]) == len(files)
        kept.check(95)

    def test_whileArchiving(self, kept: Kept) -> None:
        """A message archived during a compaction stays."""

        def slow(work: Any, tasks: Sequence[Any]) -> list[Any]:
            done = inline(work, tasks)
            kept.broker.fill(kept.name, [b"more"] * 5)
            kept.archive()
            return done

        assert compact(kept.table, slow) >= 10
        kept.check(100)

    def test_damaged(self, kept: Kept) -> None:
        """Files with wrong contents are not compacted; the error names all damage."""
        files = kept.table.require().files
        (kept.table.directory / files[0].path).unlink()
        second = kept.table.directory / files[1].path
        pq.write_table(pq.read_table(second).slice(0, 3), second)
        forge(kept.table.directory / files[2].path, 25)
        before = kept.named
        with pytest.raises(ArchiveDamaged) as raised:
            compact(kept.table)
        assert [
            (finding.kind, finding.first, finding.last) for finding in raised.value.findings
        ] == [
            ("file", 1, 10),
            ("file", 11, 20),
            ("damaged", 25, 25),
        ]
        assert "No such file" in str(raised.value)
        assert "has 3 rows and not 10" in str(raised.value)
        assert kept.named == before


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("64K", 65536), ("512MB", 512 << 20), ("2G", 2 << 30)]
)
def test_bytes(text: str, size: int) -> None:
    """Sizes have units, or are bytes."""
    assert bytesOf(text) == size


@pytest.mark.parametrize("text", ["", "0", "x", "5T", "-1", "1.5M"])
def test_noBytes(text: str) -> None:
    """A text that is no size is refused."""
    with pytest.raises(argparse.ArgumentTypeError, match="not a size"):
        bytesOf(text)


@pytest.mark.parametrize("kept", FORMATS, indirect=True)
def test_commands(kept: Kept) -> None:
    """The commands are jobs, which report their work."""

    def ran(*arguments: str) -> tuple[int, dict[str, Any]]:
        out = io.StringIO()
        code = cli.main((*arguments, "--archive", str(kept.table.directory)), out, io.StringIO())
        return code, json.loads(out.getvalue().splitlines()[-1])

    code, summary = ran("compact", "--master", "inline", "--target", "1M")
    assert (code, summary["replaced"], summary["before"], summary["files"]) == (0, 10, 10, 1)
    assert ran("vacuum", "--older-than", "1h")[1]["files"] == 0
    assert len(kept.files) == 11
    code, summary = ran("vacuum", "--older-than", "0s", "--dry-run")
    assert (code, summary["files"] >= 10, len(kept.files)) == (0, True, 11)
    code, summary = ran("vacuum", "--older-than", "0s")
    assert (code, summary["files"] >= 10, kept.files) == (0, True, kept.named)
    kept.check(95)
    kept.broker.fill(kept.name, [b"more"] * 5)
    kept.archive()
    kept.check(100)


@pytest.mark.parametrize("form", FORMATS)
def test_noArchive(form: str, tmp_path: Path) -> None:
    """Without an archive, no message is deleted."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("x")
    with pytest.raises(TableError, match="there is no archive"):
        tableAt(tmp_path, form).vacuum(0, False)
    assert (tmp_path / "data" / "mine").exists()
