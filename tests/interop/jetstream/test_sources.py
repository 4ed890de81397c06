"""
Mirrors and sources, as clients create and see them, with origins in the same server and in a
nats-server behind a leafnode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import ExternalStream, StreamSource

from tests.interop.jetstream.shared import ask
from tests.interop.jetstreams import storage
from tests.interop.leafnodes.brokers import Broker
from tests.interop.servers import OURS_FAST, OURS_PURE, PATIENCE, REAL, Flavour, Server

OURS = pytest.mark.parametrize("flavour", [OURS_FAST, OURS_PURE], ids=lambda flavour: flavour.name)

ACCOUNT = "J { users: [ {user: j, password: j} ], jetstream: enabled }"
COUNT = 500


def run(server: Server, steps: Callable[[Any, Any], Awaitable[None]], user: str = "") -> None:
    """Run a coroutine with a client."""

    async def work() -> None:
        login = {"user": user, "password": user} if user else {}
        client = await nats.connect(server.url, **login)
        await steps(client, client.jetstream(timeout=PATIENCE))
        await client.close()

    asyncio.run(asyncio.wait_for(work(), 4 * PATIENCE))


async def reaches(jetstream: Any, name: str, last: int) -> Any:
    """Wait until a stream has a sequence, and return its information."""
    while True:
        info = await jetstream.stream_info(name)
        if info.state.last_seq >= last:
            return info
        await asyncio.sleep(0.05)


async def publishes(jetstream: Any, count: int) -> None:
    sending = [
        jetstream.publish_async(f"o.{number % 5}", b"%d" % number) for number in range(count)
    ]
    await asyncio.gather(*await asyncio.gather(*sending))


async def isCopied(origin: Any, jetstream: Any, name: str, sequence: int) -> None:
    """Check that a message of a mirror equals that of its origin."""
    original = await origin.get_msg("O", sequence)
    copy = await jetstream.get_msg(name, sequence)
    assert (copy.subject, copy.data, copy.time) == (original.subject, original.data, original.time)


@OURS
def test_withinOneServer(flavour: Flavour, tmp_path: Path) -> None:
    """
    A mirror and a source follow their origin, also after a restart, and no message is lost or
    doubled.
    """
    server = Server(flavour, tmp_path, storage()).start()

    async def before(client: Any, jetstream: Any) -> None:
        await jetstream.add_stream(name="O", subjects=["o.>"])
        await publishes(jetstream, COUNT)
        await jetstream.add_stream(name="M", mirror=StreamSource("O"))
        await jetstream.add_stream(
            name="T", subjects=["t"], sources=[StreamSource("O", filter_subject="o.1")]
        )
        await publishes(jetstream, COUNT)
        info = await reaches(jetstream, "M", 2 * COUNT)
        assert (info.mirror.name, info.mirror.lag) == ("O", 0)
        await isCopied(jetstream, jetstream, "M", COUNT)
        await reaches(jetstream, "T", 2 * COUNT // 5)

    async def after(client: Any, jetstream: Any) -> None:
        await publishes(jetstream, COUNT)
        assert (await reaches(jetstream, "M", 3 * COUNT)).state.messages == 3 * COUNT
        info = await reaches(jetstream, "T", 3 * COUNT // 5)
        assert info.state.messages == 3 * COUNT // 5
        assert info.sources[0].lag == 0
        last = await jetstream.get_msg("T", 3 * COUNT // 5)
        assert last.headers["Nats-Stream-Source"].startswith(f"O {3 * COUNT - 3} o.1 > o.1")
        await isCopied(jetstream, jetstream, "M", 3 * COUNT)

    try:
        run(server, before)
        server.stop()
        server.start()
        run(server, after)
    finally:
        server.stop()


@pytest.mark.parametrize("flavour", [OURS_FAST, OURS_PURE, REAL], ids=lambda flavour: flavour.name)
def test_nothingLeft(flavour: Flavour, tmp_path: Path) -> None:
    """
    A message of a source that a stream has removed is not copied again, neither after a kill nor by
    a source that is configured again or with another filter.
    """
    server = Server(flavour, tmp_path, storage()).start()
    config: dict[str, dict[str, Any]] = {
        "QUEUE": {"retention": "workqueue"},
        "PURGED": {},
        "AGED": {"max_age": 0.1},
        "PUSHED": {"max_msgs": 3, "subjects": ["p"]},
        "AGAIN": {"subjects": ["a"]},
        "OTHER": {"subjects": ["b"]},
    }

    async def before(client: Any, jetstream: Any) -> None:
        await jetstream.add_stream(name="O", subjects=["o.>"])
        await publishes(jetstream, 10)
        for name, more in config.items():
            only = "o.1" if name == "OTHER" else None
            source = StreamSource("O", filter_subject=only)
            await jetstream.add_stream(name=name, sources=[source], **more)
        for name in config:
            await reaches(jetstream, name, 2 if name == "OTHER" else 10)
        await jetstream.purge_stream("PURGED")
        worker = await jetstream.pull_subscribe("", durable="w", stream="QUEUE")
        for message in await worker.fetch(10):
            await message.ack_sync()
        for _ in range(3):
            await jetstream.publish("p", b"own")
        while (await jetstream.stream_info("AGED")).state.messages:
            await asyncio.sleep(0.05)
        for name, subject in (("AGAIN", "o.>"), ("OTHER", "o.2")):
            await jetstream.purge_stream(name)
            await jetstream.update_stream(name=name, **config[name])
            sources = [StreamSource("O", filter_subject=subject)]
            await jetstream.update_stream(name=name, sources=sources, **config[name])

    async def after(client: Any, jetstream: Any) -> None:
        await jetstream.publish("o.2", b"new")
        lasts = {}
        for name in config:
            first = {"PUSHED": 13, "OTHER": 2}.get(name, 10)
            lasts[name] = (await reaches(jetstream, name, first + 1)).state.last_seq - first
        assert lasts == dict.fromkeys(config, 1)
        for name in config.keys() - {"AGED"}:
            last = (await jetstream.stream_info(name)).state.last_seq
            assert (await jetstream.get_msg(name, last)).data == b"new"

    try:
        run(server, before)
        server.signal("KILL")
        server.exitStatus()
        server.restart()
        run(server, after)
    finally:
        server.stop()


@OURS
def test_behindLeafnode(flavour: Flavour, tmp_path: Path) -> None:
    """
    A mirror and a source can have a stream of a nats-server behind a leafnode as their origin, in
    its domain.
    """
    hub = Broker(REAL, tmp_path, "hub", top=storage("hub"), accounts=ACCOUNT).start()
    remote = hub.remote("j", "J")
    spoke = Broker(flavour, tmp_path, "spoke", remote, False, storage("leaf"), ACCOUNT)

    async def fill(client: Any, jetstream: Any) -> None:
        await jetstream.add_stream(name="O", subjects=["o.>"])
        await publishes(jetstream, COUNT)

    async def follow(client: Any, jetstream: Any) -> None:
        external = ExternalStream("$JS.hub.API")
        await jetstream.add_stream(name="M", mirror=StreamSource("O", external=external))
        await jetstream.add_stream(name="T", sources=[StreamSource("O", external=external)])
        assert (await reaches(jetstream, "M", COUNT)).mirror.name == "O"
        assert (await reaches(jetstream, "T", COUNT)).state.messages == COUNT
        origin = client.jetstream(domain="hub", timeout=PATIENCE)
        await isCopied(origin, jetstream, "M", COUNT)
        await publishes(origin, 10)
        await reaches(jetstream, "M", COUNT + 10)
        last = await jetstream.get_msg("T", COUNT)
        assert last.subject == f"o.{(COUNT - 1) % 5}"

    try:
        run(hub, fill, "j")
        spoke.start()
        run(spoke, follow, "j")
        assert spoke.complaints() == []
    finally:
        spoke.stop()
        hub.stop()


SIDES = pytest.mark.parametrize(
    ("hub", "leaf"),
    [(REAL, REAL), (OURS_FAST, OURS_FAST), (REAL, OURS_FAST), (OURS_FAST, REAL)],
    ids=lambda flavour: flavour.name,
)


@SIDES
def test_full(hub: Flavour, leaf: Flavour, tmp_path: Path) -> None:
    """
    A full stream copies the rest of a work queue when it has room, also after a restart. Meanwhile
    the queue keeps the messages. Its consumer in the queue is deleted with the stream.
    """
    origin = Broker(hub, tmp_path, "hub", top=storage("hub"), accounts=ACCOUNT).start()
    spoke = Broker(
        leaf, tmp_path, "spoke", origin.remote("j", "J"), False, storage("leaf"), ACCOUNT
    )

    async def fill(client: Any, jetstream: Any) -> None:
        await jetstream.add_stream(name="O", subjects=["o.>"], retention="workqueue")
        await publishes(jetstream, 9)

    async def taken(client: Any, jetstream: Any, last: int) -> list[bytes]:
        await reaches(jetstream, "T", last)
        bodies = [
            (await jetstream.get_msg("T", sequence)).data for sequence in range(last - 2, last + 1)
        ]
        await jetstream.purge_stream("T")
        return bodies

    async def read(client: Any, jetstream: Any) -> None:
        source = {"name": "O", "external": {"api": "$JS.hub.API"}}
        config = {"name": "T", "sources": [source], "max_msgs": 3, "discard": "new"}
        assert (await ask(client, "STREAM.CREATE.T", config)).get("error") is None
        assert await taken(client, jetstream, 3) == [b"0", b"1", b"2"]
        await reaches(jetstream, "T", 6)

    async def goesOn(client: Any, jetstream: Any) -> None:
        queue = client.jetstream(domain="hub", timeout=PATIENCE)
        assert await taken(client, jetstream, 6) == [b"3", b"4", b"5"]
        assert await taken(client, jetstream, 9) == [b"6", b"7", b"8"]
        while (info := await queue.stream_info("O")).state.messages:
            await asyncio.sleep(0.05)
        assert info.state.consumer_count == 1
        await jetstream.delete_stream("T")
        while (await queue.stream_info("O")).state.consumer_count:
            await asyncio.sleep(0.05)

    try:
        run(origin, fill, "j")
        spoke.start()
        run(spoke, read, "j")
        spoke.stop()
        spoke.start()
        run(spoke, goesOn, "j")
    finally:
        spoke.stop()
        origin.stop()


@SIDES
def test_namedConsumer(hub: Flavour, leaf: Flavour, tmp_path: Path) -> None:
    """
    A stream behind a leafnode reads a work queue through a durable consumer, also after the link
    was lost. Each message is stored once, and none is left in the queue.
    """
    origin = Broker(hub, tmp_path, "hub", top=storage("hub"), accounts=ACCOUNT).start()
    spoke = Broker(
        leaf, tmp_path, "spoke", origin.remote("j", "J"), False, storage("leaf"), ACCOUNT
    )
    consumer = {
        "durable_name": "C",
        "ack_policy": "flow_control",
        "deliver_subject": "deliver.c",
        "flow_control": True,
        "idle_heartbeat": 1_000_000_000,
        "max_ack_pending": 100,
    }

    async def fill(client: Any, jetstream: Any) -> None:
        await jetstream.add_stream(name="O", subjects=["o.>"], retention="workqueue")
        body = {"stream_name": "O", "config": consumer}
        answer = await ask(client, "CONSUMER.DURABLE.CREATE.O.C", body)
        assert answer.get("error") is None
        await publishes(jetstream, COUNT)

    async def read(client: Any, jetstream: Any) -> None:
        named = {"name": "C", "deliver_subject": "deliver.c"}
        source = {"name": "O", "consumer": named, "external": {"api": "$JS.hub.API"}}
        answer = await ask(client, "STREAM.CREATE.T", {"name": "T", "sources": [source]})
        assert answer["config"]["sources"][0]["consumer"] == named
        await reaches(jetstream, "T", COUNT)

    async def goesOn(client: Any, jetstream: Any) -> None:
        queue = client.jetstream(domain="hub", timeout=PATIENCE)
        info = await reaches(jetstream, "T", 2 * COUNT)
        while (await queue.stream_info("O")).state.messages:
            await asyncio.sleep(0.05)
        assert info.state.messages == 2 * COUNT
        bodies = [
            (await jetstream.get_msg("T", sequence)).data for sequence in (1, COUNT, 2 * COUNT)
        ]
        assert bodies == [b"0", b"%d" % (COUNT - 1), b"%d" % (COUNT - 1)]

    async def more(client: Any, jetstream: Any) -> None:
        await publishes(jetstream, COUNT)

    try:
        run(origin, fill, "j")
        spoke.start()
        run(spoke, read, "j")
        spoke.stop()
        run(origin, more, "j")
        spoke.start()
        run(spoke, goesOn, "j")
    finally:
        spoke.stop()
        origin.stop()
