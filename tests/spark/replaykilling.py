"""
A replay that is killed at random moments, and started again when the stream has forgotten the ids
of what it stored: C{python -m tests.spark.replaykilling --kills 10}.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from natsbroker.spark.logs.apis import StreamApi
from natsbroker.spark.logs.wholeranges import RangeReader, ReadOptions, SequenceRange
from natsbroker.spark.nats.connection import connect
from tests.interop.servers import REAL, Server
from tests.spark.support import CONFIG, Station, Stream

__all__ = ["counted", "isWhole", "rounds"]

#: For so long the target knows ids, in seconds.
_WINDOW = 0.1

#: How long things may take on a busy machine, in seconds.
_PATIENCE = 120.0


def start(url: str, *more: str) -> subprocess.Popen[str]:
    """
    Start a replay.
    """
    command = [sys.executable, "-m", "natsbroker", "spark", "replay", "--master", "inline"]
    command += ["--servers", url, "--stream", "IN", "--to-servers", url, "--to-stream", "OUT"]
    return subprocess.Popen(
        [*command, "--map", "IN.>=OUT.>", *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _waitFor(station: Station, beyond: int, process: subprocess.Popen[str]) -> None:
    """
    Wait until a replay publishes.
    """
    deadline = time.monotonic() + _PATIENCE
    while station.streams.state("OUT").stop <= beyond and process.poll() is None:
        if time.monotonic() > deadline:
            raise TimeoutError("the replay does not begin")
        time.sleep(0.005)


def _killOnce(station: Station, dice: random.Random, more: tuple[str, ...]) -> None:
    before = station.streams.state("OUT").stop
    process = start(station.url, *more)
    try:
        _waitFor(station, before, process)
        time.sleep(dice.uniform(0, 0.3))
    finally:
        process.kill()
        process.communicate()
    # So that no id of what was stored is known when it is started again.
    time.sleep(_WINDOW * 3)


def rounds(station: Station, rows: int, kills: int, seed: int, *more: str) -> dict[str, Any]:
    """
    Kill a replay so often, and count.

    @param rows: how many messages the source has.
    @param more: more arguments of the replay.
    """
    dice = random.Random(seed)
    for name, config in (("IN", {}), ("OUT", {"duplicate_window": int(_WINDOW * 1e9)})):
        Stream(station.connection, name).make(**config)
    source = Stream(station.connection, "IN")
    source.fill(b"%d" % number for number in range(1, rows + 1))
    for _ in range(kills):
        _killOnce(station, dice, more)
    process = start(station.url, *more)
    said, errors = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, errors
    fields = json.loads(said)
    counts = {key: fields[key] for key in ("found", "resumed")}
    return {"stored": rows, **counted(station), **counts}


def counted(station: Station) -> dict[str, Any]:
    """The content of the target, read without the code that filled it."""
    state = station.streams.state("OUT")
    bounds = SequenceRange("OUT", state.created, 1, state.stop)
    seen: list[int] = []
    with connect(station.peer) as connection:
        for rows in RangeReader(StreamApi(connection), bounds, ReadOptions(), None).read():
            seen += [int(payload) for payload in rows.payloads]
    return {"copied": len(seen), "different": len(set(seen)), "inOrder": seen == sorted(seen)}


def isWhole(counts: dict[str, Any]) -> bool:
    """
    Whether each message is there once, and all in order.
    """
    return bool(counts["stored"] == counts["copied"] == counts["different"] and counts["inOrder"])


def main() -> int:
    """
    The command.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.spark.replaykilling")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rate", default="8000")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--no-ledger", action="store_true", help="show that it is the ledger")
    given = parser.parse_args()
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    more = ["--rate", given.rate, *(["--no-ledger"] if given.no_ledger else [])]
    with tempfile.TemporaryDirectory() as directory:
        station = Station(Server(REAL, Path(directory), CONFIG).start())
        try:
            counts = rounds(station, given.rows, given.kills, seed, *more)
        finally:
            station.close()
    print(json.dumps(counts))
    return 0 if isWhole(counts) != given.no_ledger else 1


if __name__ == "__main__":
    sys.exit(main())
