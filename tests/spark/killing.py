"""
Streaming queries whose driver and JVM are killed at random moments while messages come in:
C{python -m tests.spark.killing --kills 10}.

One driver runs four queries: from a stream of nats-server to Parquet, and to another stream; and
the same from a channel of our broker. With C{--objects} each tenth message goes to a subject that
no stream takes, so it becomes a dead letter in an object store.
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
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from natsbroker.spark.logs.apis import StreamApi
from natsbroker.spark.logs.wholeranges import RangeReader, ReadOptions, SequenceRange
from natsbroker.spark.nats.connection import connect
from tests.interop.servers import OURS_FAST, REAL, Server
from tests.spark.connecting import sparkHome
from tests.spark.objectstore import newBucket, objectStore
from tests.spark.support import CONFIG, STREAMING, BrokerStation, Station, Stream

__all__ = ["Logs", "isWhole", "rounds"]

#: How long a driver may take to begin on a busy machine, in seconds.
_PATIENCE = 300.0

#: The variable that says where dead letters go.
_DEAD = "TESTS_DEAD_LETTERS"

_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def drive(urls: dict[str, str], directory: Path, isLast: bool) -> None:
    """
    Run the queries until killed, or to the end of the stored messages, and print the contents of
    the tables.

    @param urls: where each kind of log is.
    """
    from natsbroker.spark import session

    spark = session("local[2]", _CONF)
    queries = []
    for kind, url in urls.items():
        given = {"servers": url, kind: "IN", "startingOffsets": "earliest"}
        reading = spark.readStream.format("natsbroker").options(maxOffsetsPerTrigger="3000")
        frame = reading.options(**given).load()
        table = frame.writeStream.format("parquet").option("path", str(directory / kind / "table"))
        out = {"servers": urls["stream"], "stream": f"OUT-{kind}"}
        subject = f"'OUT-{kind}.x'"
        if _DEAD in os.environ:
            out["deadLetters"] = f"{os.environ[_DEAD]}/{kind}"
            subject = f"if(seq % 10 = 0, 'nowhere', {subject})"
        columns = (f"{subject} AS subject", "data", "concat('IN:', seq) AS msg_id")
        copy = frame.selectExpr(*columns).writeStream
        for name, query in (("table", table), ("copy", copy.format("natsbroker").options(**out))):
            query = query.option("checkpointLocation", str(directory / kind / f"{name}-checkpoint"))
            queries.append((query.trigger(availableNow=True) if isLast else query).start())
            # One after the other: Spark gives each Python that it starts ten seconds.
            while queries[-1].isActive and queries[-1].lastProgress is None:
                time.sleep(0.05)
    if not isLast:
        spark.streams.awaitAnyTermination()
    for query in queries:
        query.awaitTermination()
    tables = {}
    for kind in urls:
        rows = spark.read.parquet(str(directory / kind / "table")).collect()
        seqs = [row.seq for row in rows]
        right = sum(1 for row in rows if bytes(row.data) == _data(row.seq))
        most = max(seqs)
        tables[kind] = {
            "rows": len(seqs),
            "different": len(set(seqs)),
            "most": most,
            "right": right,
        }
    print(json.dumps(tables))
    spark.stop()


def _data(seq: int) -> bytes:
    """The message of a sequence."""
    return b"%099d" % seq


def _start(urls: dict[str, str], directory: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.spark.killing", "--drive", json.dumps(urls)]
    with open(directory / "driver.log", "w") as log:
        return subprocess.Popen(
            [*command, str(directory), *more],
            env={**os.environ, "SPARK_HOME": sparkHome()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )


def _killOnce(urls: dict[str, str], directory: Path, dice: random.Random) -> None:
    """Start a driver, and kill it with its JVM soon after each query has planned a micro-batch."""
    places = [
        directory / kind / f"{name}-checkpoint" / "offsets"
        for kind in urls
        for name in ("table", "copy")
    ]
    before = [_newest(place) for place in places]
    process = _start(urls, directory)
    try:
        deadline = time.monotonic() + _PATIENCE
        while any(_newest(place) == old for place, old in zip(places, before, strict=True)):
            if process.poll() is not None or time.monotonic() > deadline:
                _forgive(directory)
                return
            time.sleep(0.02)
        time.sleep(dice.uniform(0, 3))
    finally:
        _kill(process)
        if process.stdout is not None:
            process.stdout.close()


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # It ended by itself, with all that it had started.
    process.wait()


def _forgive(directory: Path) -> None:
    """
    Accept that a driver ended because Spark had waited too long for a worker.

    @raise RuntimeError: for anything else.
    """
    said = (directory / "driver.log").read_text()[-5000:]
    if "Python worker failed to connect back" not in said:
        raise RuntimeError(f"the driver does not begin:\n{said}")


def _finish(urls: dict[str, str], directory: Path) -> dict[str, Any]:
    """
    Have a driver read to the end.

    @return: what the tables hold then.
    """
    while True:
        last = _start(urls, directory, "--last")
        said, _ = last.communicate(timeout=_PATIENCE * 2)
        if last.returncode == 0:
            tables: dict[str, Any] = json.loads(said.splitlines()[-1])
            return tables
        _forgive(directory)


def _newest(offsets: Path) -> int:
    names = [int(x.name) for x in offsets.glob("*") if x.name.isdigit()]
    return max(names, default=-1)


class Logs:
    """
    Both servers, with a log that grows and a stream to copy it to for each kind.

    @ivar urls: where each kind of log is.
    """

    def __init__(self, directory: Path) -> None:
        servers = []
        roomy = CONFIG.replace("max_file_store: 256MB", "max_file_store: 4GB")
        for flavour, config in ((REAL, roomy), (OURS_FAST, STREAMING)):
            place = directory / flavour.name
            place.mkdir(parents=True)
            servers.append(Server(flavour, place, config).start())
        self.station = Station(servers[0])
        self._broker = BrokerStation(servers[1])
        self.urls = {"stream": self.station.url, "channel": self._broker.url}
        self._publishing = connect(self.station.peer)
        self._source = Stream(self._publishing, "IN")
        self._source.make(storage="file")
        for kind in self.urls:
            target = Stream(self.station.connection, f"OUT-{kind}")
            target.make(storage="file", duplicate_window=3_600_000_000_000)
        self.stored = 0
        self._isOver = threading.Event()
        self._publisher = threading.Thread(target=self._publish)
        self._publisher.start()

    def _publish(self) -> None:
        while not self._isOver.wait(0.3):
            data = [_data(self.stored + number) for number in range(1, 101)]
            self._source.fill(data)
            self._broker.fill("IN", data)
            self.stored += 100

    def complete(self) -> None:
        """Publish no more messages."""
        self._isOver.set()
        self._publisher.join()

    def copied(self) -> dict[str, dict[str, int]]:
        """
        The content of the target streams and the dead letters: the number of messages, and of
        different ids and data.
        """
        counts = {}
        for kind in self.urls:
            name = f"OUT-{kind}"
            ids, data = set(), set()
            # A new one: servers close those that are not heard of for minutes.
            with connect(self.station.peer) as connection:
                state = StreamApi(connection).state(name)
                bounds = SequenceRange(name, state.created, 1, state.stop)
                for rows in RangeReader(StreamApi(connection), bounds, ReadOptions(), None).read():
                    for head in rows.heads:
                        ids.add(head.partition(b"Nats-Msg-Id: ")[2].partition(b"\r\n")[0])
                    data.update(rows.payloads)
            count = state.messages
            if _DEAD in os.environ:
                table = DeltaTable(f"{os.environ[_DEAD]}/{kind}").to_pyarrow_table()
                count += table.num_rows
                ids.update(msgId.encode() for msgId in table.column("msg_id").to_pylist())
                data.update(table.column("data").to_pylist())
                assert set(table.column("code").to_pylist()) == {503}
            counts[kind] = {"copied": count, "ids": len(ids), "data": len(data)}
        return counts

    def close(self) -> None:
        """
        Stop everything.
        """
        self.complete()
        self._publishing.close()
        self.station.close()
        self._broker.close()


def rounds(logs: Logs, directory: Path, kills: int, seed: int) -> dict[str, Any]:
    """
    Kill drivers a number of times, let one finish, and count.

    @return: for each kind, what was stored, what the table holds, and what the other stream holds.
    """
    dice = random.Random(seed)
    for _ in range(kills):
        _killOnce(logs.urls, directory, dice)
    logs.complete()
    tables, copies = _finish(logs.urls, directory), logs.copied()
    return {kind: {"stored": logs.stored, **tables[kind], **copies[kind]} for kind in logs.urls}


def isWhole(counts: dict[str, Any]) -> bool:
    """Whether tables and copies have each message once and unchanged."""
    names = ("rows", "different", "most", "right", "copied", "ids", "data")
    return len(counts) == 2 and all(
        count[name] == count["stored"] > 0 for count in counts.values() for name in names
    )


def main() -> int:
    """
    The command.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.spark.killing")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--objects", action="store_true", help="with dead letters")
    parser.add_argument("--drive", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--last", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        drive(json.loads(given.drive[0]), Path(given.drive[1]), given.last)
        return 0
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        if given.objects:
            os.environ.update(stack.enter_context(objectStore()))
            os.environ[_DEAD] = f"{newBucket()}/dead"
        logs = Logs(Path(directory))
        try:
            counts = rounds(logs, Path(directory), given.kills, seed)
        finally:
            logs.close()
    print(json.dumps(counts))
    return 0 if isWhole(counts) else 1


if __name__ == "__main__":
    sys.exit(main())
