"""
The time in which a broker reports that a message is not stored, and stores again when the disk is
well: C{python -m tests.storage.answers --rounds N}.

Brokers of their own, whose disks fail as in L{FAILURES}; every publisher is answered, and how long
that took is measured. Run as a program, it fails if an answer took longer than L{ANSWER}, or if
writing did not resume within L{RESUMED}.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.storage import shim
from tests.storage.brokers import start
from tests.storage.history import Lost
from tests.storage.shim import FOR_EVER, Act, Call, Orders, Plan
from tests.storage.streamclient import PATIENCE, StreamClient, connectStream

T = TypeVar("T")

Story = Callable[[int, StreamClient, Orders], Awaitable[T]]

FAILURES = {
    "full": Plan(space=0),
    "no space for writes": Plan(Act.FAIL, Call.WRITE | Call.SIZE, 1, FOR_EVER, errno.ENOSPC),
    "syncs fail": Plan(Act.FAIL, Call.SYNC),
    "writes fail": Plan(Act.FAIL, Call.WRITE),
}

ANSWER = 1.0
"""Seconds within which a publisher has its error."""

RESUMED = 5.0
"""Seconds within which messages are stored again after the disk is well."""

DATA = b"x" * 100_000


@dataclass
class Waits:
    """
    Waiting times, in seconds.

    @ivar answers: each PubAck with an error.
    @ivar resumed: from when the disk was well until a message was stored.
    """

    answers: list[float] = field(default_factory=list)
    resumed: float = 0.0


def tell(where: Path, story: Story[T]) -> T:
    """Start a broker whose disk can be made to fail, connect a client, and run a story."""
    disk = where / "disk"
    disk.mkdir()
    orders = Orders(where / "orders")
    orders.clear()
    broker = start(disk / "store", shim.environment(disk, orders.path))

    async def run() -> T:
        client = await connectStream(broker.port, "teller")
        try:
            return await asyncio.wait_for(story(broker.port, client, orders), 3 * PATIENCE)
        finally:
            orders.clear()
            await client.leave()

    try:
        return asyncio.run(run())
    finally:
        orders.clear()
        broker.stop()
        orders.close()


def measure(where: Path, plan: Plan, count: int = 20) -> Waits:
    """
    Make one disk fail for a while, and measure the answers.

    @param count: how many messages are refused, one after the other.
    @raise Lost: if a message is stored that should not be.
    """

    async def story(port: int, client: StreamClient, orders: Orders) -> Waits:
        waits = Waits()
        if await client.publish("full", DATA):
            raise Lost("nothing was stored while all was well")
        orders.give(plan)
        stored = 0
        while len(waits.answers) < count:
            asked = time.monotonic()
            if await client.publish("full", DATA):
                waits.answers.append(time.monotonic() - asked)
            else:
                stored += 1
                if waits.answers or stored > 1000:
                    raise Lost("the disk fails, and messages are stored")
        orders.clear()
        cleared = time.monotonic()
        while await client.publish("full", DATA):
            await asyncio.sleep(0.01)
        waits.resumed = time.monotonic() - cleared
        return waits

    return tell(where, story)


def main() -> None:
    """Run the measurement from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    late = 0
    for name, plan in FAILURES.items():
        measures = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="natsbroker-answers-") as where:
                measures.append(measure(Path(where), plan))
        answers = [answer for waits in measures for answer in waits.answers]
        resumed = max(waits.resumed for waits in measures)
        late += sum(answer > ANSWER for answer in answers) + (resumed > RESUMED)
        print(
            f"{name}: {len(answers)} answers, the latest after {max(answers) * 1e3:.0f} ms; "
            f"stored again after {resumed:.2f} s at most",
            flush=True,
        )
    if late:
        raise SystemExit(f"{late} were too late")


if __name__ == "__main__":
    main()
