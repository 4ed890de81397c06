"""
What a program does with a session of Spark Connect: C{python -m tests.spark.connectclient URL
SERVERS BROKER DIRECTORY}, and says in one line of JSON what it found.

A process has sessions of its own Spark or of Spark Connect, so this is one of its own.
"""

from __future__ import annotations

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


def reading(spark: Any, **options: str) -> Any:
    """A batch."""
    return spark.read.format("natsbroker").options(**options).load()


def copied(spark: Any, servers: str, directory: Path) -> int:
    """A streaming query from IN to a table and on to OUT, ended and continued."""
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
    said: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return {"code": code, **{name: said[name] for name in ("result", "rows") if name in said}}


def told(spark: Any, servers: str) -> list[str]:
    """What is said of a stream that is not there: to a query, and to a job."""
    found = []
    try:
        reading(spark, servers=servers, stream="NOWHERE").count()
    except Exception as error:
        found.append(str(error))
    try:
        archive(spark, {"servers": servers, "stream": "NOWHERE"}, "unused")
    except DataSourceError as error:
        found.append(str(error))
    return found


def main(url: str, servers: str, broker: str, place: str) -> dict[str, Any]:
    """Everything, with one session."""
    found: dict[str, Any] = {}
    directory = Path(place)
    spark = session(url, {"spark.ui.enabled": "false"})
    assert session(url) is spark
    said = io.StringIO()
    found["doctor"] = cli.main(["doctor", "--master", url], said, io.StringIO())
    assert "natsbroker" in said.getvalue()
    found["pushdown"] = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    stream = reading(spark, servers=servers, stream="IN", pushdown="true", includeHeaders="true")
    found["few"] = [row.seq for row in stream.where("seq > 97").orderBy("seq").collect()]
    found["channel"] = reading(spark, servers=broker, channel="c").count()
    rows = spark.range(50).selectExpr("concat('row ', id) AS data")
    target = {"servers": servers, "stream": "NEW", "subject": "NEW.x"}
    rows.write.format("natsbroker").mode("append").options(**target).save()
    found["written"] = reading(spark, servers=servers, stream="NEW").count()
    rows.write.format("natsbroker").mode("append").options(servers=broker, channel="w").save()
    found["writtenToChannel"] = reading(spark, servers=broker, channel="w").count()
    found["copied"] = copied(spark, servers, directory)
    source = {"servers": broker, "channel": "c"}
    root = str(directory / "archive")
    found["archived"] = archive(spark, source, root)["rows"]
    found["verified"] = verified(spark, {"servers": broker}, root)["rows"]
    found["tiered"] = tiered(spark, root, {"servers": broker}).count()
    found["told"] = told(spark, servers)
    arguments = ("--servers", broker, "--channel", "c", "--to", str(directory / "again"))
    found["job"] = commanded("archive", url, *arguments, "--rows-per-file", "7")
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:5])))
