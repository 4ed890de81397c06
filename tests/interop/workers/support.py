"""
A server of several workers, its processes, and clients that know their worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from nats.aio.client import Client as NATSClient

from natsbroker.testing.process import PATIENCE, BrokerProcess, startBroker

GLANCE = 0.02


async def until(isSo: Callable[[], object], what: str) -> None:
    """Wait until a condition holds, as long as a busy machine may need."""

    async def wait() -> None:
        while not isSo():
            await asyncio.sleep(GLANCE)

    try:
        await asyncio.wait_for(wait(), PATIENCE)
    except asyncio.TimeoutError:
        raise AssertionError(f"not so: {what}") from None


class RunningServer(Protocol):
    """A server of several workers, however it was started."""

    @property
    def pid(self) -> int: ...

    @property
    def port(self) -> int: ...


Running = TypeVar("Running", bound=RunningServer)


class Workers(Generic[Running]):
    def __init__(self, server: Running) -> None:
        self.server = server

    def pids(self) -> list[int]:
        pid = self.server.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def at(self, client: Client) -> int:
        """The number of the worker that has a client's connection; 0 for none."""
        return self.placesOf([client.port])[0]

    def placesOf(self, ports: Sequence[int]) -> list[int]:
        """
        The numbers of the workers that have the connections of clients at these ports; 0 for none.
        """
        owners: dict[str, int] = {}
        for pid in self.pids():
            with contextlib.suppress(FileNotFoundError):
                for link in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(FileNotFoundError):
                        owners[os.readlink(link)] = pid
        inodes = self._inodes()
        return [owners.get(f"socket:[{inodes.get(port)}]", 0) for port in ports]

    def _inodes(self) -> dict[int, str]:
        """The server's sockets by the ports of their clients."""
        ours = f":{self.server.port:04X}"
        inodes = {}
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(ours):
                inodes[int(words[2].rpartition(":")[2], 16)] = words[9]
        return inodes

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def signal(self, which: signal.Signals) -> None:
        os.kill(self.server.pid, which)


class Client:
    """
    A client of nats-py that reconnects.

    @ivar losses: how often its connection was lost.
    @ivar came: the payloads that it received.
    """

    def __init__(self, connected: NATSClient) -> None:
        self.nats = connected
        self.losses = 0
        self.came: list[bytes] = []

    @classmethod
    async def connect(cls, server: BrokerProcess, **options: Any) -> Client:
        client: Client

        async def lost() -> None:
            client.losses += 1

        async def failed(error: Exception) -> None:
            """Ignore the end of a connection, which is counted already."""

        connected = NATSClient()
        client = cls(connected)
        given: dict[str, Any] = {"max_reconnect_attempts": -1, "reconnect_time_wait": GLANCE}
        await connected.connect(
            server.url, disconnected_cb=lost, error_cb=failed, **given, **options
        )
        return client

    @property
    def port(self) -> int:
        """The port of the client's end."""
        transport: Any = self.nats._transport
        return int(transport._io_writer.get_extra_info("sockname")[1])

    async def subscribe(self, subject: str, queue: str = "") -> None:
        async def came(message: Any) -> None:
            self.came.append(message.data)

        await self.nats.subscribe(subject, queue, cb=came)
        await self.nats.flush()


@contextlib.contextmanager
def served(
    *arguments: str, count: int = 2, environment: Mapping[str, str] | None = None
) -> Iterator[Workers[BrokerProcess]]:
    with startBroker("--workers", str(count), *arguments, environment=environment) as server:
        yield Workers(server)


@contextlib.asynccontextmanager
async def clientsOf(
    server: BrokerProcess, count: int, **options: Any
) -> AsyncIterator[list[Client]]:
    clients = [await Client.connect(server, **options) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            await client.nats.close()
