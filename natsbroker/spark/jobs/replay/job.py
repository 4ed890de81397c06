"""
The job C{replay}: from an archive, a log, Parquet files or SQL into a JetStream stream.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any

from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.common import (
    FOUND,
    JobRun,
    command,
    inPartitions,
    masterOr,
    sessionFor,
    targetTexts,
    workersErrors,
)
from natsbroker.spark.jobs.replay.replayer import Renamer, Replayer, ReplayTask, TaskResult, startOf
from natsbroker.spark.jobs.replay.sources import Source, rowsIn, shaped, sourceOf
from natsbroker.spark.jobs.signals import stopping
from natsbroker.spark.logs.streams import StreamApi
from natsbroker.spark.settings import readOptions
from natsbroker.subjects.grammar import isValidLiteral, matches

#: How many subjects are shown as examples.
_EXAMPLES = 5

#: In which order, and what rows are divided among tasks by.
ORDERS = {"stream": "", "subject": "subject", "none": "seq"}

_JOB = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class ReplayOptions:
    """
    @ivar where: a condition in SQL; empty for all rows.
    @ivar maps: what becomes of subjects, as C{orders.>=replay.orders.>}.
    @ivar order: C{stream}: as the sequences; C{subject}: within each subject; C{none}.
    @ivar rate: messages a second at most, of all tasks; 0 for any number.
    @ivar hasLedger: whether tasks note what they have done.
    @ivar job: what the ledger knows the job by; by default a name made of all that is wanted.
    """

    where: str = ""
    maps: tuple[str, ...] = ()
    order: str = "stream"
    tasks: int = 4
    rate: float = 0.0
    speed: float = 0.0
    window: int = 1000
    hasLedger: bool = True
    job: str = ""

    def task(self, source: Source, stream: str, isOne: bool, patience: float) -> ReplayTask:
        if self.order not in ORDERS:
            raise OptionError(f"order: {', '.join(ORDERS)} expected, not {self.order!r}")
        if self.speed and self.order != "stream":
            raise OptionError("speed: gaps are those of a stream; it goes with order stream alone")
        if self.job and _JOB.fullmatch(self.job) is None:
            raise OptionError(f"job: letters, digits, - and _ expected, not {self.job!r}")
        if min(self.rate, self.speed) < 0 or not 1 <= self.window <= 100_000 or self.tasks < 1:
            raise OptionError("rate and speed are 0 or more, tasks from 1, window 1 to 100000")
        count = 1 if isOne or self.order == "stream" else self.tasks
        wanted = [source.origin, source.identity, self.where, self.maps, stream, count]
        wanted += [self.order] if count > 1 else []
        plan = hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:16]
        same = {each: getattr(self, each) for each in ("maps", "speed", "window", "hasLedger")}
        name, rate = self.job or f"replay-{plan}", self.rate / count
        return ReplayTask(name, plan, source.origin, stream, rate=rate, patience=patience, **same)


def replay(
    spark: Any,
    source: Source,
    target: Mapping[str, str],
    wanted: ReplayOptions | None = None,
    isDryRun: bool = False,
    isOver: Callable[[], bool] = lambda: False,
    onProgress: Callable[[int, int], object] = lambda row, stop: None,
) -> dict[str, Any]:
    """
    Replay a source.

    @param spark: a session whose workers publish; C{None} to do it here, in one task.
    @param target: options of the data source: C{servers} and C{stream}, and what logs in.
    @param isDryRun: whether to publish nothing, and say what would be.
    @return: what the job's line of JSON says.
    """
    wanted = wanted or ReplayOptions()
    options = readOptions(target)
    if len(options["stream"]) != 1 or options["channel"]:
        raise OptionError("name the one stream to publish to")
    task = wanted.task(source, options["stream"][0], spark is None, options["requestTimeout"])
    summary: dict[str, Any] = {"name": task.job, "stop": source.stop or None}
    if spark is not None:
        with workersErrors():
            return summary | _inSpark(spark, source, options, task, wanted, isDryRun)
    if isDryRun:
        rows = source.rows(0, wanted.where)
        return summary | dryRun(options, task, ((row[1], 1, row[0], row[0]) for row in rows))
    with connected(options) as connection:
        replayer = Replayer(connection, options["domain"], task)
        rows = source.rows(replayer.next, wanted.where)
        done = replayer.take(rows, isOver, lambda row: onProgress(row, source.stop))
    return summary | _summed([done]) | {"stopped": isOver()}


def _inSpark(
    spark: Any,
    source: Source,
    options: dict[str, Any],
    task: ReplayTask,
    wanted: ReplayOptions,
    isDryRun: bool,
) -> dict[str, Any]:
    from pyspark.sql.functions import expr

    key = ORDERS[wanted.order]
    count = wanted.tasks if key else 1
    start = 0
    if not isDryRun:
        with connected(options) as connection:
            start = startOf(connection, options["domain"], task, count)
    frame = shaped(source.frame(spark, start), source.origin, start, wanted.where)
    if isDryRun:
        sums = frame.groupBy("subject").agg(*map(expr, ("count(*)", "min(seq)", "max(seq)")))
        return dryRun(options, task, sums.toLocalIterator())

    def publish(number: int, rows: Iterable[Any]) -> TaskResult:
        with connected(options, number) as connection:
            mine = replace(task, partition=number)
            return Replayer(connection, options["domain"], mine).take(rows)

    divided = frame.repartition(count, *([key] if key else [])).sortWithinPartitions("seq")
    return _summed(inPartitions(spark, divided, rowsIn, publish), start or 1)


def dryRun(
    options: dict[str, Any], task: ReplayTask, counts: Iterable[Sequence[Any]]
) -> dict[str, Any]:
    """
    What a replay would publish.

    @param counts: subjects, each with the number of its rows, and the first and the last sequence;
        one may come several times.
    """
    with connected(options) as connection:
        state = StreamApi(connection, options["domain"]).state(task.stream)
    taken = [each.encode("utf-8") for each in state.subjects]
    rename = Renamer(task.maps)
    would = untaken = first = last = 0
    examples: list[str] = []
    for before, count, least, most in counts:
        would += count
        first = min(first or least, least)
        last = max(last, most)
        subject = rename(before)
        literal = subject.encode("utf-8")
        if not isValidLiteral(literal) or not any(matches(each, literal) for each in taken):
            untaken += count
            if subject not in examples and len(examples) < _EXAMPLES:
                examples.append(subject)
    found = {"rows": 0, "would": would, "first": first, "last": last}
    return {**found, "untaken": untaken, "examples": examples}


def _summed(done: Sequence[TaskResult], start: int = 1) -> dict[str, Any]:
    """
    @param start: where it begins if no task has rows.
    """
    names = ("rows", "duplicates", "found")
    return {
        **{name: sum(getattr(each, name) for each in done) for name in names},
        "tasks": len(done),
        "resumed": min((each.start for each in done), default=start),
    }


@command("replay")
def main(job: JobRun) -> int:
    given = _read(job)
    target = targetTexts(given)
    named = {each.name: getattr(given, each.name) for each in fields(ReplayOptions)}
    wanted = ReplayOptions(**{**named, "maps": tuple(given.maps)})
    with ExitStack() as stack:
        # In Spark the end of the driver ends the tasks; the ledger knows how far they were.
        master = given.master if given.sql else masterOr(given.master)
        isInline = master == "inline"
        isOver = stack.enter_context(stopping()).isSet if isInline else lambda: False
        spark = stack.enter_context(sessionFor(master))

        def onProgress(row: int, stop: int) -> None:
            if stop:
                job.progress(row, stop - 1)

        source = sourceOf(given)
        found = replay(spark, source, target, wanted, given.dry_run, isOver, onProgress)
    job.summary.update(found)
    return FOUND if found.get("untaken") else 0


def _speed(text: str) -> float:
    return float(text.removesuffix("x"))


def _read(job: JobRun) -> argparse.Namespace:
    source = job.add_mutually_exclusive_group(required=True)
    source.add_argument("--archive", help="from an archive: its directory")
    source.add_argument("--stream", help="from a JetStream stream of --servers")
    source.add_argument("--channel", help="from a channel of our broker, at --servers")
    source.add_argument("--parquet", help="from Parquet files with seq, subject and data")
    source.add_argument("--sql", help="from what a query finds, with the same columns")
    job.addServers(isRequired=False)
    job.option("--origin", "", "what Parquet files or SQL are called")
    job.addTarget()
    job.option("--where", "", "a condition in SQL: these rows only")
    job.option("--map", [], "subjects", metavar="OLD=NEW", dest="maps")
    job.option("--order", "stream", choices=tuple(ORDERS))
    job.option("--tasks", 4, "for --order subject and none")
    job.option("--speed", 0.0, "10x: with the gaps, but faster", type=_speed)
    job.option("--job", "", "what the ledger knows this job by")
    text = "trust the duplicate window"
    job.add_argument("--no-ledger", dest="hasLedger", action="store_false", help=text)
    job.option("--dry-run", False, "publish nothing")
    job.addMaster()
    return job.given()
