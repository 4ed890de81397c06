"""
The smallest server, run as C{examples/smallest.py}.
"""

from __future__ import annotations

import asyncio

import nats

from tests.examples.running import running


def test_serves() -> None:
    """A client of another library publishes and subscribes."""

    async def talk(port: int) -> bytes:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        inbox = await client.subscribe("greet")
        await client.publish("greet", b"hello")
        message = await inbox.next_msg(timeout=30)
        await client.drain()
        return bytes(message.data)

    with running("smallest.py", "0") as [port]:
        assert asyncio.run(talk(port)) == b"hello"
