"""
The job C{convert}: an archive with manifests of our own, as earlier versions made them, into a
table.

C{_nb/} had one manifest in JSON for each version, which described the whole archive; the one with
the highest number held.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from natsbroker.spark.jobs.archive.archiver import checkLog
from natsbroker.spark.jobs.archive.origins import lostIn
from natsbroker.spark.jobs.common import JobRun, Runner, command, inline
from natsbroker.spark.tables.checking import COLUMNS, ArchiveDamaged, Difference
from natsbroker.spark.tables.filing import writeFiles
from natsbroker.spark.tables.locations import Location, directoryOf
from natsbroker.spark.tables.snapshots import File, Log, TableError, TableSnapshot, Tile
from natsbroker.spark.tables.table import FORMATS, FORMER, ArchiveTable, tableAt

#: How many ranges are added to the table at a time.
_RANGES = 16


@dataclass(frozen=True)
class FormerArchive:
    """
    @ivar digests: the SHA-256 of each file, by its path.
    """

    root: Path
    snapshot: TableSnapshot
    digests: Mapping[str, str]

    @classmethod
    def of(cls, root: Path) -> FormerArchive:
        versions = root / FORMER
        if any(versions.glob("columns-*.ddl")):
            raise TableError(f"{root}: is a table of decode: decode the log or its archive again")
        try:
            found = json.loads(max(versions.glob("*.json")).read_bytes())
            # A range without messages has no path.
            files = [each for each in found["files"] if each["path"]]
            snapshot = TableSnapshot(
                found["version"],
                "",
                Log(**found["log"]),
                found["start"],
                found["stop"],
                tuple(File(x["path"], x["start"], x["stop"] - 1, x["rows"], 0) for x in files),
                tuple((start, stop) for start, stop in found["lost"]),
                found.get("partition", ""),
            )
            return cls(root, snapshot, {each["path"]: each["sha256"] for each in files})
        except OSError as error:
            raise TableError(f"{root}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            text = f"{root}: there is no archive of an earlier version: {error}"
            raise TableError(text) from None

    def copied(self, to: Location, partition: str, tile: Tile) -> list[File]:
        return writeFiles(to, self._rows(tile.files), tile.start, bool(partition))

    def _rows(self, files: Sequence[File]) -> Iterator[Any]:
        tables = []
        for each in files:
            try:
                data = (self.root / each.path).read_bytes()
                table = pq.read_table(pa.BufferReader(data), columns=list(COLUMNS))
            except (OSError, pa.ArrowException) as error:
                raise self._damage(each, str(error)) from None
            if self.digests[each.path] not in ("", hashlib.sha256(data).hexdigest()):
                raise self._damage(each, "has other bytes than were written")
            if table.num_rows != each.rows:
                raise self._damage(each, f"has {table.num_rows} rows and not {each.rows}")
            tables.append(table.select(COLUMNS))
        if tables:
            yield from pa.concat_tables(tables).sort_by("seq").to_batches()

    def _damage(self, file: File, text: str) -> ArchiveDamaged:
        found = Difference("file", file.first, file.last, f"{file.path}: {text}")
        return ArchiveDamaged(self.root, [found])


def convert(archive: FormerArchive, table: ArchiveTable, run: Runner = inline) -> TableSnapshot:
    """
    Copy an archive into a table; what is there already from the same log stays.

    @return: the version of the table that holds then.
    @raise ArchiveDamaged: if a file is not as it was written.
    """
    former = archive.snapshot
    table.make()
    if table.latest() is None:
        table.create(TableSnapshot.first(former.log, former.start, former.partition))
    while True:
        snapshot = table.require()
        checkLog(table, snapshot, former.log)
        tiles = [each for each in former.tiles if each.stop > snapshot.stop][:_RANGES]
        if not tiles:
            return snapshot
        if any(each.first < snapshot.stop for each in tiles[0].files):
            raise TableError(f"{table.root} stops at {snapshot.stop}, inside a file")
        done = run(partial(archive.copied, table.root, snapshot.partition), tiles)
        files, stop = [file for files in done for file in files], tiles[-1].stop
        table.append(snapshot, files, lostIn(former, snapshot.stop, stop), stop)


@command("convert")
def main(job: JobRun) -> int:
    job.addArchive()
    job.add_argument("--to", required=True, help="the directory of the table")
    job.option("--format", "", "of a new table", choices=FORMATS)
    job.addMaster()
    given = job.given()
    former = FormerArchive.of(directoryOf(given.archive))
    with job.runner(given.master) as run:
        found = convert(former, tableAt(given.to, given.format), run)
    job.summary.update(rows=found.rows, start=found.start, stop=found.stop)
    return 0
