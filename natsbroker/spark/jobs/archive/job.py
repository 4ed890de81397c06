"""
The job C{archive}: one log into a table, once or again and again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from natsbroker.spark.errors import ApiError, ConnectionFailed, DataSourceError, TimedOut
from natsbroker.spark.jobs.archive.archiver import Archiver, FilePlan
from natsbroker.spark.jobs.archive.tidying import ArchiveRetention, Housekeeper, addRetention
from natsbroker.spark.jobs.common import (
    FOUND,
    JobRun,
    Progress,
    addSource,
    command,
    runnerFor,
    runnerOf,
    secondsOf,
    sourceOptions,
)
from natsbroker.spark.jobs.signals import Stop, stopping
from natsbroker.spark.metrics import jobMetrics
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.table import FORMATS, tableAt

#: What servers say while they start or stop: nobody responds, and the numbers of a JetStream and a
#: store that are not there now.
_PASSING = (503, 10008, 20006)

#: How long a hold lasts: in rounds of C{--every}, and the least seconds.
_ROUNDS = 10
_LEAST_HOLD = 3600


def archive(
    spark: Any,
    options: Mapping[str, str],
    to: str,
    hold: int = 0,
    plan: FilePlan | None = None,
    form: str = "",
    catalog: str = "",
) -> dict[str, Any]:
    """
    Archive what a log has now.

    @param spark: a session whose workers copy; C{None} to do it here.
    @param options: of the data source: C{servers}, and C{stream} or C{channel}.
    @param to: the directory of the archive.
    @param hold: for how many seconds the broker keeps what comes behind it; 0 for not at all.
    @param form: the format of an archive that is begun: one of L{FORMATS}.
    @param catalog: of an Iceberg table that is begun; empty for one of its own.
    @return: what the job's line of JSON says.
    """
    run = runnerOf(spark)
    archiver = Archiver(readOptions(options), tableAt(to, form, catalog), run, plan)
    archiver.once(hold)
    return archiver.summary()


@command("archive")
def main(job: JobRun) -> int:
    given = _read(job)
    options = sourceOptions(given)
    table = tableAt(given.to, given.format, given.catalog)
    plan = FilePlan(given.rows_per_file, given.files_per_version, given.partition_by)
    progress = Progress("archive", job.stderr)
    with (
        jobMetrics(given.metrics, "archive", given.stream or given.channel, job.stderr) as metrics,
        stopping() as isOver,
        runnerFor(given.master) as run,
    ):
        housekeeper = Housekeeper(
            tableAt(given.to, given.format, given.catalog),
            options,
            run,
            given.compact_after if given.every else 0,
            ArchiveRetention.of(given),
            lambda text: print(f"natsbroker spark archive: tidying: {text}", file=job.stderr),
        )

        def onProgress(done: int, end: int) -> None:
            progress(done, end)
            metrics(archiver.rows, archiver.bytes, end - done)

        archiver = Archiver(options, table, run, plan, onProgress, isOver.isSet)
        try:
            rounds(
                "archive",
                lambda: housekeeper.look(archiver.once(_hold(given))),
                lambda: table.latest(hasFiles=False) is not None,
                given.every,
                isOver,
                job.stderr,
                metrics.lost,
            )
        finally:
            housekeeper.finish()
            progress.end()
            job.summary.update(archiver.summary())
            if given.every:
                job.summary.update(compacted=housekeeper.compacted, expired=housekeeper.expired)
    return FOUND if archiver.lost or housekeeper.failures else 0


def rounds(
    job: str,
    once: Callable[[], object],
    hasBegun: Callable[[], bool],
    every: float,
    isOver: Stop,
    stderr: TextIO,
    onLost: Callable[[], object] = lambda: None,
) -> None:
    """
    Do a job once, or again and again.

    @param hasBegun: whether it has ever done something, and an error that may pass does not end it.
    @param every: how many seconds are between two rounds; 0 for one round.
    @param onLost: called after an error that may pass.
    """
    while True:
        try:
            once()
        except (ConnectionFailed, TimedOut, ApiError) as error:
            if not every or not _isPassing(error) or not hasBegun():
                raise
            onLost()
            print(f"natsbroker spark {job}: {error}; trying again", file=stderr, flush=True)
        if not every or isOver.wait(every):
            return


def _isPassing(error: DataSourceError) -> bool:
    return not isinstance(error, ApiError) or error.code in _PASSING


def _read(job: JobRun) -> argparse.Namespace:
    addSource(job)
    job.add_argument("--to", required=True, help="the directory or URL of the archive")
    job.add_argument("--format", default="", choices=FORMATS, help="of a new archive")
    job.add_argument(
        "--catalog",
        default="",
        metavar="CATALOG:NAMESPACE.TABLE",
        help="of a new Iceberg table; one of its own without",
    )
    job.add_argument(
        "--partition-by", default="", choices=("date",), help="of a new archive: files of one day"
    )
    addPace(job)
    job.add_argument(
        "--hold", action="store_true", help="have the broker keep what is not archived yet"
    )
    job.add_argument("--hold-for", type=secondsOf, default=0.0, help="how long without renewal")
    job.add_argument(
        "--compact-after",
        type=lambda text: _count(text, 0),
        default=100,
        metavar="N",
        help="with --every: tidy the archive after that many versions; 0 for never",
    )
    addRetention(job)
    given = job.given()
    if given.once and given.every:
        job.error("--once and --every exclude each other")
    if given.keep and not given.every:
        job.error("--keep goes with --every; vacuum --keep gives up what is old once")
    if given.needed_by and not given.keep:
        job.error("--needed-by goes with --keep")
    return given


def addPace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", type=secondsOf, default=0.0, help="go on, this often")
    parser.add_argument("--once", action="store_true", help="end when all is done, as without")
    parser.add_argument(
        "--metrics", default="", metavar="[HOST:]PORT", help="serve numbers for Prometheus there"
    )
    parser.add_argument("--rows-per-file", type=_count, default=1_000_000)
    parser.add_argument("--files-per-version", type=_count, default=4)


def _hold(given: argparse.Namespace) -> int:
    if not given.hold and not given.hold_for:
        return 0
    return int(given.hold_for or max(given.every * _ROUNDS, _LEAST_HOLD)) or 1


def _count(text: str, least: int = 1) -> int:
    number = int(text)
    if number < least:
        raise ValueError
    return number
