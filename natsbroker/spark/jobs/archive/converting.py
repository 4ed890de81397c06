"""
Archives in other forms: C{convert} makes a table of an earlier version's archive, with manifests of
its own, and C{export} plain Parquet files. C{_nb/} had one JSON manifest of the whole archive for
each version; the highest number held.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from natsbroker.spark.errors import DataLoss, OptionError
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin, FilePlan, LogFollower
from natsbroker.spark.jobs.common import JobRun, command, runnerOf, sessionFor, writeWhole
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.tables.locations import directoryOf
from natsbroker.spark.tables.parquet import COLUMNS, SCHEMA, ArchiveDamaged, Difference
from natsbroker.spark.tables.snapshots import File, Log, TableError, TableSnapshot, storing
from natsbroker.spark.tables.table import FORMATS, FORMER, tableAt

_NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")

#: The most sequences of a file, and the files that are added to a table at a time.
ROWS, _FILES = 1_000_000, 16


@dataclass(frozen=True)
class FormerArchive(ArchiveOrigin):
    """An earlier version's archive. C{digests} are the SHA-256 of files, by path."""

    root: Path
    digests: Mapping[str, str]

    @classmethod
    def of(cls, root: str) -> FormerArchive:
        place = directoryOf(root)
        versions = place / FORMER
        if any(versions.glob("columns-*.ddl")):
            raise TableError(f"{place} is a table of the job decode: run decode again instead")
        try:
            version = json.loads(max(versions.glob("*.json")).read_bytes())
            # A range without messages has no path.
            files = [file for file in version["files"] if file["path"]]
            snapshot = TableSnapshot(
                version["version"],
                "",
                Log(**version["log"]),
                version["start"],
                version["stop"],
                tuple(File(x["path"], x["start"], x["stop"] - 1, x["rows"], 0) for x in files),
                tuple((start, stop) for start, stop in version["lost"]),
                version.get("partition", ""),
            )
            return cls(place, snapshot, {file["path"]: file["sha256"] for file in files})
        except OSError as error:
            raise TableError(f"{place}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            text = f"{place}: there is no archive of an earlier version: {error}"
            raise TableError(text) from None

    def now(self) -> FormerArchive:
        return self

    def read(self, files: Sequence[File]) -> Iterator[Any]:
        tables = []
        for file in files:
            try:
                data = (self.root / file.path).read_bytes()
                table = pq.read_table(pa.BufferReader(data), columns=list(COLUMNS))
            except (OSError, pa.ArrowException) as error:
                raise self._damage(file, str(error)) from None
            if self.digests[file.path] not in ("", hashlib.sha256(data).hexdigest()):
                raise self._damage(file, "has other bytes than were written")
            if table.num_rows != file.rows:
                raise self._damage(file, f"has {table.num_rows} rows and not {file.rows}")
            tables.append(table.select(COLUMNS))
        if tables:
            yield from pa.concat_tables(tables).sort_by("seq").to_batches()

    def _damage(self, file: File, text: str) -> ArchiveDamaged:
        difference = Difference("file", file.first, file.last, f"{file.path}: {text}")
        return ArchiveDamaged(self.root, [difference])


@command("convert")
def convertMain(job: JobRun) -> int:
    job.addArchive()
    job.add_argument("--to", required=True, help="the directory of the table")
    job.option("--format", "", "of a new table", choices=FORMATS)
    job.addMaster()
    given = job.given()
    former = FormerArchive.of(given.archive)
    table = tableAt(given.to, given.format)
    plan = FilePlan(ROWS, _FILES, former.snapshot.partition)
    with sessionFor(given.master) as spark:
        LogFollower(former, {"": table}, runnerOf(spark), plan).follow()
    snapshot = table.require()
    job.summary.update(rows=snapshot.rows, start=snapshot.start, stop=snapshot.stop)
    return 0


def export(archive: ArchiveOrigin, to: Path, rows: int = ROWS) -> dict[str, int]:
    """
    Write files of at most C{rows} sequences. Return the rows, the files, and the place where they
    stop.
    """
    with storing(to):
        to.mkdir(parents=True, exist_ok=True)
        names = [match for entry in to.iterdir() if (match := _NAME.fullmatch(entry.name))]
    snapshot = archive.snapshot
    start = max((int(former[2]) for former in names), default=snapshot.start)
    if start < snapshot.start:
        raise DataLoss(f"{to} stops at {start}, and the archive begins at {snapshot.start}")
    if start > snapshot.stop:
        raise OptionError(f"{to} has sequences to {start - 1}, the archive to {snapshot.stop - 1}")
    summary = {"rows": 0, "files": 0, "stop": start}
    while start < snapshot.stop:
        stop = min(start + rows, snapshot.stop)
        bounds = SequenceRange(snapshot.log.name, snapshot.log.identity, start, stop)

        def write(draft: Path, bounds: SequenceRange = bounds) -> None:
            with pq.ParquetWriter(draft, SCHEMA, compression="zstd") as writer:
                for batch in archive.batches(bounds):
                    writer.write_batch(batch)
                    summary["rows"] += batch.num_rows

        writeWhole(to / f"{start:020}-{stop:020}.parquet", write)
        summary["files"] += 1
        start = summary["stop"] = stop
    return summary


@command("export")
def exportMain(job: JobRun) -> int:
    job.addArchive()
    job.add_argument("--to", required=True, help="the directory of the files")
    job.option("--rows-per-file", ROWS, "sequences at most")
    given = job.given()
    if given.rows_per_file < 1:
        job.error("--rows-per-file is 1 or more")
    archive = ArchiveOrigin.of(given.archive)
    job.summary.update(export(archive, directoryOf(given.to), given.rows_per_file))
    return 0
