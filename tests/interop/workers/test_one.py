"""
A server with one worker, which is the broker itself.
"""

from __future__ import annotations

import asyncio

import pytest

from natsbroker.testing.process import startBroker
from tests.interop.workers.support import Workers, clientsOf

IMPORTS = {"PYTHONPROFILEIMPORTTIME": "1"}
"""Has Python write the name of each module that it loads."""


@pytest.mark.parametrize(
    ("arguments", "processes"), [((), 0), (("--workers", "1"), 0), (("--workers", "2"), 2)]
)
def test_processes(arguments: tuple[str, ...], processes: int) -> None:
    """A server without several workers has no other process, and imports no module of workers."""

    async def use() -> None:
        async with clientsOf(server, 2) as (one, other):
            await one.subscribe("s")
            await other.nats.publish("s", b"x")
            await other.nats.flush()

    with startBroker(*arguments, environment=IMPORTS) as server:
        asyncio.run(use())
        assert len(Workers(server).pids()) == processes
    assert "natsbroker.broker" in server.log
    assert ("natsbroker.workers" in server.log) is bool(processes)
