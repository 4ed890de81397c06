"""
Whole brokers: ended in the middle of streaming, and with disks that fail.

One round of each kind; C{python -m tests.storage.brokers} goes on for any number. Clients
that wait for an answer get one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import nats
import pytest

from natsbroker.streaming import protocol
from natsbroker.wire.columnar import readFrame
from tests.storage import shim
from tests.storage.answers import FAILURES, measure, tell
from tests.storage.brokers import WAYS, Journal, endOnce, start
from tests.storage.history import Lost
from tests.storage.shim import FOR_EVER, Act, Call, Orders, Plan
from tests.storage.streamclient import CLUSTER, PATIENCE, StreamClient, connectStream

WHY_NOT = shim.whyNot()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.realtime,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
]


def test_ended(tmp_path: Path) -> None:
    """No acknowledged message is lost when the broker is killed or stopped, or its power is cut."""
    journal = Journal()
    for number, way in enumerate(WAYS):
        endOnce(tmp_path, Random(number), journal, way, longest=0.3)
    assert journal.count > 10


def test_noticesDisksThatLie(tmp_path: Path) -> None:
    """A disk that reports syncs which it has not done is noticed by a lost message."""
    with pytest.raises(Lost):
        journal = Journal()
        for number in range(4):
            endOnce(tmp_path, Random(number), journal, "power", isHonest=False, longest=0.2)


async def untilRefused(client: StreamClient) -> tuple[int, str]:
    """
    Publish until a message is refused.

    @return: how many were stored, and the error.
    """
    stored = 0
    while not (error := await client.publish("full", b"x" * 100_000)):
        stored += 1
    return stored, error


async def untilStored(client: StreamClient) -> None:
    """
    Publish until a message is stored.
    """
    while await client.publish("full", b"x" * 100_000):
        await asyncio.sleep(0.1)


async def delivered(client: StreamClient, channel: str, count: int) -> list[int]:
    """
    The first sequences of a channel.
    """
    sequences: list[int] = []
    complete = asyncio.Event()

    def take(message: Any) -> bool:
        sequences.append(message.sequence)
        if len(sequences) >= count:
            complete.set()
        return True

    await client.subscribe(channel, take)
    await asyncio.wait_for(complete.wait(), PATIENCE)
    return sequences


async def checkBus(client: StreamClient) -> None:
    """Demand that messages that are not stored are delivered."""
    replies = await client.nc.subscribe("bus")
    await client.nc.publish("bus", b"hello")
    assert (await replies.next_msg(PATIENCE)).data == b"hello"
    await replies.unsubscribe()


@pytest.mark.parametrize("failure", FAILURES)
def test_diskFails(tmp_path: Path, failure: str) -> None:
    """
    While the disk is full or fails, publishers get an error, clients connect or are refused, and
    stored messages are delivered. Afterwards the same broker stores messages again.
    """

    async def story(port: int, client: StreamClient, orders: Orders) -> None:
        reader = await connectStream(port, "reader")
        for _ in range(5):
            assert await client.publish("full", b"x" * 100_000) == ""
        orders.give(FAILURES[failure])
        stored, error = await untilRefused(client)
        assert "store" in error or "space" in error, error
        assert (await untilRefused(client))[0] == 0
        await checkBus(client)
        newcomer = await connectStream(port, "newcomer")
        assert (await delivered(newcomer, "full", 5))[:5] == [1, 2, 3, 4, 5]
        await newcomer.leave()
        orders.clear()
        await untilStored(client)
        payloads = await delivered(reader, "full", 6 + stored)
        assert payloads[:5] == [1, 2, 3, 4, 5]
        assert payloads == sorted(set(payloads))
        await reader.leave()

    tell(tmp_path, story)


def test_measured(tmp_path: Path) -> None:
    """
    The long form, C{python -m tests.storage.answers}, measures how long answers take, and notices
    that a disk has recovered.
    """
    waits = measure(tmp_path, FAILURES["syncs fail"], 3)
    assert len(waits.answers) == 3
    assert waits.resumed > 0
    (tmp_path / "well").mkdir()
    with pytest.raises(Lost):
        measure(tmp_path / "well", Plan())


def test_exportsMeanwhile(tmp_path: Path) -> None:
    """
    A reader of stored messages is answered after a commit had no space, also if no client publishes
    any more.
    """

    async def story(port: int, client: StreamClient, orders: Orders) -> None:
        for _ in range(5):
            assert await client.publish("full", b"x" * 20_000) == ""
        orders.give(Plan(Act.FAIL, Call.ROOT, 1, FOR_EVER, errno.ENOSPC))
        assert (await untilRefused(client))[0] == 0
        asked = f"$NB.API.CHANNEL.EXPORT.{CLUSTER}.full"
        answer = await client.nc.request(asked, b'{"start": 1}', PATIENCE)
        frame = readFrame(answer.data)
        assert (frame.rows, frame.place.last) == (5, 5)
        orders.clear()
        await untilStored(client)

    tell(tmp_path, story)


def test_deliversMeanwhile(tmp_path: Path) -> None:
    """A subscriber from before the disk failed gets the stored messages while the disk fails."""

    async def story(port: int, client: StreamClient, orders: Orders) -> None:
        for _ in range(200):
            assert await client.publish("full", b"x" * 10_000) == ""
        sequences: list[int] = []
        complete = asyncio.Event()

        def take(message: Any) -> bool:
            sequences.append(message.sequence)
            if len(sequences) == 1:
                orders.give(Plan(Act.FAIL, Call.WRITE | Call.SYNC, 1, FOR_EVER))
            if len(sequences) == 200:
                complete.set()
            return True

        await client.subscribe("full", take, most=4)
        await asyncio.wait_for(complete.wait(), PATIENCE)
        assert sequences == [*range(1, 201)]
        assert await client.publish("full", b"x") != ""

    tell(tmp_path, story)


def test_slowDisk(tmp_path: Path) -> None:
    """
    While the disk is slow, only clients that publish to a channel wait; other messages are
    delivered.
    """

    async def story(port: int, client: StreamClient, orders: Orders) -> None:
        assert await client.publish("slow", b"x") == ""
        orders.give(Plan(Act.DELAY, Call.SYNC | Call.ROOT, microseconds=2_000_000))
        waiting = [await client.send("slow", b"x") for _ in range(100)]
        for _ in range(20):
            await checkBus(client)
        assert not any(deferred.done() for deferred in waiting)
        orders.clear()
        assert set(await asyncio.gather(*waiting)) == {""}

    tell(tmp_path, story)


def test_lateIsFull(tmp_path: Path) -> None:
    """
    A broker that starts with a full disk lets clients connect, and refuses their messages until
    there is space.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    start(disk / "store").stop()
    orders = Orders(tmp_path / "orders")
    orders.give(Plan(Act.FAIL, Call.WRITE | Call.SIZE, 1, FOR_EVER, errno.ENOSPC))
    broker = start(disk / "store", shim.environment(disk, orders.path))

    async def run() -> None:
        client = await connectStream(broker.port, "newcomer")
        assert await client.publish("full", b"x") != ""
        orders.clear()
        await untilStored(client)
        await client.leave()

    try:
        asyncio.run(run())
    finally:
        broker.stop()
        orders.close()


