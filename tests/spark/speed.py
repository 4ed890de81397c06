"""
The speed of reading and writing rows, beside nats-server on the same machine: C{python -m
tests.spark.speed --rows 500000}.

One session of two cores does the same work in turn, with a channel of our broker and with a stream
of nats-server: reading a batch into nowhere (frames and direct get), a streaming query into
Parquet, and writing. Another client sends PINGs to the server meanwhile.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from natsbroker.spark import session
from tests.interop.servers import OURS_FAST, REAL, Server
from tests.spark.metering import Sample, median, sampled
from tests.spark.support import CONFIG, STREAMING, BrokerStation, Station, Stream

__all__ = ["WORKS", "measured"]

_SIZE = 128
_BATCH = 20_000

#: How many micro-batches a streaming query takes, about.
_TRIGGERS = 3

_SPARK = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}


class Side:
    """
    One of the two servers, with its name in options.

    @ivar station: the server.
    @ivar jvm: Spark's process.
    """

    def __init__(self, station: Station | BrokerStation, spark: Any, rows: int) -> None:
        self.station = station
        self.jvm = SparkContext._gateway.proc.pid
        self._spark = spark
        self._rows = rows
        self._numbers = itertools.count(1)
        self._isBroker = isinstance(station, BrokerStation)
        self._fill()

    def _options(self, name: str) -> dict[str, str]:
        return {"servers": self.station.url, "channel" if self._isBroker else "stream": name}

    def _fill(self) -> None:
        payloads = [b"x" * _SIZE] * _BATCH
        stream = None if isinstance(self.station, BrokerStation) else self._made("LOG")
        for _ in range(0, self._rows, _BATCH):
            if isinstance(self.station, BrokerStation):
                self.station.fill("LOG", payloads)
            elif stream is not None:
                stream.fill(payloads)

    def _made(self, name: str) -> Stream:
        stream = Stream(self.station.connection, name)
        stream.make(storage="file")
        return stream

    # The works.

    def read(self, directory: Path) -> None:
        """Read all rows in a batch, and discard them."""
        frame = self._spark.read.format("natsbroker").options(**self._options("LOG")).load()
        frame.write.format("noop").mode("overwrite").save()

    def toParquet(self, directory: Path) -> None:
        """
        A streaming query over all that is stored, into files.
        """
        name = f"q{next(self._numbers)}-{self.station.url[-5:]}"
        options = self._options("LOG") | {
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(-(-self._rows // _TRIGGERS)),
        }
        query = (
            self._spark.readStream.format("natsbroker")
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(directory / name))
            .option("checkpointLocation", str(directory / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        if rows != self._rows:
            raise RuntimeError(f"{rows} rows came of {self._rows}")

    def write(self, directory: Path) -> None:
        """Write rows, and check that all are stored."""
        name = f"OUT{next(self._numbers)}"
        rows = self._spark.range(0, self._rows, 1, 2).selectExpr(
            f"cast(lpad(cast(id as string), {_SIZE}, 'x') as binary) data"
        )
        options = self._options(name)
        if not self._isBroker:
            self._made(name)
            options["subject"] = f"{name}.x"
        rows.write.format("natsbroker").mode("append").options(**options).save()
        if isinstance(self.station, BrokerStation):
            count = self.station.channels.state(name).messages
        else:
            count = Stream(self.station.connection, name).api("INFO")["state"]["messages"]
        if count != self._rows:
            raise RuntimeError(f"{count} rows are stored of {self._rows}")

    def sample(self, directory: Path, work: Callable[[Side, Path], None]) -> Sample:
        """Do a piece of work and measure it."""
        do = functools.partial(work, self, directory)
        return sampled(self._rows, self.station.peer, self.station.server.pid, self.jvm, do)


#: What is measured: what it is called on either side, and how it is done.
WORKS: dict[str, tuple[str, str, Callable[[Side, Path], None]]] = {
    "read": ("frames", "directGet", Side.read),
    "parquet": ("channelToParquet", "streamToParquet", Side.toParquet),
    "write": ("toChannel", "toStream", Side.write),
}


def measured(directory: Path, rows: int, rounds: int, works: Sequence[str]) -> dict[str, Any]:
    """
    For each work on either side its L{median}, and the ratio of frames to direct get.
    """
    for name in ("ours", "real"):
        (directory / name).mkdir()
    rows = -(-rows // _BATCH) * _BATCH
    ours = BrokerStation(Server(OURS_FAST, directory / "ours", STREAMING).start())
    real = Station(Server(REAL, directory / "real", CONFIG.replace("256MB", "8GB")).start())
    spark = session("local[2]", _SPARK)
    try:
        sides = (Side(ours, spark, rows), Side(real, spark, rows))
        results: dict[str, Any] = {}
        for title in works:
            *names, work = WORKS[title]
            samples: dict[str, list[Sample]] = {name: [] for name in names}
            for place in range(rounds + 1):
                for name, side in zip(names, sides, strict=True):
                    sample = side.sample(directory, work)
                    if place:
                        samples[name].append(sample)
            results |= {name: median(times) for name, times in samples.items()}
        if "frames" in results:
            results["ratio"] = round(results["frames"]["rate"] / results["directGet"]["rate"], 2)
        results["load"] = round(os.getloadavg()[0], 1)
        return results
    finally:
        spark.stop()
        ours.close()
        real.close()


def main() -> int:
    """
    The command.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.spark.speed")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", action="append", choices=list(WORKS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        results = measured(Path(directory), given.rows, given.rounds, given.work or list(WORKS))
    for name, value in results.items():
        print(f"{name}: {json.dumps(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
