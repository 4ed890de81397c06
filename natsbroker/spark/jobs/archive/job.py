"""The job C{archive}: one log into a table, once or again and again."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from itertools import compress
from operator import not_
from typing import Any

from natsbroker.spark.errors import ApiError, ConnectionFailed, CredentialsRefused, TimedOut
from natsbroker.spark.jobs.archive.archiver import Archiver, FilePlan, LogFollower
from natsbroker.spark.jobs.archive.tidying import Housekeeper, addRetention, checkRetention
from natsbroker.spark.jobs.common import (
    FOUND,
    JobRun,
    Stop,
    command,
    runnerOf,
    sessionFor,
    sourceOptions,
    stopping,
)
from natsbroker.spark.metrics import jobMetrics
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.table import FORMATS, tableAt

#: The answers of servers that start or stop: nobody responds, and the numbers of a JetStream and a
#: store that are not there now.
_PASSING = (503, 10008, 20006)

#: Between two tries to reach a server, in seconds.
_PAUSE = 1.0

#: The length of a hold: in rounds of C{--every}, and the least seconds.
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
    Archive a log as far as it goes now.

    @param spark: a session whose workers copy; C{None} to do it here.
    @param options: of the data source: C{servers}, and C{stream} or C{channel}.
    @param to: the directory of the archive.
    @param hold: for how many seconds the broker keeps what follows; 0 for not at all.
    @param form: the format of an archive that is begun: one of L{FORMATS}.
    @param catalog: of an Iceberg table that is begun; empty for one of its own.
    @return: the job's line of JSON.
    """
    table = tableAt(to, form, catalog)
    archiver = Archiver(readOptions(options), table, runnerOf(spark), plan)
    archiver.once(hold)
    return archiver.summary()


@command("archive")
def main(job: JobRun) -> int:
    given = _read(job)
    options = sourceOptions(given)
    plan = FilePlan(given.rows_per_file, given.files_per_version, given.partition_by)
    after = given.compact_after if given.every else 0
    hold = 0
    if given.hold or given.hold_for:
        hold = max(int(given.hold_for or max(given.every * _ROUNDS, _LEAST_HOLD)), 1)
    with stopping(job) as stop, sessionFor(given.master) as spark:
        # Two of the same: archiver and housekeeper work at the same time.
        table, tidied = (tableAt(given.to, given.format, given.catalog) for _ in range(2))
        run = runnerOf(spark)
        archiver = Archiver(options, table, run, plan)
        keep, checkpoints = given.keep, given.needed_by
        housekeeper = Housekeeper(tidied, options, run, job.say, after, keep, checkpoints)
        try:
            follow(job, given, archiver, lambda: housekeeper.look(archiver.once(hold)), stop)
        finally:
            housekeeper.finish()
            job.summary.update(archiver.summary())
            if given.every:
                job.summary.update(compacted=housekeeper.compacted, expired=housekeeper.expired)
    return FOUND if archiver.lost or housekeeper.failures else 0


def follow(
    job: JobRun,
    given: argparse.Namespace,
    follower: LogFollower,
    once: Callable[[], object],
    stop: Stop,
) -> None:
    """
    Do one round; with C{--every}, rounds until a signal comes. With C{--every}, temporary errors
    end it only before the first round, after C{reconnectTimeout}.
    """
    name = given.stream or given.channel or getattr(given, "archive", "")
    lost = 0
    deadline = time.monotonic() + given.patience
    with jobMetrics(given.metrics, job.name, name, job.stderr) as tell:

        def onProgress(done: int, end: int) -> None:
            job.progress(done, end)
            tell(rows=follower.rows, bytes=follower.bytes, lag=end - done)

        follower.onProgress, follower.isOver = onProgress, stop.isSet
        while True:
            try:
                once()
            except (ConnectionFailed, TimedOut, ApiError) as error:
                isPatient = given.every and follower.hasBegun()
                isOver = not isPatient and (
                    isinstance(error, CredentialsRefused)
                    or time.monotonic() > deadline
                    or stop.isSet()
                )
                if isOver or (isinstance(error, ApiError) and error.code not in _PASSING):
                    raise
                lost += 1
                tell(reconnects=lost)
                job.say(f"{error}; trying again")
                if not isPatient:
                    stop.wait(_PAUSE)
                    continue
            if not given.every or stop.wait(given.every):
                return


def _read(job: JobRun) -> argparse.Namespace:
    job.addSource()
    job.addMaster()
    job.add_argument("--to", required=True, help="the directory or URL of the archive")
    job.option("--format", "", "the format of a new archive", choices=FORMATS)
    text = "the catalog of a new Iceberg table (default: one of its own)"
    job.option("--catalog", "", text, metavar="CATALOG:NAMESPACE.TABLE")
    job.option(
        "--partition-by", "", "partitions of a new archive: one for each day", choices=("date",)
    )
    job.option("--hold", False, "tell the broker to keep messages that are not archived yet")
    job.duration("--hold-for", 0.0, "how long the hold lasts without renewal")
    text = "with --every: tidy the archive after that many versions; 0 for never"
    job.option("--compact-after", 100, text, type=lambda text: _count(text, 0), metavar="N")
    addRetention(job)
    given = readPace(job)
    checkRetention(job, given)
    if given.keep and not given.every:
        job.error("--keep needs --every; vacuum --keep removes old versions once")
    return given


def readPace(job: JobRun) -> argparse.Namespace:
    job.duration("--every", 0.0, "archive again and again, at this interval")
    job.option("--once", False, "end when everything is archived (default)")
    job.option("--metrics", "", "serve metrics for Prometheus on this port", metavar="[HOST:]PORT")
    job.option("--rows-per-file", 1_000_000, type=_count)
    job.option("--files-per-version", 4, type=_count)
    given = job.given()
    if given.once and given.every:
        job.error("--once and --every exclude each other")
    isWait = [name.lower() == "reconnecttimeout" for name, _ in given.option]
    wait = dict(compress(given.option, isWait))
    given.patience = readOptions({"servers": "", **wait}, "readStream")["reconnectTimeout"]
    given.option = list(compress(given.option, map(not_, isWait)))
    return given


def _count(text: str, least: int = 1) -> int:
    number = int(text)
    if number < least:
        raise ValueError
    return number
