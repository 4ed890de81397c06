"""
The contract of every format of an archive, run by the tests of each: L{TableContract}.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.archive.tidying import compact, expire
from natsbroker.spark.tables.locations import Location
from natsbroker.spark.tables.parquet import SCHEMA, ArchiveDamaged, damageOf, writeFiles
from natsbroker.spark.tables.snapshots import File, Log, Range, TableError, TableSnapshot
from natsbroker.spark.tables.table import ArchiveTable, tableAt

__all__ = ["LOG", "TableContract", "dated", "filed", "forge", "grow", "small", "together"]

LOG = Log("channel", "orders.äß", "test-cluster", "00ff")

#: A child that commits more sequences to an archive, and may write no file beyond a size:
#: then it is killed in the middle of that write.
_CHILD = """
import resource, signal, sys
from pathlib import Path
from natsbroker.spark.tables.table import tableAt
from tests.spark.tablecontract import filed
root, limit = Path(sys.argv[1]), int(sys.argv[2])
table = tableAt(root)
base = table.require()
files = filed(root, base.stop, base.stop + 4)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.exit(0 if table.append(base, files, (), base.stop + 4) else 9)
"""


def filed(root: Location, start: int, stop: int, *missing: int) -> list[File]:
    """A data file with messages that contain their sequence. Some sequences are missing."""
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
    return writeFiles(root, batches, start)


def forge(path: Path, seq: int) -> None:
    """Change the data of one row in a data file, and leave its checksum."""
    rows = pq.read_table(path, partitioning=None)
    seqs = rows["seq"].to_pylist()
    data = [
        b"forged" if n == seq else body
        for n, body in zip(seqs, rows["data"].to_pylist(), strict=True)
    ]
    place = rows.schema.get_field_index("data")
    pq.write_table(rows.set_column(place, rows.schema.field(place), pa.array(data)), path)


def dated(start: int, stop: int, second: int) -> Iterator[Any]:
    """Messages as those of L{filed}, with the same number on each day."""
    for n in range(start, stop):
        time = datetime(2026, 11, 20 + (n - 1) // second, 23, 59, 59, n, timezone.utc)
        fields = {"seq": n, "subject": "orders.new", "data": b"%d" % n, "time": time}
        headers = [{"key": "N", "value": str(n)}]
        row = {**fields, "headers": headers, "time_ns": n * 1000}
        yield pa.RecordBatch.from_pylist([row], SCHEMA)


def grow(table: ArchiveTable, stop: int, *missing: int, lost: Sequence[Range] = ()) -> bool:
    """Append the sequences up to one, in a file, to the current version."""
    base = table.require()
    return table.append(base, filed(table.root, base.stop, stop, *missing), lost, stop)


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
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
        table.create(TableSnapshot.first(LOG, 1))
        assert grow(table, 9, 3)
        return table

    def check(self, root: Path, *missing: int) -> TableSnapshot:
        """Check that the table has each sequence once except for some, for other programs too."""
        snapshot = tableAt(root).require()
        rows = sorted(self.seen(root), key=lambda row: int(str(row["seq"])))
        expected = [n for n in range(snapshot.start, snapshot.stop) if n not in missing]
        assert [row["seq"] for row in rows] == expected
        assert [row["data"] for row in rows] == [b"%d" % n for n in expected]
        assert [row["headers"] for row in rows] == [
            [{"key": "N", "value": str(n)}] for n in expected
        ]
        assert snapshot.rows == len(rows)
        assert [damageOf(root, tile.files) for tile in snapshot.tiles if tile.files] == [
            [] for tile in snapshot.tiles if tile.files
        ]
        return snapshot

    def test_missingArchive(self, tmp_path: Path) -> None:
        """A missing archive is reported as missing, and the request creates nothing."""
        table = tableAt(tmp_path / "lake", self.form)
        assert table.latest() is None
        with pytest.raises(TableError, match="lake: there is no archive"):
            table.require()
        assert list(tmp_path.iterdir()) == []
        table.make()
        table.make()
        assert tableAt(tmp_path / "lake", self.form).latest() is None
        with pytest.raises(TableError, match="there is no archive"):
            table.append(TableSnapshot.first(LOG, 1), filed(table.directory, 1, 5), (), 5)

    def test_first(self, tmp_path: Path) -> None:
        """The first version names its log. Several processes may create it at the same time."""
        root = tmp_path / "lake"
        tableAt(root, self.form).make()
        firsts = [TableSnapshot.first(LOG, 17) for _ in range(4)]

        def created(number: int) -> bool:
            tableAt(root, self.form).create(firsts[number])
            return True

        assert sorted(together(4, created)) == [0, 1, 2, 3]
        snapshot = tableAt(root).require()
        assert snapshot.table in {first.table for first in firsts}
        assert (snapshot.log, snapshot.start, snapshot.stop) == (LOG, 17, 17)
        assert (snapshot.files, snapshot.lost, tableAt(root).form) == ((), (), self.form)
        assert self.seen(root) == []

    def test_formats(self, table: ArchiveTable) -> None:
        """The format of an archive is recognized, and opening it as another format is refused."""
        assert (
            tableAt(table.directory).form == tableAt(table.directory, self.form).form == self.form
        )
        for other in {"delta", "iceberg"} - {self.form}:
            with pytest.raises(OptionError, match=f"is an archive of the format {self.form}, not"):
                tableAt(table.directory, other)

    def test_comesBack(self, table: ArchiveTable) -> None:
        """A commit is read back with its files, ranges and losses."""
        before = table.require()
        files = [*filed(table.directory, 12, 20, 15, 16), *filed(table.directory, 20, 22)]
        assert table.append(before, files, [(15, 17)], 25)
        snapshot = self.check(table.directory, 3, 9, 10, 11, 15, 16, 22, 23, 24)
        assert snapshot.files == (*before.files, *files)
        assert (snapshot.lost, snapshot.log, snapshot.table) == (((15, 17),), LOG, before.table)
        assert [(file.first, file.last, file.rows) for file in snapshot.files] == [
            (1, 8, 7),
            (12, 19, 6),
            (20, 21, 2),
        ]
        assert [(x.start, x.stop, len(x.files)) for x in snapshot.tiles] == [
            (1, 9, 1),
            (9, 20, 1),
            (20, 22, 1),
            (22, 25, 0),
        ]
        assert snapshot.version == before.version + 1

    def test_lost(self, table: ArchiveTable) -> None:
        """Losses of several versions are joined."""
        assert table.append(table.require(), (), [(9, 12)], 12)
        assert table.require().lost == ((9, 12),)
        assert table.append(table.require(), (), [(12, 13)], 14)
        assert (table.require().lost, table.require().stop) == (((9, 13),), 14)
        assert grow(table, 20, 15, 18, lost=[(18, 19), (15, 16)])
        assert self.check(table.directory, 3, *range(9, 14), 15, 18).lost == (
            (9, 13),
            (15, 16),
            (18, 19),
        )

    def test_stale(self, table: ArchiveTable) -> None:
        """A commit based on an old version is refused. No file is left."""
        base = table.require()
        files = [filed(table.directory, 9, 12) for _ in range(2)]
        assert grow(table, 15)
        assert not table.append(base, files[0], (), 12)
        assert not tableAt(table.directory).append(base, files[1], (), 12)
        assert self.check(table.directory, 3).stop == 15
        assert len(list((table.directory / "data").rglob("*.parquet"))) == 2

    def test_race(self, table: ArchiveTable) -> None:
        """Of many that continue from the same version one succeeds, in each round."""
        for _ in range(3):
            base = table.require()
            stop = base.stop
            racers = [tableAt(table.directory) for _ in range(4)]
            files = [filed(table.directory, stop, stop + 1 + n) for n in range(4)]
            won = together(4, lambda n: racers[n].append(base, files[n], (), stop + 1 + n))  # noqa: B023
            assert len(won) == 1
            assert self.check(table.directory, 3).stop == stop + 1 + won[0]

    def test_emptyRace(self, table: ArchiveTable) -> None:
        """Of many that add versions without a file to the same one, one succeeds in each round."""
        base = table.require()
        won = together(
            4, lambda n: tableAt(table.directory).append(base, (), [(9, 10 + n)], 10 + n)
        )
        assert len(won) == 1
        snapshot = table.require()
        assert (snapshot.stop, snapshot.lost) == (10 + won[0], ((9, 10 + won[0]),))
        assert not table.append(base, (), [(9, 11)], 11)
        assert table.require() == snapshot

    def test_outOfRange(self, table: ArchiveTable) -> None:
        """A file that does not fit between two versions is refused."""
        before = table.require()
        [new] = filed(table.directory, 9, 12)
        for files, stop in (
            ([before.files[0]], 20),
            ([new, new], 20),
            ([new], 11),
            ([replace(new, rows=9)], 20),
        ):
            with pytest.raises(TableError, match="do not fit between"):
                table.append(before, files, (), stop)
        assert self.check(table.directory, 3) == before

    def test_vacuumedBefore(self, table: ArchiveTable) -> None:
        """A file that was deleted before it is committed is refused."""
        before = table.require()
        [new] = filed(table.directory, 9, 12)
        (table.directory / new.path).unlink()
        with pytest.raises(TableError, match="was deleted before the table named it"):
            table.append(before, [new], (), 12)
        assert table.require() == before

    def test_compacted(self, table: ArchiveTable) -> None:
        """Files are replaced by one with the same messages. Nothing else changes."""
        assert table.append(table.require(), (), [(9, 12)], 12)
        assert grow(table, 15)
        assert grow(table, 18)
        before = table.require()
        assert compact(table) == 3
        after = self.check(table.directory, 3, 9, 10, 11)
        [whole] = after.files
        assert (whole.first, whole.last, whole.rows) == (1, 17, 13)
        assert (after.lost, after.stop, after.table) == (before.lost, 18, before.table)
        assert grow(table, 20)
        self.check(table.directory, 3, 9, 10, 11)

    def test_expiredMeanwhile(self, table: ArchiveTable, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of two simultaneous changes of the losses, one fails."""
        assert grow(table, 10, lost=[(4, 6)])
        assert grow(table, 20, lost=[(18, 20)])
        base, other = table.require(), tableAt(table.root)
        opened = [other._open()]
        open_ = other._open
        monkeypatch.setattr(other, "_open", lambda: opened.pop() if opened else open_())
        assert table.append(base, [], [(20, 22)], 22)
        assert not other.expire(base, 10)
        assert table.require().lost == ((4, 6), (18, 22))

    def test_expired(self, table: ArchiveTable) -> None:
        """
        Files with only expired messages are removed, with the losses in their range. Later losses
        stay, and data that a query has not read yet stays.
        """
        assert grow(table, 12, 10, lost=[(10, 11)])
        assert grow(table, 20, 15, lost=[(15, 16)])
        assert expire(table, 1.0, clock=lambda: 1.0) == 0
        base = table.require()
        # The time of a message is its sequence in microseconds.
        assert expire(table, 1.0, clock=lambda: 1.000_012) == 2
        after = self.check(table.directory, 15)
        assert (after.start, after.stop, after.lost) == (12, 20, ((15, 16),))
        assert not table.expire(base, 12)
        assert grow(table, 24, 22, lost=[(22, 23)])
        assert self.check(table.directory, 15, 22).lost == ((15, 16), (22, 23))
        assert compact(table) == 2
        table.vacuum(0, False)
        assert self.check(table.directory, 15, 22).start == 12
        assert expire(table, 1.0, clock=lambda: 9.0) == 1
        assert (table.require().files, table.require().start) == ((), 24)
        assert grow(table, 26)
        self.check(table.directory)

    def test_compactedTwice(self, table: ArchiveTable) -> None:
        """Of many that compact the same files at the same moment one succeeds."""
        for _ in range(3):
            for _ in range(2):
                assert grow(table, table.require().stop + 1)
            together(3, lambda n: bool(compact(tableAt(table.directory))))
            self.check(table.directory, 3)

    def test_compactedInRace(self, table: ArchiveTable) -> None:
        """A compaction and an append do not block each other for good."""
        for _ in range(2):
            assert grow(table, table.require().stop + 1)
            base = table.require()
            stop = base.stop + 3
            files = filed(table.directory, base.stop, stop)
            together(
                2,
                lambda n: bool(
                    compact(tableAt(table.directory)) if n else table.append(base, files, (), stop)  # noqa: B023
                ),
            )
            self.check(table.directory, 3)
        assert grow(table, table.require().stop + 1)
        compact(table)
        assert len(self.check(table.directory, 3).files) == 1

    def test_days(self, tmp_path: Path) -> None:
        """A table may have a file for each day, which compacting preserves."""
        root = tmp_path / "lake"
        table = tableAt(root, self.form)
        table.make()
        table.create(TableSnapshot.first(LOG, 1, "date"))
        for stop in (6, 12):
            base = table.require()
            files = writeFiles(root, dated(base.stop, stop, 3), base.stop, True)
            assert [file.path.split("/")[1][:5] for file in files] == ["date="] * len(files)
            assert table.append(base, files, (), stop)
        before = self.check(root)
        assert [file.first for file in before.files] == [1, 4, 6, 7, 10]
        assert before.partition == "date"
        assert compact(table) == 2
        assert compact(table) == 0
        assert [file.first for file in self.check(root).files] == [1, 4, 7, 10]

    def test_damage(self, table: ArchiveTable) -> None:
        """
        Compacting, even by another program, does not hide rows that differ from the archived ones.
        """
        [file] = filed(table.directory, 9, 12)
        forge(table.directory / file.path, 10)
        base = table.require()
        size = (table.directory / file.path).stat().st_size
        assert table.append(base, [replace(file, bytes=size)], (), 12)
        with pytest.raises(
            ArchiveDamaged, match="damaged: sequences 10 to 10: is not what was archived"
        ):
            compact(table)
        # As another program compacts.
        if self.form == "delta":
            done = deltalake.DeltaTable(str(table.directory)).optimize.compact(target_size=1 << 30)
            assert done["numFilesRemoved"] == 2
        problems = [
            problem
            for tile in table.require().tiles
            for problem in damageOf(table.directory, tile.files)
        ]
        assert [(problem.kind, problem.first, problem.last) for problem in problems] == [
            ("damaged", 10, 10)
        ]

    def test_orphans(self, table: ArchiveTable) -> None:
        """A file that no version names is not read."""
        [orphan] = filed(table.directory, 9, 12)
        assert orphan not in table.require().files
        self.check(table.directory, 3)

    def test_full(self, table: ArchiveTable) -> None:
        """
        Without room a commit is an error with that reason, at any byte. The current version stays,
        and the same process continues when there is room.
        """
        refused = 0
        for limit in self.limits:
            before = table.require()
            stop = before.stop + 3
            files = filed(table.directory, before.stop, stop)
            try:
                with small(limit):
                    assert table.append(before, files, (), stop)
            except TableError as error:
                refused += 1
                assert "File too large" in str(error) or "full" in str(error), error
                assert table.require() == tableAt(table.directory).require() == before
                self.check(table.directory, 3)
                assert table.append(before, files, (), stop)
            assert self.check(table.directory, 3).stop == stop
        assert refused > 0

    @pytest.mark.skipif(sys.platform != "linux", reason="needs SIGXFSZ")
    def test_killed(self, table: ArchiveTable) -> None:
        """A writer that is killed changes nothing, and does not block later writers."""
        killed = 0
        for limit in self.fatal:
            before = table.require()
            command = [sys.executable, "-c", _CHILD, str(table.directory), str(limit)]
            done = subprocess.run(command, capture_output=True, check=False, cwd=os.getcwd())
            assert done.returncode in (0, -signal.SIGXFSZ), done.stderr.decode()
            after = self.check(table.directory, 3)
            if done.returncode:
                killed += 1
                assert after == before
            assert grow(table, after.stop + 1)
            self.check(table.directory, 3)
        assert killed > 0

    def test_vacuum(self, table: ArchiveTable) -> None:
        """A file that no version names is removed when it is old enough; the archive stays."""
        assert grow(table, 12)
        assert compact(table) == 2
        [orphan] = filed(table.directory, 12, 13)
        files = sorted(table.directory.rglob("*.parquet"))
        old = time.time() - 100_000
        for file in files:
            os.utime(file, (old, old))
        [whole] = table.require().files
        assert table.vacuum(0, True).files >= 3
        assert sorted(table.directory.rglob("*.parquet")) == files
        done = table.vacuum(0, False)
        assert (done.files >= 3, done.bytes > 0) == (True, True)
        left = [x for x in table.directory.rglob("*.parquet") if "_delta_log" not in str(x)]
        assert left == [table.directory / whole.path]
        assert not (table.directory / orphan.path).exists()
        assert self.check(table.directory, 3).files == (whole,)
        assert grow(table, 15)
        self.check(table.directory, 3)
        assert table.vacuum(0, False).files == 0 or self.check(table.directory, 3)

    def test_vacuumYoung(self, table: ArchiveTable) -> None:
        """A file that may still be read or named stays."""
        assert grow(table, 12)
        assert compact(table) == 2
        filed(table.directory, 12, 13)
        assert table.vacuum(86400, False).files == 0
        files = [x for x in table.directory.rglob("*.parquet") if "_delta_log" not in str(x)]
        assert len(files) == 4
