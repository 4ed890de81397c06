"""
Limits of an account, which apply to all workers together.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from nats.js.api import StreamConfig
from nats.js.errors import APIError, BadRequestError, ServerError

from tests.interop.workers.support import Client, clientsOf, served

CONFIG = """
accounts {
    A { jetstream: { max_streams: 3, max_file: 10000 }, users: [{user: a, password: a}] }
    SYS { users: [{user: s, password: s}] }
}
system_account: SYS
jetstream { store_dir: "%s" }
"""

APART = 0.6
"""Seconds in which the workers ask each other."""


def test_streams(tmp_path: Path) -> None:
    """Streams of an account, and their reserved storage, are counted over all workers."""

    async def run() -> None:
        async with clientsOf(workers.server, 8, user="a", password="a") as clients:
            assert {workers.at(client) for client in clients} <= set(workers.pids())
            for number, client in enumerate(clients[:3]):
                config = StreamConfig(name=f"S{number}", subjects=[f"s{number}"], max_bytes=3000)
                await client.nats.jetstream().add_stream(config)
            for client in clients:
                with pytest.raises(
                    (BadRequestError, ServerError), match="maximum number of streams"
                ):
                    await client.nats.jetstream().add_stream(name="S", subjects=["s"])
            await clients[0].nats.jetstream().delete_stream("S0")
            for client in clients:
                with pytest.raises((BadRequestError, ServerError), match="insufficient storage"):
                    config = StreamConfig(name="S", subjects=["s"], max_bytes=5000)
                    await client.nats.jetstream().add_stream(config)
        folders = [tmp_path / "jetstream", tmp_path / "jetstream" / "worker-2"]
        assert all((folder / "STORE").exists() for folder in folders)

    config = tmp_path / "conf"
    config.write_text(CONFIG % tmp_path)
    with served("-c", str(config)) as workers:
        asyncio.run(run())


def test_storage(tmp_path: Path) -> None:
    """Bytes stored at one worker count towards the account's limit at the others."""

    async def publish(client: Client, name: str) -> bool:
        with contextlib.suppress(APIError):
            await client.nats.jetstream().publish(name, bytes(1000))
            return True
        return False

    async def run() -> None:
        async with clientsOf(workers.server, 1, user="a", password="a") as [client]:
            context = client.nats.jetstream()
            for name in ("S1", "S2"):
                await context.add_stream(name=name, subjects=[name])
            outcomes: list[bool] = []
            while sum(outcomes) < 20 and any(outcomes[-4:] or [True]):
                outcomes += [await publish(client, name) for name in ("S1", "S2")]
                await asyncio.sleep(APART)
            sizes = [(await context.stream_info(name)).state.bytes for name in ("S1", "S2")]
            assert all(sizes)
            assert sum(sizes) <= 10_000 + 2 * 1100

    config = tmp_path / "conf"
    config.write_text(CONFIG % tmp_path)
    with served("-c", str(config)) as workers:
        asyncio.run(run())
