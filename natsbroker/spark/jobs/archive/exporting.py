"""
The job C{export}: an archive as plain Parquet files, for programs that read no tables.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq

from natsbroker.spark.errors import DataLoss, OptionError
from natsbroker.spark.jobs.archive.origins import ArchiveOrigin
from natsbroker.spark.jobs.common import JobRun, command, writeWhole
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.tables.checking import SCHEMA
from natsbroker.spark.tables.locations import directoryOf
from natsbroker.spark.tables.snapshots import storing

_NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")

#: How many sequences a file has at most.
ROWS = 1_000_000


def export(archive: ArchiveOrigin, to: Path, rows: int = ROWS) -> dict[str, int]:
    """
    Write what files in a directory have not yet.

    @param rows: how many sequences a file has at most.
    @return: how many rows and files were written, and where the files stop.
    """
    with storing(to):
        to.mkdir(parents=True, exist_ok=True)
        names = [found for each in to.iterdir() if (found := _NAME.fullmatch(each.name))]
    snapshot = archive.snapshot
    start = max((int(each[2]) for each in names), default=snapshot.start)
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
def main(job: JobRun) -> int:
    job.addArchive()
    job.add_argument("--to", required=True, help="the directory of the files")
    job.option("--rows-per-file", ROWS, "sequences at most")
    given = job.given()
    if given.rows_per_file < 1:
        job.error("--rows-per-file is 1 or more")
    archive = ArchiveOrigin.of(given.archive)
    job.summary.update(export(archive, directoryOf(given.to), given.rows_per_file))
    return 0
