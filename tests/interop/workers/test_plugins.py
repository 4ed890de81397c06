"""Plugins of a server of several workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nats.aio.client import Client as NATSClient

from natsbroker.testing.process import BrokerProcess, DidNotStart
from tests.interop.workers.support import Client, Workers, served

CONNECTED = 8


def test_each(tmp_path: Path) -> None:
    """A plugin that may run in several processes decides in each of them."""

    async def run(workers: Workers[BrokerProcess]) -> None:
        clients = [
            await Client.connect(workers.server, user="a", password="p") for _ in range(CONNECTED)
        ]
        assert {workers.at(client) for client in clients} == set(workers.pids())
        for client in clients:
            await client.nats.close()
        refusals: list[Exception] = []

        async def refused(error: Exception) -> None:
            refusals.append(error)

        for _ in range(CONNECTED):
            with pytest.raises(Exception, match="Authorization Violation"):
                await NATSClient().connect(
                    workers.server.url,
                    user="a",
                    password="q",
                    allow_reconnect=False,
                    error_cb=refused,
                )

    users = tmp_path / "users"
    users.write_text("a:p\n")
    path = tmp_path / "conf"
    path.write_text(f'authorization {{ plugin: cred, checkers: ["file:{users}"] }}')
    with served("-c", str(path)) as workers:
        asyncio.run(run(workers))


def test_unshared(tmp_path: Path) -> None:
    """A plugin that cannot run in several processes is named, and the server does not start."""
    path = tmp_path / "conf"
    path.write_text("services { traffic {} }")
    with pytest.raises(DidNotStart) as raised, served("-c", str(path)):
        raise AssertionError("started")
    assert 'the service "traffic" does not say that it runs in several' in str(raised.value)
