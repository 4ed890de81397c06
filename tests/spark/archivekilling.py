"""
Archivers that race and are killed at random moments, while messages come in and retention takes the
oldest: C{python -m tests.spark.archivekilling --kills 10}.

Promises: at the end each sequence from the archive's start to its stop is in it once, with its own
message, or is recorded as lost; or the counts differ and the exit status is 1.
Must never know: how the archive is made.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from natsbroker.spark.connection import connect
from natsbroker.spark.formats import tableAt
from natsbroker.spark.manifests import Manifest
from tests.interop.servers import OURS_FAST, REAL, Server
from tests.spark.support import CONFIG, BrokerStation, Station, Stream

__all__ = ["counted", "isWhole", "rounds"]

#: How many messages the log keeps; what comes before is lost if it was not archived in time.
_KEPT = 3000

_TRIMMED = f"streaming {{ store: lmdb, dir: $DIR/s, store_limits {{ max_msgs: {_KEPT} }} }}\n"


def start(url: str, kind: str, root: Path, *more: str) -> subprocess.Popen[str]:
    """
    Start an archiver.
    """
    command = [sys.executable, "-m", "natsbroker", "spark", "archive", "--master", "inline"]
    command += ["--servers", url, f"--{kind}", "LOG", "--to", str(root), "--rows-per-file", "700"]
    return subprocess.Popen(
        [*command, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rounds(kind: str, directory: Path, kills: int, seed: int) -> dict[str, Any]:
    """
    Have two archivers race, kill one of them so often, and count.

    @param kind: C{channel} of our broker, or C{stream} of nats-server.
    """
    dice = random.Random(seed)
    (directory / "server").mkdir(parents=True)
    root = directory / "archive"
    flavour, config = (OURS_FAST, _TRIMMED) if kind == "channel" else (REAL, CONFIG)
    server = Server(flavour, directory / "server", config).start()
    isOver = threading.Event()
    publisher = threading.Thread(target=_publish, args=(server, kind, isOver))
    publisher.start()
    racers = [start(server.url, kind, root, "--every", "50ms") for _ in range(2)]
    try:
        for _ in range(kills):
            time.sleep(dice.uniform(0.6, 1.6))
            place = dice.randrange(2)
            racers[place].kill()
            racers[place].communicate()
            racers[place] = start(server.url, kind, root, "--every", "50ms")
        _waitFor(lambda: tableAt(root).latest() is not None)
        isOver.set()
        publisher.join()
        for each in racers:
            each.send_signal(signal.SIGTERM)
        errors = [each.communicate(timeout=60)[1] for each in racers]
        # One that has just begun ends by the signal itself.
        codes = {each.returncode for each in racers}
        assert codes <= {0, 1, -signal.SIGTERM}, errors
        last, error = start(server.url, kind, root).communicate(timeout=60)
        assert last, error
        return {**counted(root), "said": json.loads(last)["stop"]}
    finally:
        isOver.set()
        publisher.join()
        for each in racers:
            each.kill()
            each.communicate()
        server.stop()


def _publish(server: Server, kind: str, isOver: threading.Event) -> None:
    """
    Store messages that say which sequence they will have.
    """
    number = 1
    if kind == "channel":
        station = BrokerStation(server)
        while not isOver.wait(0.02):
            station.fill("LOG", [b"%d" % n for n in range(number, number + 150)])
            number += 150
        station.connection.close()
        return
    stations = Station(server)
    with connect(stations.peer) as connection:
        stream = Stream(connection, "LOG")
        stream.make(max_msgs=_KEPT)
        while not isOver.wait(0.02):
            stream.fill([b"%d" % n for n in range(number, number + 150)])
            number += 150
    stations.connection.close()


def _waitFor(isThere: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not isThere():
        if time.monotonic() > deadline:
            raise TimeoutError("no archive was begun")
        time.sleep(0.05)


def counted(root: Path) -> dict[str, Any]:
    """
    What an archive has, read without the code that made it.
    """
    manifest: Manifest = tableAt(root).require()
    seen: list[int] = []
    wrong = 0
    for file in manifest.files:
        if file.path:
            rows = pq.read_table(root / file.path, columns=["seq", "data"]).to_pylist()
            wrong += sum(1 for row in rows if row["data"] != b"%d" % row["seq"])
            seen += [row["seq"] for row in rows]
    lost = {seq for start, stop in manifest.lost for seq in range(start, stop)}
    listed = {each.path for each in manifest.files}
    orphans = sum(1 for x in (root / "data").iterdir() if f"data/{x.name}" not in listed)
    return {
        "start": manifest.start,
        "stop": manifest.stop,
        "versions": manifest.version,
        "rows": len(seen),
        "different": len(set(seen)),
        "wrong": wrong,
        "lost": len(lost),
        "neither": len(set(range(manifest.start, manifest.stop)) - set(seen) - lost),
        "both": len(lost & set(seen)),
        "orphans": orphans,
    }


def isWhole(counts: dict[str, Any]) -> bool:
    """
    Whether each sequence is there once, or lost.
    """
    return bool(
        counts["rows"] == counts["different"] > 0
        and counts["rows"] + counts["lost"] == counts["stop"] - counts["start"]
        and counts["neither"] == counts["both"] == counts["wrong"] == 0
        and counts["said"] == counts["stop"]
    )


def main() -> int:
    """
    The command.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.spark.archivekilling")
    parser.add_argument("--kind", choices=("channel", "stream"), default="channel")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        counts = rounds(given.kind, Path(directory), given.kills, seed)
    print(json.dumps(counts))
    return 0 if isWhole(counts) else 1


if __name__ == "__main__":
    sys.exit(main())
