"""
Whole brokers that end, in the middle of streaming: C{python -m tests.storage.brokers --rounds N}.

A broker serves NATS Streaming from a store on disk. Three clients publish: one waits for each
PubAck, two have many underway; a durable subscription acknowledges. The broker is killed, or
stopped, or the power is cut, and another one goes on with what is on the disk then.

Every message whose PubAck came is delivered again afterwards, with the sequence that it
had, in order; nothing that nobody published is; the durable subscription leaves nothing out.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import nats.errors

from natsbroker.testing.process import BrokerProcess, startBroker
from tests.storage import shim
from tests.storage.disk import Disk, Survival
from tests.storage.history import Lost
from tests.storage.shim import Orders
from tests.storage.streamclient import StreamClient, connectStream

WAYS = ("kill", "stop", "power")
"""The ends of a broker."""

CHANNELS = {"one": 1, "many": 16, "more": 64}
"""The channels, and how many messages are underway to each at most."""

DURABLE = "one"
"""The channel with the durable subscription."""

SILENCE = 0.3
"""Seconds without any message after which there are none any more, if nothing is missing."""


@dataclass
class Journal:
    """
    The events of several brokers.

    @ivar published: by channel, the messages that were sent, in order.
    @ivar acked: by channel, those whose PubAck came, and how long the trace was then.
    @ivar sequences: by channel, the sequence of each message that was ever delivered.
    @ivar settled: what the durable subscription acknowledged.
    @ivar owed: what it did not acknowledge, with a PubAck, and so has to be delivered.
    """

    published: dict[str, list[bytes]] = field(
        default_factory=lambda: {channel: [] for channel in CHANNELS}
    )
    acked: dict[str, dict[bytes, int]] = field(
        default_factory=lambda: {channel: {} for channel in CHANNELS}
    )
    sequences: dict[str, dict[bytes, int]] = field(
        default_factory=lambda: {channel: {} for channel in CHANNELS}
    )
    settled: set[bytes] = field(default_factory=set)

    @property
    def count(self) -> int:
        """The number of PubAcks that came."""
        return sum(map(len, self.acked.values()))

    def forget(self, length: int) -> None:
        """Forget what happened after the trace had some length, as the power was cut then."""
        for channel, acked in self.acked.items():
            self.acked[channel] = {key: at for key, at in acked.items() if at <= length}
            self.sequences[channel] = {
                key: sequence
                for key, sequence in self.sequences[channel].items()
                if key in self.acked[channel]
            }

    def hold(self) -> None:
        """Note all acknowledged messages as durable, whatever trace comes next."""
        for acked in self.acked.values():
            for number in acked:
                acked[number] = 0


def start(store: Path, environment: dict[str, str] | None = None) -> BrokerProcess:
    """Start a broker, with patience, as the machine may be busy."""
    arguments = ("-store", "file", "-dir", str(store))
    return startBroker(*arguments, environment=environment, patience=120)


async def load(port: int, journal: Journal, trace: Path | None, seconds: float) -> None:
    """
    Publish and subscribe for a while.

    @param trace: the trace of the broker's disk, if there is one.
    """
    client = await connectStream(port, "load")
    subscriber = await connectStream(port, "subscriber")
    ended = asyncio.Event()

    def take(message: Any) -> bool:
        journal.settled.add(message.data)
        return True

    await subscriber.subscribe(DURABLE, take, "durable")
    tasks = [
        asyncio.ensure_future(_publish(client, journal, trace, channel, most, ended))
        for channel, most in CHANNELS.items()
    ]
    try:
        await asyncio.sleep(seconds)
    finally:
        ended.set()
        for task in tasks:
            task.cancel()
        for peer in (client, subscriber):
            await peer.leave()


async def _publish(
    client: StreamClient,
    journal: Journal,
    trace: Path | None,
    channel: str,
    most: int,
    ended: asyncio.Event,
) -> None:
    """Publish to one channel until the load ends."""
    room = asyncio.Semaphore(most)

    def answered(data: bytes, future: asyncio.Future[str]) -> None:
        room.release()
        if not future.cancelled() and not future.result():
            size = os.stat(trace).st_size if trace is not None else 0
            journal.acked[channel][data] = size

    while not ended.is_set():
        await room.acquire()
        data = b"%s %d" % (channel.encode(), len(journal.published[channel]))
        journal.published[channel].append(data)
        try:
            future = await client.send(channel, data)
        except nats.errors.Error:
            return  # the broker is gone, as it was meant to be
        future.add_done_callback(partial(answered, data))


async def compare(port: int, journal: Journal) -> None:
    """
    Compare the channels and the durable subscription of a broker with the journal.

    @raise Lost: if it is not.
    """
    client = await connectStream(port, "comparing")
    for channel in CHANNELS:
        got: list[tuple[bytes, int]] = []

        def take(message: Any, got: list[tuple[bytes, int]] = got) -> bool:
            got.append((message.data, message.sequence))
            return True

        await client.subscribe(channel, take, most=2048)
        await _until(partial(_hasAll, journal.acked[channel], got), got)
        _compare(channel, journal, got)
    await client.close()
    await _compareDurable(port, journal)


def _hasAll(acked: dict[bytes, int], got: Sequence[tuple[bytes, int]]) -> bool:
    """
    Whether all of some messages were delivered.
    """
    return len(got) >= len(acked) and acked.keys() <= {body for body, _ in got}


def _compare(channel: str, journal: Journal, got: Sequence[tuple[bytes, int]]) -> None:
    """Compare the delivered messages of one channel with the journal."""
    deliveries = dict(got)
    if len(deliveries) != len(got):
        raise Lost(f"{channel}: messages were stored twice, or delivered twice")
    missing = journal.acked[channel].keys() - deliveries.keys()
    if missing:
        raise Lost(f"{channel}: {len(missing)} messages are gone, {min(missing)!r} is one")
    unknown = deliveries.keys() - set(journal.published[channel])
    if unknown:
        raise Lost(f"{channel}: nobody published {min(unknown)!r}")
    numbers = [int(line.split()[1]) for line, _ in sorted(got, key=lambda line: line[1])]
    if numbers != sorted(numbers):
        raise Lost(f"{channel}: messages are out of order")
    for body, sequence in journal.sequences[channel].items():
        if deliveries.get(body, sequence) != sequence:
            raise Lost(f"{channel}: {body!r} was {sequence} and is {deliveries[body]}")
    journal.sequences[channel] = deliveries
    for body in deliveries:
        journal.acked[channel].setdefault(body, 0)


async def _compareDurable(port: int, journal: Journal) -> None:
    """Demand that the durable subscription continues, and leaves out no message."""
    client = await connectStream(port, "subscriber")
    acks: dict[bytes, int] = {}

    def take(message: Any) -> bool:
        acks[message.data] = message.sequence
        return True

    def owed() -> set[bytes]:
        return journal.acked[DURABLE].keys() - journal.settled - acks.keys()

    await client.subscribe(DURABLE, take, "durable")
    await _until(lambda: not owed(), acks)
    if owed():
        raise Lost(f"the durable subscription left out {min(owed())!r}")
    journal.settled.update(acks)
    await client.leave()


async def _until(isComplete: Callable[[], bool], collection: Sized) -> None:
    """
    Wait until all expected messages have come and no more follow, or until none has come for long.
    """
    before, silent = -1, 0.0
    while silent < (SILENCE if isComplete() else 20 * SILENCE):
        silent = silent + 0.05 if len(collection) == before else 0.0
        before = len(collection)
        await asyncio.sleep(0.05)


def endOnce(
    where: Path,
    random: Random,
    journal: Journal,
    way: str,
    isHonest: bool = True,
    longest: float = 1.0,
) -> None:
    """
    Have a broker work, and end it; compare with another one.

    @param where: a directory whose C{disk} has the store.
    @param way: one of L{WAYS}.
    @param isHonest: whether the disk really syncs.
    @param longest: how long the broker works at most, in seconds.
    @raise Lost: if something is not as it must be.
    """
    disk = where / "disk"
    disk.mkdir(exist_ok=True)
    seconds = random.uniform(0.1, longest)
    if way == "power":
        _cutPower(where, random, journal, seconds, isHonest)
    else:
        broker = start(disk / "store")
        asyncio.run(_loaded(broker, journal, None, seconds, way))
    broker = start(disk / "store")
    try:
        asyncio.run(compare(broker.port, journal))
        if "damaged" in broker.log or "lost" in broker.log:
            raise Lost(f"damage is reported: {broker.log}")
    finally:
        broker.stop()


async def _loaded(
    broker: BrokerProcess, journal: Journal, trace: Path | None, seconds: float, way: str
) -> None:
    """Load a broker, and end it in the middle of its work."""
    loading = asyncio.ensure_future(load(broker.port, journal, trace, seconds + 60))
    await asyncio.sleep(seconds)
    while journal.count == 0 and not loading.done():
        await asyncio.sleep(0.05)
    os.kill(broker.pid, signal.SIGTERM if way == "stop" else signal.SIGKILL)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, broker.stop)
    loading.cancel()
    try:
        await loading
    except (asyncio.CancelledError, Exception):
        pass  # its broker is gone, and that is what it was told


def _cutPower(
    where: Path, random: Random, journal: Journal, seconds: float, isHonest: bool
) -> None:
    """
    Have a broker work on a disk that remembers, and cut its power at some moment.
    """
    disk, before, copy = (where / name for name in ("disk", "before", "found"))
    shutil.copytree(disk, before)
    orders, trace = Orders(where / "orders"), where / "trace"
    trace.unlink(missing_ok=True)
    orders.clear()
    broker = start(disk / "store", shim.environment(disk, orders.path, str(trace)))
    opened = trace.stat().st_size
    asyncio.run(_loaded(broker, journal, trace, seconds, "kill"))
    orders.close()
    model = Disk(before, isHonest)
    moment = random.randint(opened, trace.stat().st_size)
    last = 0
    for event in shim.readTrace(trace):
        if event.end > moment:
            break
        model.follow(event)
        last = event.end
    model.cut(random, random.choice(list(Survival)), copy)
    journal.forget(last)
    journal.hold()
    shutil.rmtree(disk)
    shutil.rmtree(before)
    copy.rename(disk)


def main() -> None:
    """Run some rounds from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--fresh", type=int, default=20, help="rounds of one store")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    where = Path(tempfile.mkdtemp(prefix="natsbroker-brokers-"))
    journal = Journal()
    for number in range(options.rounds):
        if number % options.fresh == 0:
            shutil.rmtree(where)
            where.mkdir()
            journal = Journal()
        way = options.ways[number % len(options.ways)]
        endOnce(where, Random(f"{options.seed}/{number}"), journal, way)
        print(f"round {number + 1}: {way}, {journal.count} acknowledged, nothing lost", flush=True)
    shutil.rmtree(where)


if __name__ == "__main__":
    main()
