"""
nats-py uses the streams, consumers, key-value and object stores of the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError, ObjectNotFoundError

from tests.interop.jetstream.asking import STORAGE
from tests.interop.servers import OURS, PATIENCE, Flavour, Server

_Scenario = Callable[[Any], Awaitable[None]]


@pytest.fixture(params=OURS, ids=lambda own: own.name)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """
    A broker with JetStream.
    """
    flavour: Flavour = request.param
    running = Server(flavour, tmp_path, STORAGE).start()
    yield running
    running.stop()


def _play(server: Server, scenario: _Scenario) -> None:
    """Run a scenario with the JetStream context of nats-py."""

    async def connected() -> None:
        failures: list[Exception] = []

        async def failed(error: Exception) -> None:
            failures.append(error)

        client = await nats.connect(server.url, error_cb=failed)
        try:
            await scenario(client.jetstream(timeout=PATIENCE))
        finally:
            await client.close()
        assert failures == []

    asyncio.run(asyncio.wait_for(connected(), 4 * PATIENCE))


async def _filled(context: Any) -> None:
    await context.add_stream(name="S", subjects=["s.*"])
    for number in range(6):
        answer = await context.publish(f"s.{number % 2}", b"%d" % number)
        assert (answer.stream, answer.seq) == ("S", number + 1)


async def _next(subscription: Any, count: int) -> list[bytes]:
    return [(await subscription.next_msg(PATIENCE)).data for _ in range(count)]


def test_pull(server: Server) -> None:
    """A pull consumer fetches in batches, and gets a rejected message again."""

    async def scenario(context: Any) -> None:
        await _filled(context)
        puller = await context.pull_subscribe("s.0", "puller")
        first, second = await puller.fetch(2, PATIENCE)
        assert (first.data, second.data) == (b"0", b"2")
        await first.ack_sync(PATIENCE)
        await second.nak()
        messages = await puller.fetch(2, PATIENCE)
        assert [message.data for message in messages] == [b"2", b"4"]
        assert [message.metadata.num_delivered for message in messages] == [2, 1]
        for message in messages:
            await message.ack_sync(PATIENCE)
        info = await puller.consumer_info()
        assert (info.num_pending, info.num_ack_pending, info.ack_floor.stream_seq) == (0, 0, 5)

    _play(server, scenario)


def test_push(server: Server) -> None:
    """A push consumer delivers stored and later messages."""

    async def scenario(context: Any) -> None:
        await _filled(context)
        pushed = await context.subscribe("s.1", durable="pusher")
        assert await _next(pushed, 3) == [b"1", b"3", b"5"]
        await context.publish("s.1", b"later")
        assert await _next(pushed, 1) == [b"later"]

    _play(server, scenario)


def test_ordered(server: Server) -> None:
    """An ordered consumer gets every message in order."""

    async def scenario(context: Any) -> None:
        await _filled(context)
        ordered = await context.subscribe("s.*", ordered_consumer=True)
        assert await _next(ordered, 6) == [b"%d" % number for number in range(6)]
        await context.publish("s.0", b"later")
        assert await _next(ordered, 1) == [b"later"]

    _play(server, scenario)


def test_queueGroup(server: Server) -> None:
    """The members of a queue group share the messages of one consumer."""

    async def scenario(context: Any) -> None:
        await _filled(context)
        payloads: list[bytes] = []
        everything = asyncio.Event()

        async def arrived(message: Any) -> None:
            payloads.append(message.data)
            if len(payloads) == 6:
                everything.set()

        for _ in range(2):
            await context.subscribe("s.*", queue="workers", cb=arrived)
        await asyncio.wait_for(everything.wait(), PATIENCE)
        assert sorted(payloads) == [b"%d" % number for number in range(6)]
        assert [info.name for info in await context.consumers_info("S")] == ["workers"]

    _play(server, scenario)


def test_deliverPolicies(server: Server) -> None:
    """A consumer with the policy last-per-subject begins with the last message of each subject."""

    async def scenario(context: Any) -> None:
        await _filled(context)
        config = ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT)
        last = await context.subscribe("s.*", config=config)
        assert await _next(last, 2) == [b"4", b"5"]

    _play(server, scenario)


def test_keys(server: Server) -> None:
    """A bucket keeps values, their revisions and deletions."""

    async def scenario(context: Any) -> None:
        bucket = await context.create_key_value(bucket="B", history=5, direct=False)
        assert await bucket.create("a", b"1") == 1
        with pytest.raises(KeyWrongLastSequenceError):
            await bucket.create("a", b"2")
        assert await bucket.update("a", b"2", last=1) == 2
        with pytest.raises(KeyWrongLastSequenceError):
            await bucket.update("a", b"3", last=1)
        assert await bucket.put("b", b"other") == 3
        assert (await bucket.get("a")).value == b"2"
        assert (await bucket.get("a", revision=1)).value == b"1"
        assert [entry.value for entry in await bucket.history("a")] == [b"1", b"2"]
        assert sorted(await bucket.keys()) == ["a", "b"]
        await bucket.delete("b")
        with pytest.raises(KeyNotFoundError):
            await bucket.get("b")
        await bucket.purge("a")
        assert [entry.operation for entry in await bucket.history("a")] == ["PURGE"]
        assert (await bucket.status()).values == 3
        assert await context.delete_key_value("B")

    _play(server, scenario)


def test_watch(server: Server) -> None:
    """A watcher gets the last value of each key, then every change."""

    async def scenario(context: Any) -> None:
        bucket = await context.create_key_value(bucket="B", direct=False)
        for key, value in (("a", b"1"), ("a", b"2"), ("b", b"3"), ("a", b"4")):
            await bucket.put(key, value)
        watcher = await bucket.watchall()
        updates = [await watcher.updates(PATIENCE) for _ in range(2)]
        assert [(update.key, update.value, update.delta) for update in updates] == [
            ("b", b"3", 1),
            ("a", b"4", 0),
        ]
        assert await watcher.updates(PATIENCE) is None
        await bucket.delete("b")
        changed = await watcher.updates(PATIENCE)
        assert (changed.key, changed.operation, changed.revision) == ("b", "DEL", 5)

    _play(server, scenario)


def test_objects(server: Server) -> None:
    """An object of many chunks is stored, listed, read and deleted."""

    async def scenario(context: Any) -> None:
        store = await context.create_object_store(bucket="O")
        content = bytes(range(256)) * 2000
        info = await store.put("big", content)
        assert (info.size, info.chunks) == (len(content), 4)
        await store.put("small", b"s")
        assert (await store.get("big")).data == content
        assert sorted(bucket.name for bucket in await store.list()) == ["big", "small"]
        await store.delete("big")
        with pytest.raises(ObjectNotFoundError):
            await store.get("big")
        assert [bucket.name for bucket in await store.list(ignore_deletes=True)] == ["small"]

    _play(server, scenario)
