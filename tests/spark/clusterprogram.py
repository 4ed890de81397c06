"""
The program that C{spark-submit} runs on a cluster: C{clusterprogram.py SERVERS BROKER DIRECTORY}.
It gets natsbroker from C{--py-files} and nothing of the tests, and prints its findings in one line
of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any


def where(_: int) -> tuple[str, str]:
    """The executor of a task, and the file from which its natsbroker was imported."""
    import natsbroker

    return os.environ.get("SPARK_EXECUTOR_DIRS", ""), natsbroker.__file__


def dying(servers: str, stream: str) -> Callable[[int, bytes], bytes]:
    """
    A column of data whose Python worker is killed in the middle of each task's first attempt, once
    the stream has some rows.
    """

    def data(seq: int, data: bytes) -> bytes:
        from pyspark import TaskContext

        if TaskContext.get().attemptNumber() == 0 and seq % 500 == 400:
            waitForRows(servers, stream)
            os.kill(os.getpid(), signal.SIGKILL)
        return data

    return data


def waitForRows(servers: str, stream: str) -> None:
    """Wait until a stream has messages, for a minute at most."""
    from natsbroker.spark.logs.apis import StreamApi
    from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
    from natsbroker.spark.nats.connection import connect

    deadline = time.monotonic() + 60
    with connect(ServerAccess(readAddresses(servers))) as connection:
        while not StreamApi(connection).state(stream).messages and time.monotonic() < deadline:
            time.sleep(0.02)


def main(servers: str, broker: str, directory: str) -> dict[str, Any]:
    """Read, write with workers that die, and archive."""
    from pyspark.sql.functions import udf

    from natsbroker.spark import session
    from natsbroker.spark.jobs.archive.archiver import FilePlan
    from natsbroker.spark.jobs.archive.job import archive

    spark = session(None, {"spark.sql.execution.arrow.maxRecordsPerBatch": "50"})
    places = spark.sparkContext.range(0, 8, numSlices=8).map(where).collect()
    facts: dict[str, Any] = {
        "master": spark.sparkContext.master,
        "executors": len({place for place, _ in places}),
        "packed": all(".zip" in way for _, way in places),
    }
    reading = spark.read.format("natsbroker").options(servers=servers, minPartitions="2")
    rows = reading.options(stream="IN").load()
    facts["read"] = rows.count()
    named = ["data", "concat('IN:', seq) AS msg_id"]
    for stream, columns, ids in (("OUT", named, "auto"), ("LOOSE", ["data"], "none")):
        data = udf(dying(servers, stream), "binary")("seq", "data").alias("data")
        write = rows.select("seq", data).selectExpr(*columns).write.format("natsbroker")
        given = {"servers": servers, "stream": stream, "subject": f"{stream}.x", "msgId": ids}
        write.mode("append").options(**given, window="10").save()
    source = {"servers": broker, "channel": "c"}
    facts["archived"] = archive(spark, source, directory, plan=FilePlan(50, 4))["rows"]
    spark.stop()
    return facts


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4])))