def test_lateIsFullForOldSubscriptions(tmp_path: Path) -> None:
    """
    A broker that starts with a full disk continues its stored subscriptions: messages are delivered
    for the first time and again.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    broker = start(disk / "store")
    answer: list[str] = []

    async def subscribe(port: int) -> None:
        client = await connectStream(port, "old")
        for number in range(20):
            assert await client.publish("full", b"%d" % number) == ""
        request = protocol.SubscriptionRequest(
            clientID="old",
            subject="full",
            inbox="inbox.of.old",
            maxInFlight=5,
            ackWaitInSecs=1,
            startPosition=protocol.FIRST,
        )
        answered = await client.nc.request(
            "_STAN.sub.test-cluster", request.SerializeToString(), PATIENCE
        )
        answer.append(protocol.SubscriptionResponse.FromString(answered.data).ackInbox)
        await client.leave()

    asyncio.run(subscribe(broker.port))
    os.kill(broker.pid, signal.SIGKILL)
    broker.stop()
    # The database takes what the journal has; a disk that fails every write is none with a journal.
    start(disk / "store").stop()
    orders = Orders(tmp_path / "orders")
    orders.give(Plan(Act.FAIL, Call.WRITE | Call.SIZE, 1, FOR_EVER, errno.ENOSPC))
    broker = start(disk / "store", shim.environment(disk, orders.path))

    async def goOn(port: int) -> None:
        nc = await nats.connect(f"nats://127.0.0.1:{port}")
        isRedelivered: dict[int, bool] = {}

        async def take(message: Any) -> None:
            delivery = protocol.MsgProto.FromString(message.data)
            isRedelivered.setdefault(delivery.sequence, delivery.redelivered)
            ack = protocol.Ack(subject="full", sequence=delivery.sequence)
            await nc.publish(answer[0], ack.SerializeToString())

        await nc.subscribe("inbox.of.old", cb=take)
        await asyncio.wait_for(_until(lambda: len(isRedelivered) == 20), PATIENCE)
        assert all(isRedelivered[number] for number in range(1, 6))
        await nc.close()

    try:
        asyncio.run(goOn(broker.port))
        assert orders.hits > 0
    finally:
        broker.stop()
        orders.close()


def test_damagedRecord(tmp_path: Path) -> None:
    """A damaged message is not delivered and is reported by channel and sequence; the others are
    delivered, and its sequence is not given again."""
    store = tmp_path / "store"
    broker = start(store)

    async def publish(port: int, published: range) -> None:
        client = await connectStream(port, "publisher")
        for number in published:
            assert await client.publish("bits", b"message %03d." % number) == ""
        await client.close()

    asyncio.run(publish(broker.port, range(1, 101)))
    broker.stop()
    database = store / "data.mdb"
    data = database.read_bytes()
    assert b"message 042." in data
    database.write_bytes(data.replace(b"message 042.", b"message 043."))
    broker = start(store)

    async def compare(port: int) -> None:
        await publish(port, range(101, 103))
        client = await connectStream(port, "subscriber")
        sequences = await delivered(client, "bits", 101)
        assert sequences == [*range(1, 42), *range(43, 103)]
        await client.close()

    try:
        asyncio.run(compare(broker.port))
        # Losses are reported beside deliveries.
        deadline = time.monotonic() + 60
        while "Messages 42 to 42 of stan/test-cluster/bits are damaged and lost" not in broker.log:
            assert time.monotonic() < deadline, broker.log
            time.sleep(0.02)
    finally:
        broker.stop()


def test_damagedTree(tmp_path: Path) -> None:
    """A broker starts although its damaged database has to be made again, reports this, and
    continues."""
    store = tmp_path / "store"
    broker = start(store)

    async def publish(port: int, published: range) -> None:
        client = await connectStream(port, "publisher")
        for number in published:
            assert await client.publish("bits", b"%d" % number) == ""
        await client.close()

    asyncio.run(publish(broker.port, range(1, 101)))
    broker.stop()
    data = bytearray((store / "data.mdb").read_bytes())
    data[: 2 * 4096] = bytes(2 * 4096)
    (store / "data.mdb").write_bytes(data)
    broker = start(store)

    async def compare(port: int) -> None:
        client = await connectStream(port, "subscriber")
        assert await delivered(client, "bits", 100) == [*range(1, 101)]
        await publish(port, range(101, 102))
        await client.close()

    try:
        asyncio.run(compare(broker.port))
        assert "was repaired" in broker.log
        assert (store / "damaged-1" / "data.mdb").read_bytes() == bytes(data)
    finally:
        broker.stop()


def test_gonePages(tmp_path: Path) -> None:
    """
    If pages of the database cannot be read any more, the broker ends, because the database is
    mapped into memory. The next broker delivers the intact messages, reports the losses, and gives
    no sequence again.
    """
    store = tmp_path / "store"
    broker = start(store)
    database = store / "data.mdb"

    async def fill(port: int) -> None:
        client = await connectStream(port, "publisher")
        waiting = [await client.send("pages", b"%0512d" % number) for number in range(4000)]
        assert set(await asyncio.gather(*waiting)) == {""}
        await client.leave()

    async def read(port: int) -> None:
        client = await connectStream(port, "reader")
        await client.subscribe("pages", lambda message: True)
        await asyncio.wait_for(_until(lambda: client.nc.is_closed), PATIENCE)

    asyncio.run(fill(broker.port))
    # For a mapping, the rest of the file is then as if the disk could not read it.
    used = database.stat().st_size
    os.truncate(database, 1 << 20)
    try:
        asyncio.run(read(broker.port))
    finally:
        status = broker.stop()
    assert used > 2 << 20
    assert status == -signal.SIGBUS
    broker = start(store)

    async def compare(port: int) -> None:
        client = await connectStream(port, "comparing")
        sequences: list[int] = []

        def take(message: Any) -> bool:
            sequences.append(message.sequence)
            return True

        await client.subscribe("pages", take)
        assert await client.publish("pages", b"new") == ""
        await asyncio.wait_for(_until(lambda: max(sequences, default=0) > 4000), PATIENCE)
        assert sequences == sorted(set(sequences))
        await client.close()

    try:
        asyncio.run(compare(broker.port))
        assert "was repaired" in broker.log
        assert re.search(r"of stan/test-cluster/pages are damaged and lost", broker.log)
    finally:
        broker.stop()


async def _until(isTrue: Callable[[], bool]) -> None:
    while not isTrue():
        await asyncio.sleep(0.02)
