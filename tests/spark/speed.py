"""
How fast batches are read, beside nats-server on the same machine:
C{python -m tests.spark.speed --rows 500000}.

One session of two cores reads the same messages in turn: from a channel of our broker as columnar
frames, and from a stream of nats-server by direct get. Another client sends PINGs to the broker
meanwhile.

Promises: both reads are the same query on the same data source; the median of the rounds counts.
Must never know: how either is read.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from natsbroker.spark import session
from natsbroker.spark.connection import connect
from natsbroker.wire import ops
from tests.interop.servers import OURS_FAST, REAL, Server
from tests.spark.support import CONFIG, STREAMING, BrokerStation, Station, Stream

__all__ = ["measured"]

_SIZE = 128
_BATCH = 20_000


def _filled(station: Station | BrokerStation, rows: int) -> dict[str, str]:
    """
    Store so many messages; the options that name them.
    """
    payloads = [b"x" * _SIZE] * _BATCH
    if isinstance(station, BrokerStation):
        for _ in range(0, rows, _BATCH):
            station.fill("LOG", payloads)
        return {"servers": station.url, "channel": "LOG"}
    stream = Stream(station.connection, "LOG")
    stream.make(storage="file")
    for _ in range(0, rows, _BATCH):
        stream.fill(payloads)
    return {"servers": station.url, "stream": "LOG"}


@contextmanager
def _pinged(station: BrokerStation) -> Iterator[list[float]]:
    """
    Send PINGs all the time; the seconds that their answers take.
    """
    took: list[float] = []
    isOver = threading.Event()

    def ping() -> None:
        with connect(station.peer) as connection:
            while not isOver.wait(0.005):
                begun = time.monotonic()
                connection.send(b"PING\r\n")
                while connection.receive(begun + 30)[0] != ops.PONG:
                    pass
                took.append(time.monotonic() - begun)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield took
    finally:
        isOver.set()
        thread.join()


def _read(spark: Any, options: dict[str, str]) -> float:
    begun = time.monotonic()
    frame = spark.read.format("natsbroker").options(**options).load()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - begun


def measured(directory: Path, rows: int, rounds: int) -> dict[str, Any]:
    """
    Rows a second from both, their ratio, and the PINGs' 99th percentile in milliseconds.
    """
    for name in ("ours", "real"):
        (directory / name).mkdir()
    ours = BrokerStation(Server(OURS_FAST, directory / "ours", STREAMING).start())
    real = Station(Server(REAL, directory / "real", CONFIG.replace("256MB", "2GB")).start())
    spark = session("local[2]", {"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
    try:
        sources = {"frames": _filled(ours, rows), "directGet": _filled(real, rows)}
        for options in sources.values():
            _read(spark, options)
        times: dict[str, list[float]] = {name: [] for name in sources}
        with _pinged(ours) as pings:
            for _ in range(rounds):
                for name, options in sources.items():
                    before = len(pings)
                    times[name].append(_read(spark, options))
                    if name == "directGet":
                        del pings[before:]
        rates = {name: rows / statistics.median(each) for name, each in times.items()}
        return {
            **{name: round(each) for name, each in rates.items()},
            "ratio": round(rates["frames"] / rates["directGet"], 2),
            "pingP99": round(sorted(pings)[len(pings) * 99 // 100] * 1000, 1),
        }
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
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measured(Path(directory), given.rows, given.rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
