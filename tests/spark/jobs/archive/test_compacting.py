"""
Tidying archives.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from natsbroker.spark import cli
from natsbroker.spark.jobs.archive.archiver import Archiver, FilePlan
from natsbroker.spark.jobs.archive.compacting import bytesOf, compact, runsOf, vacuum
from natsbroker.spark.jobs.archive.verify import Comparison, verify
from natsbroker.spark.jobs.common import inline
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.formats import FORMATS, tableAt
from natsbroker.spark.tables.manifests import File, Log, Manifest, TableError
from natsbroker.spark.tables.table import Vacuumed
from tests.spark.support import BrokerStation


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
        """The data files that are there, named or not."""
        return {f"data/{each.name}" for each in (self.table.root / "data").iterdir()}

    @property
    def named(self) -> set[str]:
        """Those that the version names that holds."""
        return {each.path for each in self.table.require().files}

    def check(self, rows: int) -> None:
        """See that the archive has every message, once and whole."""
        manifest, compared = verify(readOptions({"servers": self.broker.url}), self.table)
        assert compared == Comparison((), rows, 0)
        assert manifest.rows == rows


@pytest.fixture
def kept(broker: BrokerStation, tmp_path: Path, request: pytest.FixtureRequest) -> Kept:
    """An archive of 95 messages in ten files, of the format that a test asks for."""
    return Kept(broker, tmp_path, getattr(request, "param", ""))


def file(start: int, stop: int, size: int) -> File:
    """A file in a manifest."""
    return File(f"data/{start}", start, stop, 1, size)


def test_runs() -> None:
    """Files that follow each other become one as long as that is not too large."""
    sizes = (40, 50, 20, 200, 10, 10)
    files = tuple(file(n, n + 1, size) for n, size in enumerate(sizes, 1))
    manifest = Manifest(1, "t", Log("stream", "S", "", "i"), 1, files)
    assert [[x.bytes for x in run] for run in runsOf(manifest, 100)] == [[40, 50], [10, 10]]
    assert [[x.bytes for x in run] for run in runsOf(manifest, 1000)] == [list(sizes)]
    assert runsOf(manifest, 1) == []
    assert runsOf(Manifest.first(manifest.log, 1), 100) == []


@pytest.mark.parametrize("kept", FORMATS, indirect=True)
class TestCompact:
    """Few files of many."""

    def test_same(self, kept: Kept) -> None:
        """The archive has the same messages, in one file; the old ones are still there."""
        before = kept.files
        assert compact(kept.table) == 10
        manifest = kept.table.require()
        [whole] = manifest.files
        assert (whole.start, whole.stop, whole.rows, manifest.stop) == (1, 96, 95, 96)
        rows = pq.read_table(kept.table.root / whole.path)["seq"].to_pylist()
        assert rows == list(range(1, 96))
        assert before < kept.files
        kept.check(95)
        assert compact(kept.table) == 0

    def test_whileArchiving(self, kept: Kept) -> None:
        """What is archived meanwhile stays, behind."""

        def slow(work: Any, tasks: Sequence[Any]) -> list[Any]:
            done = inline(work, tasks)
            kept.broker.fill(kept.name, [b"more"] * 5)
            kept.archive()
            return done

        assert compact(kept.table, slow) == 10
        assert [each.start for each in kept.table.require().files] == [1, 96]
        kept.check(100)

    def test_racing(self, kept: Kept) -> None:
        """Of two who compact the same files one wins, and the other leaves nothing."""

        def slow(work: Any, tasks: Sequence[Any]) -> list[Any]:
            done = inline(work, tasks)
            assert compact(kept.table) == 10
            return done

        before = kept.files
        assert compact(kept.table, slow) == 0
        assert kept.files - before == kept.named
        kept.check(95)

    def test_damaged(self, kept: Kept) -> None:
        """A file that differs from the manifest is not compacted."""
        first, second = kept.table.require().files[:2]
        data = (kept.table.root / second.path).read_bytes()
        (kept.table.root / first.path).unlink()
        with pytest.raises(TableError, match="No such file"):
            compact(kept.table)
        pq.write_table(
            pq.read_table(kept.table.root / second.path).slice(0, 3),
            kept.table.root / first.path,
        )
        with pytest.raises(TableError, match="files from 1 have 88 messages and not 95"):
            compact(kept.table)
        assert (kept.table.root / second.path).read_bytes() == data
        assert kept.files == kept.named


class TestVacuum:
    """What nobody names goes."""

    def test_all(self, kept: Kept) -> None:
        """Old versions, files that only they name, orphans and drafts go; the archive stays."""
        compact(kept.table)
        (kept.table.root / "data" / "orphan.parquet").write_bytes(b"1234567")
        (kept.table.root / "_nb" / ".a.tmp").write_bytes(b"")
        old = sum((kept.table.root / x).stat().st_size for x in kept.files - kept.named)
        later = kept.table.require().written + 1000
        assert vacuum(kept.table, 500, lambda: later, True) == Vacuumed(12, 5, old)
        assert len(kept.files) == 12
        assert vacuum(kept.table, 500, lambda: later) == Vacuumed(12, 5, old)
        assert (kept.files, len(list((kept.table.root / "_nb").iterdir()))) == (kept.named, 1)
        assert os.listdir(kept.table.root / "_nb") == ["0000000005.json"]
        assert vacuum(kept.table, 500, lambda: later) == Vacuumed()
        kept.check(95)

    def test_young(self, kept: Kept) -> None:
        """What somebody may still read or name stays."""
        compact(kept.table)
        (kept.table.root / "data" / "new.parquet").write_bytes(b"")
        assert vacuum(kept.table) == Vacuumed()
        assert len(kept.files) == 12

    def test_versionsThatHeld(self, kept: Kept) -> None:
        """A version that held a moment ago stays with its files, however old it is."""
        compact(kept.table)
        written = kept.table.require().written
        ancient = written - 10_000
        for each in (kept.table.root / "data").iterdir():
            os.utime(each, (ancient, ancient))
        before = kept.files
        done = vacuum(kept.table, 50, lambda: written + 49)
        assert (done.files, kept.files) == (0, before)

    def test_noArchive(self, tmp_path: Path) -> None:
        """Nothing is deleted where there is no archive."""
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "mine").write_text("x")
        with pytest.raises(TableError, match="there is no archive"):
            vacuum(tableAt(tmp_path), 0)
        assert (tmp_path / "data" / "mine").exists()


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("64K", 65536), ("512MB", 512 << 20), ("2G", 2 << 30)]
)
def test_bytes(text: str, size: int) -> None:
    """Sizes have units, or are bytes."""
    assert bytesOf(text) == size


@pytest.mark.parametrize("text", ["", "0", "x", "5T", "-1", "1.5M"])
def test_noBytes(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="not a size"):
        bytesOf(text)


def test_commands(kept: Kept) -> None:
    """Both are jobs, which say what they did."""

    def ran(*arguments: str) -> tuple[int, dict[str, Any]]:
        out = io.StringIO()
        code = cli.main((*arguments, "--archive", str(kept.table.root)), out, io.StringIO())
        found = json.loads(out.getvalue().splitlines()[-1])
        del found["seconds"]
        return code, found

    summary = {"result": "done", "version": 5, "replaced": 10, "before": 10, "files": 1}
    assert ran("compact", "--master", "inline", "--target", "1M") == (
        0,
        {"job": "compact", **summary},
    )
    code, summary = ran("vacuum", "--older-than", "0s", "--dry-run")
    assert (code, summary["files"], summary["versions"], len(kept.files)) == (0, 10, 5, 11)
    code, summary = ran("vacuum", "--older-than", "0s")
    assert (code, summary["files"], summary["versions"], len(kept.files)) == (0, 10, 5, 1)
    kept.check(95)


@pytest.mark.parametrize("kept", ["delta", "iceberg"], indirect=True)
def test_formats(kept: Kept) -> None:
    """Both do the same for tables of other formats."""
    archive = ("--archive", str(kept.table.root))
    out = io.StringIO()
    assert cli.main(("compact", "--master", "inline", *archive), out, io.StringIO()) == 0
    assert json.loads(out.getvalue())["replaced"] == 10
    assert len(kept.files) == 11
    assert cli.main(("vacuum", "--older-than", "1h", *archive), out, io.StringIO()) == 0
    assert len(kept.files) == 11
    assert cli.main(("vacuum", "--older-than", "0s", *archive), out, io.StringIO()) == 0
    assert kept.files == kept.named
    kept.check(95)
    kept.broker.fill(kept.name, [b"more"] * 5)
    kept.archive()
    kept.check(100)
