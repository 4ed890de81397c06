"""
The work of a program with a session of Spark Connect: C{python -m tests.spark.connectclient URL
SERVERS BROKER DIRECTORY}. It prints one line of JSON with its findings. If the last three arguments
are two tables, it prints their contents.

A process has sessions of its own Spark or of Spark Connect, so this is one of its own.
"""

from __future__ import annotations

import gc
import io
import json
import sys
from pathlib import Path
from typing import Any

from natsbroker.spark import cli, session
from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.archive.job import archive
from natsbroker.spark.jobs.archive.tiering import tiered
from natsbroker.spark.jobs.archive.verify import verified

__all__ = ["main"]

_SMALL = ("--rows-per-file", "7")

#: What the line of a job says that is the same each time.
_SAID = (
    *("result", "error", "rows", "files", "findings", "replaced", "answer", "stop", "tables"),
    *("events", "msgs_in", "no_interest_msgs", "would", "tasks", "duplicates", "resumed"),
)


def reading(spark: Any, **options: str) -> Any:
    """A batch."""
    return spark.read.format("natsbroker").options(**options).load()


def copied(spark: Any, servers: str, directory: Path) -> int:
    """Copy IN to OUT by a streaming query, which is ended and continued once."""
    for _ in range(2):
        query = (
            spark.readStream.format("natsbroker")
            .options(servers=servers, stream="IN", startingOffsets="earliest")
            .options(maxOffsetsPerTrigger="40")
            .load()
            .selectExpr("data", "concat('IN:', seq) AS msg_id")
            .writeStream.format("natsbroker")
            .options(servers=servers, stream="OUT", subject="OUT.x")
            .option("checkpointLocation", str(directory / "copy"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    return int(reading(spark, servers=servers, stream="OUT").count())


def commanded(job: str, url: str, *arguments: str) -> dict[str, Any]:
    """A job by its command line, with the tasks at the server."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main((job, "--master", url, *arguments), out, err)
    # PySpark 4.0 closes what all sessions of a process share when it forgets one of them: not in
    # the middle of another one's request.
    gc.collect()
    lines = out.getvalue().splitlines()
    said: dict[str, Any] = json.loads(lines[-1]) if lines else {"error": err.getvalue()}
    return {"code": code, **{name: said[name] for name in _SAID if name in said}}


def commands(url: str, servers: str, broker: str, directory: Path) -> dict[str, Any]:
    """Every job that works in Spark, by its command line."""
    table, old = str(directory / "again"), str(directory / "old")
    events = ("--servers", broker, "--channel", "events")
    known = ("--servers", broker, "--archive", table)
    to = ("--to-servers", servers, "--to-stream", "COPIES", "--map", "c=COPIES.c")
    log = ("--servers", broker, "--channel", "c", *to)
    values = ("--channel", "values", "--schema", 'values=json:"id BIGINT"')
    sql = "SELECT id + 1 AS seq, 'c' AS subject, string(id) AS data FROM range(9)"
    by = ("--order", "subject", "--job", "by-subject")
    return {
        job: commanded(job.partition(" ")[0], url, *arguments)
        for job, arguments in {
            "archive": ("--servers", broker, "--channel", "c", "--to", table, *_SMALL),
            "verify": known,
            "compact": ("--archive", table),
            "tiered": (*known, "--sql", "SELECT count(*) AS n FROM log"),
            "convert": ("--archive", old, "--to", str(directory / "new")),
            "decode": ("--servers", broker, *values, "--to", str(directory / "tables")),
            "traffic": (*events, "--final", "--to", str(directory / "rows")),
            "interest": events,
            "replay --dry-run": (*log, "--dry-run"),
            "replay": log,
            "replay again": log,
            "replay --order": (*log, *by, "--where", "seq % 2 = 0"),
            "replay --archive": ("--archive", table, *to, "--job", "archived"),
            "replay --sql": ("--sql", sql, "--origin", "numbers", *to),
        }.items()
    }


def told(spark: Any, servers: str) -> list[str]:
    """The errors of a query and of a job about a stream that does not exist."""
    errors = []
    try:
        reading(spark, servers=servers, stream="NOWHERE").count()
    except Exception as error:
        errors.append(str(error))
    try:
        archive(spark, {"servers": servers, "stream": "NOWHERE"}, "unused")
    except DataSourceError as error:
        errors.append(str(error))
    return errors


def main(url: str, servers: str, broker: str, place: str) -> dict[str, Any]:
    """Everything, with one session."""
    results: dict[str, Any] = {}
    directory = Path(place)
    spark = session(url, {"spark.ui.enabled": "false"})
    assert session(url) is spark
    said = io.StringIO()
    results["doctor"] = cli.main(["doctor", "--master", url], said, io.StringIO())
    assert "natsbroker" in said.getvalue()
    results["pushdown"] = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    stream = reading(spark, servers=servers, stream="IN", pushdown="true", includeHeaders="true")
    results["few"] = [row.seq for row in stream.where("seq > 97").orderBy("seq").collect()]
    results["channel"] = reading(spark, servers=broker, channel="c").count()
    rows = spark.range(50).selectExpr("concat('row ', id) AS data")
    target = {"servers": servers, "stream": "NEW", "subject": "NEW.x"}
    rows.write.format("natsbroker").mode("append").options(**target).save()
    results["written"] = reading(spark, servers=servers, stream="NEW").count()
    rows.write.format("natsbroker").mode("append").options(servers=broker, channel="w").save()
    results["writtenToChannel"] = reading(spark, servers=broker, channel="w").count()
    results["copied"] = copied(spark, servers, directory)
    source = {"servers": broker, "channel": "c"}
    root = str(directory / "archive")
    results["archived"] = archive(spark, source, root)["rows"]
    results["verified"] = verified(spark, {"servers": broker}, root)["rows"]
    results["tiered"] = tiered(spark, root, {"servers": broker}).count()
    results["told"] = told(spark, servers)
    results["jobs"] = commands(url, servers, broker, directory)
    return results


def tables(url: str, *names: str) -> dict[str, list[list[Any]]]:
    """Tables of the server, without what differs each time."""
    spark = session(url)
    return {
        name: sorted(list(row) for row in spark.table(name).drop("seq", "time").collect())
        for name in names
    }


if __name__ == "__main__":
    url, *others = sys.argv[1:]
    print(json.dumps(main(url, *others) if len(others) == 3 else tables(url, *others)))
