"""
Streaming queries whose driver and JVM are killed at random moments while messages come in:
C{python -m tests.spark.killing --kills 10}.

One driver runs two queries: a stream to Parquet, and a stream to another stream.

Promises: at the end both hold each message once, or the counts differ and the exit status is 1.
Must never know: how the data source works.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from natsbroker.spark.connection import connect
from natsbroker.spark.reading import Manner, RangeReader, Span
from natsbroker.spark.streams import Streams
from tests.interop.servers import REAL, Server
from tests.spark.support import CONFIG, Station, Stream

__all__ = ["rounds"]

#: How long a driver may take to begin on a busy machine, in seconds.
_PATIENCE = 300.0

_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def drive(url: str, directory: Path, isLast: bool) -> None:
    """
    Run both queries: until killed, or to the end of what is stored, and say what the table holds.
    """
    from natsbroker.spark import session

    spark = session("local[2]", _CONF)
    reading = spark.readStream.format("natsbroker").options(
        servers=url, stream="IN", startingOffsets="earliest", maxOffsetsPerTrigger="3000"
    )
    table = reading.load().writeStream.format("parquet").option("path", str(directory / "table"))
    copy = (
        reading.load()
        .selectExpr("data", "concat('IN:', seq) AS msg_id")
        .writeStream.format("natsbroker")
        .options(servers=url, stream="OUT", subject="OUT.x")
    )
    queries = []
    for name, query in (("table", table), ("copy", copy)):
        query = query.option("checkpointLocation", str(directory / f"{name}-checkpoint"))
        queries.append((query.trigger(availableNow=True) if isLast else query).start())
    for query in queries:
        query.awaitTermination()
    seqs = [row.seq for row in spark.read.parquet(str(directory / "table")).collect()]
    print(json.dumps({"rows": len(seqs), "different": len(set(seqs)), "most": max(seqs)}))
    spark.stop()


def _start(url: str, directory: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.spark.killing", "--drive", url, str(directory), *more]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if not more else None,
        text=True,
        start_new_session=True,
    )


def _killOnce(url: str, directory: Path, dice: random.Random) -> None:
    """
    Start a driver, wait until it has planned a micro-batch, and kill it and its JVM a little later.
    """
    offsets = directory / "table-checkpoint" / "offsets"
    before = _newest(offsets)
    process = _start(url, directory)
    try:
        deadline = time.monotonic() + _PATIENCE
        while _newest(offsets) == before:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the driver does not begin")
            time.sleep(0.05)
        time.sleep(dice.uniform(0, 4))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _newest(offsets: Path) -> int:
    names = [int(x.name) for x in offsets.glob("*") if x.name.isdigit()]
    return max(names, default=-1)


def rounds(directory: Path, kills: int, seed: int) -> dict[str, Any]:
    """
    Kill so often, and count.

    @return: what was stored, what the table holds, and what the other stream holds.
    """
    dice = random.Random(seed)
    (directory / "server").mkdir(parents=True)
    station = Station(Server(REAL, directory / "server", CONFIG).start())
    isOver = threading.Event()
    publishing = connect(station.peer)
    source = Stream(publishing, "IN")
    source.make(storage="file")
    target = Stream(station.connection, "OUT")
    target.make(storage="file", duplicate_window=3_600_000_000_000)

    def publish() -> None:
        while not isOver.wait(0.2):
            source.fill([b"x" * 100] * 200)

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for _ in range(kills):
            _killOnce(station.url, directory, dice)
        isOver.set()
        publisher.join()
        last = _start(station.url, directory, "--last")
        said, _ = last.communicate(timeout=_PATIENCE * 2)
        return {**_counted(station), **json.loads(said.splitlines()[-1])}
    finally:
        isOver.set()
        publisher.join()
        publishing.close()
        station.close()


def _counted(station: Station) -> dict[str, int]:
    state = station.streams.state("IN")
    copy = station.streams.state("OUT")
    span = Span("OUT", copy.created, 1, copy.stop)
    with connect(station.peer) as connection:
        batches = RangeReader(Streams(connection), span, Manner(), print).read()
        ids = {
            head.partition(b"Nats-Msg-Id: ")[2].partition(b"\r\n")[0]
            for rows in batches
            for head in rows.heads
        }
    return {"stored": state.messages, "copied": copy.messages, "ids": len(ids)}


def isWhole(counts: dict[str, Any]) -> bool:
    """
    Whether both hold each message once.
    """
    names = ("rows", "different", "most", "copied", "ids")
    return all(counts[each] == counts["stored"] for each in names)


def main() -> int:
    """
    The command.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.spark.killing")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--drive", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--last", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        drive(given.drive[0], Path(given.drive[1]), given.last)
        return 0
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        counts = rounds(Path(directory), given.kills, seed)
    print(json.dumps(counts))
    return 0 if isWhole(counts) else 1


if __name__ == "__main__":
    sys.exit(main())
