"""
Archivers that race, compact and are killed at random moments, while messages arrive and retention
removes the oldest ones from the log and from the archive: C{python -m tests.spark.archivekilling
--format delta --kills 10}.
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
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import deltalake
from pyiceberg.catalog.sql import SqlCatalog

from natsbroker.spark.nats.connection import connect
from natsbroker.spark.tables.locations import Location, filesBelow, locationOf
from natsbroker.spark.tables.table import FORMATS, tableAt
from tests.interop.servers import OURS_FAST, REAL, Server
from tests.spark.objectstore import (
    IN_CATALOG,
    icebergCatalog,
    newBucket,
    objectStore,
    openedInCatalog,
)
from tests.spark.support import CONFIG, BrokerStation, Station, Stream

__all__ = ["SEEN", "counted", "isWhole", "rounds", "start"]

#: How many messages the log keeps; what comes before is lost if it was not archived in time.
_KEPT = 3000

#: That they go on, tidy the archive often, and give up what is old.
_GOES_ON = ("--every", "50ms", "--compact-after", "6", "--keep", "3s")

_NAMES = ["seq", "data"]

_TRIMMED = f"streaming {{ store: lmdb, dir: $DIR/s, store_limits {{ max_msgs: {_KEPT} }} }}\n"


def start(
    url: str, kind: str, root: Location, *more: str, form: str = "delta"
) -> subprocess.Popen[str]:
    """
    Start an archiver.
    """
    command = [sys.executable, "-m", "natsbroker", "spark", "archive", "--master", "inline"]
    command += ["--servers", url, f"--{kind}", "LOG", "--to", str(root), "--rows-per-file", "700"]
    command += ["--format", form]
    if form == "iceberg" and not isinstance(root, Path):
        command += ["--catalog", IN_CATALOG]
    return subprocess.Popen(
        [*command, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rounds(
    kind: str, directory: Path, kills: int, seed: int, form: str = "delta", to: str = ""
) -> dict[str, Any]:
    """
    Let two archivers race, kill one of them that many times, and count.

    @param kind: C{channel} of our broker, or C{stream} of nats-server.
    @param form: of the archive.
    @param to: where it is; in the directory if that is empty.
    """
    dice = random.Random(seed)
    (directory / "server").mkdir(parents=True)
    root = locationOf(to or directory / "archive")
    flavour, config = (OURS_FAST, _TRIMMED) if kind == "channel" else (REAL, CONFIG)
    server = Server(flavour, directory / "server", config).start()
    isOver = threading.Event()
    publisher = threading.Thread(target=_publish, args=(server, kind, isOver))
    publisher.start()

    def begun(*more: str) -> subprocess.Popen[str]:
        return start(server.url, kind, root, *more, form=form)

    racers = [begun(*_GOES_ON) for _ in range(2)]
    try:
        for _ in range(kills):
            time.sleep(dice.uniform(0.6, 1.6))
            place = dice.randrange(2)
            racers[place].kill()
            racers[place].communicate()
            racers[place] = begun(*_GOES_ON)
            before = _stopOf(root)
            _waitFor(lambda: _stopOf(root) > before)  # noqa: B023
        isOver.set()
        publisher.join()
        for racer in racers:
            racer.send_signal(signal.SIGTERM)
        errors = [racer.communicate(timeout=60)[1] for racer in racers]
        # One that has just begun ends by the signal itself.
        codes = {racer.returncode for racer in racers}
        assert codes <= {0, 1, -signal.SIGTERM}, errors
        last, error = begun().communicate(timeout=60)
        assert last, error
        return {**counted(root), "said": json.loads(last)["stop"]}
    finally:
        isOver.set()
        publisher.join()
        for racer in racers:
            racer.kill()
            racer.communicate()
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


def _stopOf(root: Location) -> int:
    """The sequence up to which the archive reaches."""
    snapshot = tableAt(root).latest()
    return 0 if snapshot is None else snapshot.stop


def _waitFor(isThere: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not isThere():
        if time.monotonic() > deadline:
            raise TimeoutError("nothing was archived")
        time.sleep(0.05)


def _inDelta(root: Location) -> list[dict[str, Any]]:
    """
    The rows of a Delta table.
    """
    return list(deltalake.DeltaTable(str(root)).to_pyarrow_table(columns=_NAMES).to_pylist())


def _inIceberg(root: Location) -> list[dict[str, Any]]:
    """
    The rows of an Iceberg table.
    """
    if isinstance(root, Path):
        catalog = SqlCatalog("natsbroker", uri=f"sqlite:///{root}/catalog.db")
        table = catalog.load_table("natsbroker.archive")
    else:
        table = openedInCatalog()
    return list(table.scan(selected_fields=tuple(_NAMES)).to_arrow().to_pylist())


#: How other programs read each format.
SEEN: dict[str, Callable[[Location], list[dict[str, Any]]]] = {
    "delta": _inDelta,
    "iceberg": _inIceberg,
}


def counted(root: Location) -> dict[str, Any]:
    """The content of an archive, read without the code that made it."""
    snapshot = tableAt(root).require()
    rows = SEEN[tableAt(root).form](root)
    wrong = sum(1 for row in rows if row["data"] != b"%d" % row["seq"])
    seen = [row["seq"] for row in rows]
    lost = {seq for start, stop in snapshot.lost for seq in range(start, stop)}
    listed = {file.path for file in snapshot.files}
    orphans = sum(path not in listed for path, _, _ in filesBelow(root, "data"))
    return {
        "start": snapshot.start,
        "stop": snapshot.stop,
        "versions": snapshot.version,
        "rows": len(seen),
        "different": len(set(seen)),
        "wrong": wrong,
        "lost": len(lost),
        "neither": len(set(range(snapshot.start, snapshot.stop)) - set(seen) - lost),
        "both": len(lost & set(seen)),
        "orphans": orphans,
    }


def isWhole(counts: dict[str, Any]) -> bool:
    """Whether each sequence is in the archive once, or recorded as lost."""
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
    parser.add_argument("--format", choices=FORMATS, default="delta")
    parser.add_argument("--objects", action="store_true", help="archive into an object store")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        to = ""
        if given.objects:
            os.environ.update(stack.enter_context(objectStore()))
            stack.enter_context(icebergCatalog(directory))
            to = f"{newBucket()}/log"
        counts = rounds(given.kind, directory, given.kills, seed, given.format, to)
    print(json.dumps(counts))
    return 0 if isWhole(counts) else 1


if __name__ == "__main__":
    sys.exit(main())
