"""
Killing brokers, and the server, while they work a store: C{python -m tests.storage.postgres.crash}.

Each round starts a process that works the same store, and after a random time kills it with
SIGKILL, or has the server crash under it first. Then another broker takes over, and everything that
was ever acknowledged is demanded of it.

The first loss ends it, with a description.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.postgres.connecting import Database
from natsbroker.storage.postgres.store import openPostgres
from natsbroker.testing.pumped import PumpedReactor
from tests.postgresql import PostgresServer
from tests.storage.history import History
from tests.storage.workload import say, workOn

ROOT = Path(__file__).resolve().parents[3]

BEYOND = 0.7
"""Seconds that a process goes on after the server has crashed under it."""


def victim(source: str, schema: str, seed: str) -> None:
    """Work on a store until the process is killed, or until the database was gone for too long."""
    reactor = PumpedReactor()
    store: Any = reactor.wait(openPostgres(reactor, Database(source, schema)))
    try:
        workOn(reactor, store, seed, 0, lambda _: None)
    except StoreFailed:
        say({"failed": True})
        signal.pause()


def runAndKill(
    server: PostgresServer, schema: str, seed: str, after: float, crash: bool
) -> list[bytes]:
    """
    Have a process work the store for some seconds.

    @param crash: whether the server crashes first.
    @return: what the process said.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.storage.postgres.crash",
            "victim",
            server.source,
            schema,
            seed,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    time.sleep(after)
    if crash:
        server.stop(signal.SIGQUIT)
        server.start()
        time.sleep(BEYOND)
    process.kill()
    lines += process.stdout.readlines()
    if process.wait() != -signal.SIGKILL:
        raise AssertionError(f"the workload ended by itself, with {process.returncode}")
    return lines


def rounds(
    server: PostgresServer, schema: str, count: int, seed: str, tell: bool = False
) -> History:
    """
    Kill brokers some number of times; every third time the server crashes as well.

    @return: what was acknowledged.
    @raise tests.storage.history.Lost: when something is missing.
    """
    random = Random(seed)
    history = History()
    for number in range(count):
        after = random.uniform(0.05, 1.0)
        history.learn(runAndKill(server, schema, f"{seed}/{number}", after, number % 3 == 2))
        server.execute(schema, "UPDATE holder SET expires = clock_timestamp()")
        reactor = PumpedReactor()
        store = reactor.wait(openPostgres(reactor, Database(server.source, schema)))
        recorder = history.compare(reactor, store)
        if recorder.damaged or recorder.states:
            raise AssertionError(f"damage is reported: {recorder.damaged} {recorder.states}")
        if tell:
            print(f"round {number + 1}: {history.acknowledged} acknowledged, nothing lost")
    return history


def main() -> None:
    """Run some rounds from the command line."""
    if sys.argv[1:2] == ["victim"]:
        victim(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", default=str(time.time_ns()))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    server = PostgresServer()
    try:
        rounds(server.start(), "crash", options.rounds, options.seed, tell=True)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
