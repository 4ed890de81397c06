"""An archive and the newer messages of its log, as one DataFrame."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from natsbroker.spark.errors import DataLoss, DataSourceError, OptionError
from natsbroker.spark.jobs.archive.verify import checkFiles, following
from natsbroker.spark.jobs.common import (
    JobRun,
    command,
    optionTexts,
    readInTasks,
    runnerOf,
    sessionFor,
    sourceOptions,
)
from natsbroker.spark.logs.columns import ddlOf
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.locations import Location, ObjectPath
from natsbroker.spark.tables.parquet import readFiles
from natsbroker.spark.tables.snapshots import File, TableSnapshot
from natsbroker.spark.tables.table import tableAt

_COLUMNS = ("seq", "subject", "data", "time")

#: The files that this process has checked, by C{_mark}.
_CHECKED: set[tuple[str, int, int]] = set()


def archived(spark: Any, archive: str, columns: Sequence[str] = _COLUMNS) -> Any:
    table = tableAt(archive)
    return frameOf(spark, table.root, table.require(), columns)


def frameOf(spark: Any, root: Location, snapshot: TableSnapshot, columns: Sequence[str]) -> Any:
    """
    The messages of a version. Spark reads the files of a directory itself, so that it can skip most
    of their content. Tasks check them before that, once in a process. Tasks read the files of an
    object store, for which Spark would need jars.

    @raise ArchiveDamaged: if a file is not as it was written.
    """
    schema = ddlOf(columns)
    if not snapshot.files:
        return spark.createDataFrame([], schema)
    if isinstance(root, ObjectPath):
        groups = [tile.files for tile in snapshot.tiles if tile.files]
        return readInTasks(spark, schema, partial(_columnsIn, root, tuple(columns)), groups)
    marks = {file.path: _mark(root / file.path) for file in snapshot.files}
    new = [
        tile.files
        for tile in snapshot.tiles
        if not {marks[file.path] for file in tile.files} <= _CHECKED
    ]
    checkFiles(root, new, runnerOf(spark))
    _CHECKED.update(marks.values())
    return spark.read.schema(schema).parquet(*(mark[0] for mark in marks.values()))


def _columnsIn(root: Location, columns: Sequence[str], files: Sequence[File]) -> Iterator[Any]:
    for batch in readFiles(root, files):
        yield batch.select(columns)


def _mark(path: Path) -> tuple[str, int, int]:
    try:
        status = path.stat()
    except OSError:
        return str(path), -1, -1  # Checking it says what is wrong.
    return str(path), status.st_size, status.st_mtime_ns


def tiered(
    spark: Any, archive: str, options: Mapping[str, str], columns: Sequence[str] = _COLUMNS
) -> Any:
    """
    The messages of an archive, and newer ones of its log.

    @param options: of the data source: C{servers}, and the login; the archive names the log.
    @raise DataLoss: if the log is another one, or begins behind the end of the archive.
    """
    if "startingOffsets" in options or "startingTimestamp" in options:
        raise OptionError("the log is read from where the archive stops")
    table = tableAt(archive)
    # One version from beginning to end: what is archived meanwhile comes from the log.
    snapshot = table.require()
    log = snapshot.log
    values, state = following(table, snapshot, readOptions(options))
    if state.first > snapshot.stop and values["failOnDataLoss"]:
        raise DataLoss(
            f"{log.kind} {log.name}: sequences {snapshot.stop} to {state.first - 1} are neither in"
            " the archive nor stored any more; failOnDataLoss=false continues without them"
        )
    scope = {"clusterId" if log.kind == "channel" else "domain": log.scope}
    given = {**options, log.kind: log.name, "startingOffsets": str(snapshot.stop), **scope}
    live = spark.read.format("natsbroker").options(**given).schema(ddlOf(columns)).load()
    return frameOf(spark, table.root, snapshot, columns).unionByName(live)


@command("tiered")
def main(job: JobRun) -> int:
    job.addServers()
    job.addArchive()
    job.option("--sql", "SELECT count(*) AS rows, max(seq) AS last FROM log", "about log")
    job.option("--master", "", "where Spark runs (default: local[*])")
    given = job.given()
    sourceOptions(given)
    if given.master == "inline":
        job.error("--master: SQL needs Spark")
    with sessionFor(given.master, isNeeded=True) as spark:
        names = (*_COLUMNS, "headers", "time_ns")
        tiered(spark, given.archive, optionTexts(given), names).createOrReplaceTempView("log")
        try:
            answer = spark.sql(given.sql).selectExpr("to_json(struct(*)) AS line")
            rows = [row.line for row in answer.collect()]
        except Exception as error:
            raise DataSourceError(str(error).strip().splitlines()[0]) from None
    for row in rows:
        print(row, file=job.stdout)
    job.summary.update(answer=[json.loads(row) for row in rows[:1]], rows=len(rows))
    return 0
