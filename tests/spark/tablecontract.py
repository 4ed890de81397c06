"""
What every format of an archive must do, run by the tests of each: L{TableContract}.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.archive.compacting import compact
from natsbroker.spark.tables.filing import SCHEMA, writeDays, writeFile
from natsbroker.spark.tables.formats import tableAt
from natsbroker.spark.tables.manifests import File, Log, Manifest, TableError, dayOf
from natsbroker.spark.tables.table import ArchiveTable

__all__ = ["LOG", "TableContract", "dated", "filed", "grown", "small", "together"]

LOG = Log("channel", "orders.äß", "test-cluster", "00ff")

#: A child that commits more sequences to an archive, and may write no file beyond a size:
#: then it is killed in the middle of that write.
_CHILD = """
import resource, signal, sys
from pathlib import Path
from natsbroker.spark.tables.formats import tableAt
from tests.spark.tablecontract import grown
root, limit = Path(sys.argv[1]), int(sys.argv[2])
table = tableAt(root)
following = grown(table, table.require().stop + 4)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.exit(0 if table.commit(following) else 9)
"""


def filed(root: Path, start: int, stop: int, *missing: int) -> File:
    """
    A data file with messages that say their sequence; those of some sequences are not there.
    """
    rows = [
        {
            "seq": n,
            "subject": "orders.new",
            "data": b"%d" % n,
            "time": n,
            "headers": [{"key": "N", "value": str(n)}],
            "time_ns": n * 1000,
        }
        for n in range(start, stop)
        if n not in missing
    ]
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches() if rows else []
    return writeFile(root, batches, start, stop)


def dated(start: int, stop: int, each: int) -> Iterator[Any]:
    """
    Messages as those of L{filed}, the same number on each day.
    """
    for n in range(start, stop):
        time = datetime(2026, 11, 20 + (n - 1) // each, 23, 59, 59, n, timezone.utc)
        fields = {"seq": n, "subject": "orders.new", "data": b"%d" % n, "time": time}
        headers = [{"key": "N", "value": str(n)}]
        row = {**fields, "headers": headers, "time_ns": n * 1000}
        yield pa.RecordBatch.from_pylist([row], SCHEMA)


def grown(table: ArchiveTable, stop: int, *missing: int) -> Manifest:
    """
    What the version that holds becomes with the sequences up to one, in a file.
    """
    manifest = table.require()
    return manifest.extended([filed(table.root, manifest.stop, stop, *missing)], [], 5.0)


@contextmanager
def small(limit: int) -> Iterator[None]:
    """
    No file can become larger than C{size} bytes: writing beyond is an error, as on a full disk.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def together(count: int, work: Callable[[int], bool]) -> list[int]:
    """
    Have several threads do something at the same moment.

    @return: which of them say C{True}.
    @raise Exception: what one of them raised.
    """
    barrier = threading.Barrier(count)
    won: list[int] = []
    raised: list[Exception] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            if work(number):
                won.append(number)
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=[n]) for n in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if raised:
        raise raised[0]
    return won


