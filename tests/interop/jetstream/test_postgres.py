"""
The streams of a broker that keeps them in PostgreSQL.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats

from tests.interop.jetstream.shared import asked
from tests.interop.servers import OURS_FAST, PATIENCE, Server
from tests.postgresql import PostgresServer


def test_killed(postgres: PostgresServer, tmp_path: Path) -> None:
    """A broker that is killed has streams, consumers, buckets and positions when it starts again,
    as soon as the lease of its earlier life is over."""
    options = f'source: "{postgres.source}", schema: "{postgres.newSchema()}", lease: 1'
    config = f"jetstream {{ backend: postgresql, backend_options {{ {options} }} }}"
    server = Server(OURS_FAST, tmp_path, config).start()

    async def fill() -> None:
        client = await nats.connect(server.url)
        context = client.jetstream(timeout=PATIENCE)
        await context.add_stream(name="S", subjects=["s.*"])
        for number in range(6):
            answer = await context.publish(f"s.{number % 2}", b"%d" % number)
            assert answer.seq == number + 1
        puller = await context.pull_subscribe("s.0", "puller")
        (first,) = await puller.fetch(1, PATIENCE)
        await first.ack_sync(PATIENCE)
        bucket = await context.create_key_value(bucket="B")
        await bucket.put("k", b"v")
        await client.close()

    async def compare() -> None:
        client = await nats.connect(server.url)
        context = client.jetstream(timeout=PATIENCE)
        assert (await asked(client, "STREAM.NAMES"))["streams"] == ["KV_B", "S"]
        for name in ("KV_B", "S"):  # Each has a lease of its own; requests before are lost.
            await asked(client, f"STREAM.INFO.{name}")
        puller = await context.pull_subscribe("s.0", "puller")
        found = await puller.fetch(2, PATIENCE)
        assert [each.data for each in found] == [b"2", b"4"]
        assert (await (await context.key_value("B")).get("k")).value == b"v"
        assert (await context.publish("s.1", b"6")).seq == 7
        await client.close()

    try:
        asyncio.run(asyncio.wait_for(fill(), PATIENCE))
        server.signal("KILL")
        server.exitStatus()
        server.restart()
        asyncio.run(asyncio.wait_for(compare(), PATIENCE))
    finally:
        server.stop()
