"""
The job C{convert}: an archive with manifests of our own, as earlier versions made them, into a
table.

C{_nb/} had one manifest in JSON for each version, which described the whole archive; the one with
the highest number held.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from natsbroker.spark.jobs.archive.archiver import CopyResult, checkLog
from natsbroker.spark.jobs.common import Parser, Runner, addMaster, command, inline, runnerFor
from natsbroker.spark.tables.checking import COLUMNS, ArchiveDamaged, Difference
from natsbroker.spark.tables.filing import writeFiles
from natsbroker.spark.tables.locations import Location, directoryOf
from natsbroker.spark.tables.snapshots import Log, Range, TableError, TableSnapshot
from natsbroker.spark.tables.table import FORMATS, FORMER, ArchiveTable, tableAt

#: How many ranges are added to the table at a time.
_RANGES = 16


@dataclass(frozen=True)
class FormerFile:
    """
    @ivar path: empty if the range had no messages.
    """

    path: str
    start: int
    stop: int
    rows: int
    sha256: str


@dataclass(frozen=True)
class FormerArchive:
    """
    @ivar groups: ranges that follow each other, each with the files that have its messages.
    """

    root: Path
    log: Log
    start: int
    stop: int
    groups: tuple[tuple[FormerFile, ...], ...]
    lost: tuple[Range, ...]
    partition: str

    @classmethod
    def of(cls, root: Path) -> FormerArchive:
        versions = root / FORMER
        if any(versions.glob("columns-*.ddl")):
            raise TableError(f"{root}: is a table of decode: decode the log or its archive again")
        try:
            found = json.loads(max(versions.glob("*.json")).read_bytes())
            names = ("path", "start", "stop", "rows", "sha256")
            files = [FormerFile(*(each[name] for name in names)) for each in found["files"]]
            groups = groupby(files, lambda each: (each.start, each.stop))
            return cls(
                root,
                Log(**found["log"]),
                found["start"],
                found["stop"],
                tuple(tuple(each) for _, each in groups),
                tuple((start, stop) for start, stop in found["lost"]),
                found.get("partition", ""),
            )
        except OSError as error:
            raise TableError(f"{root}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise TableError(
                f"{root}: there is no archive of an earlier version: {error}"
            ) from None


def convert(former: FormerArchive, table: ArchiveTable, run: Runner = inline) -> TableSnapshot:
    """
    Copy an archive into a table; what is there already from the same log stays.

    @return: the version of the table that holds then.
    @raise ArchiveDamaged: if a file is not as it was written.
    """
    table.make()
    if table.latest() is None:
        table.create(TableSnapshot.first(former.log, former.start, former.partition))
    while True:
        snapshot = table.require()
        checkLog(table, snapshot, former.log)
        groups = [each for each in former.groups if each[0].start >= snapshot.stop][:_RANGES]
        if not groups:
            return snapshot
        if groups[0][0].start != snapshot.stop:
            raise TableError(f"{table.root} stops at {snapshot.stop}, inside a file")
        done: list[CopyResult] = run(
            partial(_copied, former.root, table.root, snapshot.partition), groups
        )
        stop = groups[-1][-1].stop
        lost = [
            (max(a, snapshot.stop), min(b, stop))
            for a, b in former.lost
            if a < stop and b > snapshot.stop
        ]
        table.append(snapshot, [file for each in done for file in each.files], lost, stop)


def _copied(root: Path, to: Location, partition: str, files: tuple[FormerFile, ...]) -> CopyResult:
    made = writeFiles(to, _rows(root, files), files[0].start, bool(partition))
    return CopyResult(tuple(made), ())


def _rows(root: Path, files: Sequence[FormerFile]) -> Iterator[Any]:
    tables = []
    for each in files:
        if not each.path:
            continue
        try:
            data = (root / each.path).read_bytes()
            table = pq.read_table(pa.BufferReader(data), columns=list(COLUMNS))
        except (OSError, pa.ArrowException) as error:
            raise _damage(root, each, str(error)) from None
        if each.sha256 not in ("", hashlib.sha256(data).hexdigest()):
            raise _damage(root, each, "has other bytes than were written")
        if table.num_rows != each.rows:
            raise _damage(root, each, f"has {table.num_rows} rows and not {each.rows}")
        tables.append(table.select(COLUMNS))
    if tables:
        yield from pa.concat_tables(tables).sort_by("seq").to_batches()


def _damage(root: Path, file: FormerFile, text: str) -> ArchiveDamaged:
    found = Difference("file", file.start, file.stop - 1, f"{file.path}: {text}")
    return ArchiveDamaged(root, [found])


@command("convert")
def main(arguments: Sequence[str], summary: dict[str, Any], stdout: TextIO, stderr: TextIO) -> int:
    parser = Parser("convert", "Copy an archive that an earlier version made into a table.")
    parser.add_argument("--archive", required=True, help="the directory of the archive")
    parser.add_argument("--to", required=True, help="the directory of the table")
    parser.add_argument("--format", default="", choices=FORMATS, help="of a new table")
    addMaster(parser)
    given = parser.parse_args(list(arguments))
    former = FormerArchive.of(directoryOf(given.archive))
    with runnerFor(given.master) as run:
        found = convert(former, tableAt(given.to, given.format), run)
    summary.update(rows=found.rows, start=found.start, stop=found.stop)
    return 0