class TableContract:
    """
    Subclasses name the format, and read a table as other programs do.

    @cvar form: the format.
    @cvar limits: the sizes that no file may exceed, one after the other.
    @cvar fatal: those with which a process is killed.
    """

    form = ""
    limits: tuple[int, ...] = (0, 100, 500, 900, 1500, 2500, 4000)
    fatal: tuple[int, ...] = (0, 500)

    def seen(self, root: Path) -> list[dict[str, object]]:
        """The rows that another program sees, in any order."""
        raise NotImplementedError

    @pytest.fixture
    def table(self, tmp_path: Path) -> ArchiveTable:
        """A table that accounts for the sequences from 1 to 8, of which 3 was deleted."""
        table = tableAt(tmp_path / "lake", self.form)
        table.make()
        assert table.commit(Manifest.first(LOG, 1))
        assert table.commit(grown(table, 9, 3))
        return table

    def check(self, root: Path, *missing: int) -> Manifest:
        """See that the table has each sequence once, save some, and is the same to everybody."""
        manifest = tableAt(root).require()
        rows = sorted(self.seen(root), key=lambda row: int(str(row["seq"])))
        expected = [n for n in range(manifest.start, manifest.stop) if n not in missing]
        assert [row["seq"] for row in rows] == expected
        assert [row["data"] for row in rows] == [b"%d" % n for n in expected]
        assert [row["headers"] for row in rows] == [
            [{"key": "N", "value": str(n)}] for n in expected
        ]
        assert manifest.rows == len(rows)
        return manifest

    def test_missingArchive(self, tmp_path: Path) -> None:
        """Where there is no archive there is none, and asking makes nothing."""
        table = tableAt(tmp_path / "lake", self.form)
        assert table.latest() is None
        with pytest.raises(TableError, match="lake: there is no archive"):
            table.require()
        assert list(tmp_path.iterdir()) == []
        table.make()
        table.make()
        assert tableAt(tmp_path / "lake", self.form).latest() is None

    def test_first(self, tmp_path: Path) -> None:
        """The first version says what it is of; of many who make it one succeeds."""
        root = tmp_path / "lake"
        tableAt(root, self.form).make()
        firsts = [Manifest.first(LOG, 17) for _ in range(4)]
        won = together(4, lambda n: tableAt(root, self.form).commit(firsts[n]))
        found = tableAt(root).require()
        assert [firsts[n].table for n in won] == [found.table]
        assert (found.log, found.start, found.stop) == (LOG, 17, 17)
        assert (found.files, found.lost, tableAt(root).form) == ((), (), self.form)
        assert self.seen(root) == []

    def test_formats(self, table: ArchiveTable) -> None:
        """An archive is found to be what it is, and is not opened as anything else."""
        assert tableAt(table.root).form == tableAt(table.root, self.form).form == self.form
        for other in {"parquet", "delta", "iceberg"} - {self.form}:
            with pytest.raises(OptionError, match=f"is an archive of the format {self.form}, not"):
                tableAt(table.root, other)

    def test_comesBack(self, table: ArchiveTable) -> None:
        """What was committed is read: ranges, rows, sizes, fingerprints, times, losses."""
        before = table.require()
        files = [File("", 9, 12), filed(table.root, 12, 20, 15, 16), filed(table.root, 20, 22)]
        following = before.extended(files, [(15, 17)], 5.0)
        assert table.commit(following)
        found = self.check(table.root, 3, 9, 10, 11, 15, 16)
        assert found.files == (*before.files, *files)
        assert (found.lost, found.log, found.table) == (((15, 17),), LOG, before.table)
        assert found.files[0].first_time == 1000
        assert found.files[-1].last_time == 21_000
        assert found.version == before.version + 1
        assert found.written > 0

    def test_lost(self, table: ArchiveTable) -> None:
        """Losses are joined over versions, also of versions that have nothing else."""
        assert table.commit(table.require().extended([File("", 9, 12)], [(9, 12)], 5.0))
        assert table.require().lost == ((9, 12),)
        assert table.commit(table.require().extended([File("", 12, 14)], [(12, 13)], 5.0))
        assert (table.require().lost, table.require().stop) == (((9, 13),), 14)
        assert table.commit(
            table.require().extended([filed(table.root, 14, 20, 15, 18)], [(18, 19), (15, 16)], 5.0)
        )
        assert self.check(table.root, 3, *range(9, 14), 15, 18).lost == (
            (9, 13),
            (15, 16),
            (18, 19),
        )

    def test_stale(self, table: ArchiveTable) -> None:
        """What was made of a version that does not hold any more is not taken."""
        early = grown(table, 12)
        assert table.commit(grown(table, 15))
        assert not table.commit(early)
        assert not tableAt(table.root).commit(early)
        assert self.check(table.root, 3).stop == 15

    def test_race(self, table: ArchiveTable) -> None:
        """Of many who go on from the same version one succeeds, round after round."""
        for _ in range(3):
            stop = table.require().stop
            drafts = [grown(tableAt(table.root), stop + 1 + n) for n in range(4)]
            racers = [tableAt(table.root) for _ in drafts]
            for each in racers:
                each.require()
            won = together(4, lambda n: racers[n].commit(drafts[n]))  # noqa: B023
            assert len(won) == 1
            assert self.check(table.root, 3).stop == stop + 1 + won[0]

    def test_emptyRace(self, table: ArchiveTable) -> None:
        """The same with versions that have no file."""
        base = table.require()
        drafts = [base.extended([File("", 9, 10 + n)], [(9, 10 + n)], 5.0) for n in range(4)]
        won = together(4, lambda n: tableAt(table.root).commit(drafts[n]))
        assert len(won) == 1
        found = table.require()
        assert (found.stop, found.lost) == (10 + won[0], ((9, 10 + won[0]),))
        assert not any(table.commit(each) for each in drafts)
        assert table.require() == found

    def test_doubled(self, table: ArchiveTable) -> None:
        """A file that is there already is refused, also under another range."""
        before = table.require()
        again = replace(before.files[0], start=9, stop=17)
        with pytest.raises(TableError, match="is named twice"):
            table.commit(before.extended([again], [], 5.0))
        new = filed(table.root, 9, 12)
        with pytest.raises(TableError, match="is named twice"):
            table.commit(before.extended([new, replace(new, start=12, stop=15)], [], 5.0))
        with pytest.raises(TableError, match="begins at 10 and not at 9"):
            table.commit(before.extended([replace(new, start=10)], [], 5.0))
        assert self.check(table.root, 3) == before

    def test_replaced(self, table: ArchiveTable) -> None:
        """Files give way to one with the same messages; nothing else changes."""
        assert table.commit(table.require().extended([File("", 9, 12)], [(9, 12)], 5.0))
        assert table.commit(grown(table, 15))
        before = table.require()
        whole = filed(table.root, 1, 15, 3, 9, 10, 11)
        assert table.commit(before.replaced(before.files, [whole], 6.0))
        after = self.check(table.root, 3, 9, 10, 11)
        assert after.files == (whole,)
        assert (after.lost, after.stop, after.table) == (before.lost, 15, before.table)

    def test_replacedInRace(self, table: ArchiveTable) -> None:
        """Of one who replaces and one who appends one succeeds; then the other can."""
        assert table.commit(grown(table, 12))
        for _ in range(2):
            base = table.require()
            stop = base.stop
            whole = filed(table.root, 1, stop, 3)
            drafts = [base.replaced(base.files, [whole], 6.0), grown(table, stop + 3)]
            won = together(2, lambda n: tableAt(table.root).commit(drafts[n]))  # noqa: B023
            assert len(won) == 1
            assert self.check(table.root, 3).stop == (stop if won == [0] else stop + 3)
            assert table.commit(grown(table, table.require().stop + 1))

    def test_days(self, tmp_path: Path) -> None:
        """A table may have files of one day each; it stays so when they are compacted."""
        root = tmp_path / "lake"
        table = tableAt(root, self.form)
        table.make()
        assert table.commit(Manifest.first(LOG, 1, "date"))
        for stop in (6, 12):
            manifest = table.require()
            files = writeDays(root, dated(manifest.stop, stop, 3), manifest.stop, stop)
            assert table.commit(manifest.extended(files, [], 5.0))
        before = self.check(root)
        days = [dayOf(each.path) for each in before.files]
        assert days == [f"2026-11-2{n}" for n in (0, 1, 1, 2, 3)]
        assert [each.start for each in before.files] == [1, 4, 6, 7, 10]
        assert before.partition == "date"
        assert compact(table) == 2
        after = self.check(root)
        assert [dayOf(each.path) for each in after.files] == [f"2026-11-2{n}" for n in range(4)]
        assert [each.start for each in after.files] == [1, 4, 7, 10]
        with pytest.raises(TableError, match="not in the directory of its day"):
            table.commit(grown(table, 15))
        assert table.vacuum(0, _later, False).files >= 2
        assert len(list((root / "data").rglob("*.parquet"))) == 4
        self.check(root)

    def test_orphans(self, table: ArchiveTable) -> None:
        """A file that no version names is seen by nobody."""
        orphan = filed(table.root, 9, 12)
        assert orphan.path not in table.require().paths
        self.check(table.root, 3)

    def test_full(self, table: ArchiveTable) -> None:
        """
        Where there is no room a commit is an error that says so, at whatever byte; the version that
        held does still, and the same goes on when there is room.
        """
        refused = 0
        for limit in self.limits:
            before = table.require()
            following = grown(table, before.stop + 3)
            try:
                with small(limit):
                    assert table.commit(following)
            except TableError as error:
                refused += 1
                assert "File too large" in str(error) or "full" in str(error), error
                assert table.require() == tableAt(table.root).require() == before
                self.check(table.root, 3)
                assert table.commit(following)
            assert self.check(table.root, 3).stop == before.stop + 3
        assert refused > 0

    @pytest.mark.skipif(sys.platform != "linux", reason="needs SIGXFSZ")
    def test_killed(self, table: ArchiveTable) -> None:
        """Who is killed in the middle of a write has changed nothing, and is in nobody's way."""
        killed = 0
        for limit in self.fatal:
            before = table.require()
            command = [sys.executable, "-c", _CHILD, str(table.root), str(limit)]
            done = subprocess.run(command, capture_output=True, check=False, cwd=os.getcwd())
            assert done.returncode in (0, -signal.SIGXFSZ), done.stderr.decode()
            after = self.check(table.root, 3)
            if done.returncode:
                killed += 1
                assert after == before
            assert table.commit(grown(table, after.stop + 1))
            self.check(table.root, 3)
        assert killed > 0

    def test_vacuum(self, table: ArchiveTable) -> None:
        """What nobody names goes when it is old enough; the archive stays."""
        assert table.commit(grown(table, 12))
        before = table.require()
        whole = filed(table.root, 1, 12, 3)
        assert table.commit(before.replaced(before.files, [whole], 6.0))
        orphan = filed(table.root, 12, 13)
        files = sorted(x.name for x in (table.root / "data").iterdir())
        assert len(files) == 4
        assert table.vacuum(86400, _now, False).files == 0
        assert table.vacuum(0, _later, True).files >= 3
        assert sorted(x.name for x in (table.root / "data").iterdir()) == files
        assert table.vacuum(0, _later, False).files >= 3
        assert [f"data/{x.name}" for x in (table.root / "data").iterdir()] == [whole.path]
        assert not (table.root / orphan.path).exists()
        assert self.check(table.root, 3).files == (whole,)
        assert table.commit(grown(table, 15))
        self.check(table.root, 3)
        assert table.vacuum(0, _later, False).files == 0 or self.check(table.root, 3)


def _now() -> float:
    import time

    return time.time()


def _later() -> float:
    return _now() + 1
