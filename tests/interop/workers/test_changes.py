"""
Reloads, upgrades and lame duck mode of several workers.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from natsbroker.testing.process import BrokerProcess
from tests.interop.workers.support import Client, Workers, clientsOf, served, until

CONNECTED = 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conf"


def limits(clients: list[Client]) -> set[int]:
    """The payload limits that clients know."""
    return {client.nats.max_payload for client in clients}


def test_reload(path: Path) -> None:
    """A reload is applied in all workers, and its lines are logged once."""

    async def run() -> None:
        path.write_text("max_payload: 2000")
        workers.signal(signal.SIGHUP)
        await until(lambda: "Reloaded server configuration" in workers.server.log, "the outcome")
        async with clientsOf(workers.server, CONNECTED) as clients:
            assert limits(clients) == {2000}
        assert workers.server.log.count("Reloaded: max_payload = 2000") == 1
        path.write_text("max_payload: 3000, server_name: other")
        workers.signal(signal.SIGHUP)
        await until(lambda: "not supported for ServerName" in workers.server.log, "a refusal")
        path.write_text("max_payload: 3000\nservices { traffic {} }")
        workers.signal(signal.SIGHUP)
        await until(lambda: "does not say that it runs" in workers.server.log, "another refusal")
        async with clientsOf(workers.server, CONNECTED) as clients:
            assert limits(clients) == {2000}

    path.write_text("max_payload: 1000")
    with served("-c", str(path)) as workers:
        asyncio.run(run())


def test_upgrade(path: Path) -> None:
    """
    An upgrade replaces all workers. Clients reconnect once or twice, and the address stays open.
    """

    async def connecting(refused: list[Exception]) -> None:
        while True:
            try:
                client = await Client.connect(workers.server)
            except Exception as error:
                refused.append(error)
                raise
            await client.nats.close()
            await asyncio.sleep(0.05)

    async def run() -> None:
        before = workers.pids()
        refused: list[Exception] = []
        others = asyncio.ensure_future(connecting(refused))
        async with clientsOf(workers.server, CONNECTED) as clients:
            workers.signal(signal.SIGURG)
            await until(lambda: "Upgraded 2 workers" in workers.server.log, "the end")
            assert not set(before) & set(workers.pids())
            await until(lambda: all(c.nats.is_connected for c in clients), "all are back")
            assert all(client.losses in (1, 2) for client in clients)
            for client in clients:
                await client.subscribe("x")
            await clients[0].nats.publish("x", b"")
            await until(lambda: all(client.came for client in clients), "messages")
        others.cancel()
        assert refused == []

    path.write_text('lame_duck_duration: "30s", lame_duck_grace_period: "0s"')
    with served("-c", str(path)) as workers:
        asyncio.run(run())


def test_lameDuck(path: Path) -> None:
    """In lame duck mode the server ends when the last client of all workers has disconnected."""

    async def run(workers: Workers[BrokerProcess]) -> None:
        async with clientsOf(workers.server, CONNECTED, allow_reconnect=False) as clients:
            workers.signal(signal.SIGUSR2)
            await until(lambda: all(client.nats.is_closed for client in clients), "all are closed")
            await until(lambda: "Server Exiting.." in workers.server.log, "the end")

    path.write_text('lame_duck_duration: "30s", lame_duck_grace_period: "0s"')
    with served("-c", str(path)) as workers:
        asyncio.run(run(workers))
    assert workers.server.log.count("Entering lame duck mode") == 1
