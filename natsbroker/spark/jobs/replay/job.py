"""The job C{replay}: from an archive, a log, Parquet files or SQL into a JetStream stream."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from typing import Any

from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.common import (
    FOUND,
    JobRun,
    command,
    inPartitions,
    sessionFor,
    stopping,
    targetTexts,
    workersErrors,
)
from natsbroker.spark.jobs.replay.replayer import (
    ORDERS,
    Replayer,
    ReplayOptions,
    ReplayTask,
    renamer,
    startOf,
)
from natsbroker.spark.jobs.replay.sources import Source, rowsIn, shaped, sourceOf
from natsbroker.spark.logs.apis import StreamApi
from natsbroker.spark.settings import readOptions
from natsbroker.subjects.grammar import isValidLiteral, matches

#: The most subjects that are shown as examples.
_EXAMPLES = 5


def replay(
    spark: Any,
    source: Source,
    target: Mapping[str, str],
    wanted: ReplayOptions | None = None,
    isDryRun: bool = False,
    isOver: Callable[[], bool] = lambda: False,
    onProgress: Callable[[int, int], object] = lambda row, last: None,
) -> dict[str, Any]:
    """
    @param spark: a session whose workers publish; C{None} to do it here, in one task.
    @param target: options of the data source: C{servers} and C{stream}, and the login.
    @param isDryRun: whether to publish nothing, and say what would be.
    @return: the job's line of JSON.
    """
    options = readOptions(target)
    if len(options["stream"]) != 1 or options["channel"]:
        raise OptionError("name the one stream to publish to")
    wanted, stream = wanted or ReplayOptions(), options["stream"][0]
    task = wanted.task(source, stream, spark is None, options["requestTimeout"])
    summary: dict[str, Any] = {"name": task.job, "stop": source.stop or None}
    if spark is not None:
        with workersErrors():
            return summary | _inSpark(spark, source, options, task, isDryRun)
    if isDryRun:
        rows = source.rows(0, task.where)
        return summary | dryRun(options, task, ((row[1], 1) for row in rows))
    with connected(options) as connection:
        replayer = Replayer(connection, options["domain"], task)
        rows = source.rows(replayer.next, task.where)
        done = replayer.take(rows, isOver, lambda row: onProgress(row, source.stop - 1))
    return summary | _summed([done]) | {"stopped": isOver()}


def _inSpark(
    spark: Any, source: Source, options: dict[str, Any], task: ReplayTask, isDryRun: bool
) -> dict[str, Any]:
    key = ORDERS[task.order]
    count = task.tasks if key else 1
    start = 0
    if not isDryRun:
        with connected(options) as connection:
            start = startOf(connection, options["domain"], task, count)
    frame = shaped(source.frame(spark, start), source.origin, start, task.where)
    if isDryRun:
        return dryRun(options, task, frame.groupBy("subject").count().toLocalIterator())

    def publish(number: int, rows: Iterable[Any]) -> dict[str, int]:
        with connected(options, number) as connection:
            mine = replace(task, partition=number)
            return Replayer(connection, options["domain"], mine).take(rows)

    divided = frame.repartition(count, *([key] if key else [])).sortWithinPartitions("seq")
    return _summed(inPartitions(spark, divided, rowsIn, publish), start or 1)


def dryRun(options: dict[str, Any], task: ReplayTask, counts: Iterable[Any]) -> dict[str, Any]:
    """Describe a replay of subjects with their counts; a subject may come several times."""
    with connected(options) as connection:
        state = StreamApi(connection, options["domain"]).state(task.stream)
    taken = [pattern.encode("utf-8") for pattern in state.subjects]
    rename = renamer(task.maps)
    would = untaken = 0
    examples: list[str] = []
    for before, count in counts:
        would += count
        subject = rename(before)
        literal = subject.encode("utf-8")
        if not isValidLiteral(literal) or not any(matches(pattern, literal) for pattern in taken):
            untaken += count
            if subject not in examples and len(examples) < _EXAMPLES:
                examples.append(subject)
    return {"rows": 0, "would": would, "untaken": untaken, "examples": examples}


def _summed(done: Sequence[dict[str, int]], start: int = 1) -> dict[str, Any]:
    """The result of all tasks; C{start} is where the replay begins if none has rows."""
    return {
        **{name: sum(result[name] for result in done) for name in ("rows", "duplicates", "found")},
        "tasks": len(done),
        "resumed": min((result["resumed"] for result in done), default=start),
    }


@command("replay")
def main(job: JobRun) -> int:
    given = _read(job)
    target = targetTexts(given)
    named = {field.name: getattr(given, field.name) for field in fields(ReplayOptions)}
    wanted = ReplayOptions(**{**named, "maps": tuple(given.maps)})
    with ExitStack() as stack:
        spark = stack.enter_context(sessionFor(given.master, isNeeded=bool(given.sql)))
        # In Spark the end of the driver ends the tasks; the ledger knows how far they were.
        isOver = stack.enter_context(stopping()).isSet if spark is None else lambda: False
        source = sourceOf(given)
        result = replay(spark, source, target, wanted, given.dry_run, isOver, job.progress)
    job.summary.update(result)
    return FOUND if result.get("untaken") else 0


def _speed(text: str) -> float:
    return float(text.removesuffix("x"))


def _read(job: JobRun) -> argparse.Namespace:
    source = job.add_mutually_exclusive_group(required=True)
    source.add_argument("--archive", help="the directory of an archive to publish from")
    source.add_argument("--stream", help="a JetStream stream of --servers to publish from")
    source.add_argument("--channel", help="a channel of a natsbroker at --servers to publish from")
    source.add_argument(
        "--parquet",
        help="the directory of Parquet files with seq, subject and data to publish from",
    )
    source.add_argument("--sql", help="a query to publish from, whose result has these columns")
    job.addServers(isRequired=False)
    job.option("--origin", "", "a name for the messages of Parquet files or SQL")
    job.addTarget()
    job.option("--where", "", "publish only rows that meet this SQL condition")
    job.option("--map", [], "subjects", metavar="OLD=NEW", dest="maps")
    job.option("--order", "stream", choices=tuple(ORDERS))
    job.option("--tasks", 4, "the number of tasks for --order subject and none")
    job.option("--speed", 0.0, "keep the gaps between messages, but run faster: 10x", type=_speed)
    job.option("--job", "", "the name of this job in the ledger")
    text = "keep no ledger: trust the stream's duplicate window"
    job.add_argument("--no-ledger", dest="hasLedger", action="store_false", help=text)
    job.option("--dry-run", False, "publish nothing")
    job.addMaster()
    return job.given()
