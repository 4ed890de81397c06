"""Workers that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

from tests.interop.workers.support import Client, clientsOf, served, until

CONNECTED = 12

ROUNDS = 5


def test_underLoad() -> None:
    """
    Only clients of the killed worker lose their connections, and all clients are served again.
    """

    async def publish(client: Client, numbers: list[int]) -> None:
        while numbers:
            numbers[0] += 1
            await client.nats.publish("load", str(numbers[0]).encode())
            await asyncio.sleep(0.001)

    async def kill(clients: list[Client], chosen: Client, number: int) -> None:
        before = set(workers.pids())
        victim = workers.at(chosen)
        there = [workers.at(client) == victim for client in clients]
        losses = [client.losses for client in clients]
        workers.kill(victim)
        await until(lambda: len(set(workers.pids()) - before) == 1, "another worker")
        await until(lambda: readies() == number, "which is ready")
        await until(lambda: all(client.nats.is_connected for client in clients), "all are back")
        lost = [client.losses > had for client, had in zip(clients, losses, strict=True)]
        assert lost == there
        for client in clients:
            client.came.clear()
        await until(lambda: all(len(client.came) > 10 for client in clients), "messages")

    def readies() -> int:
        return workers.server.log.count(" is ready") - 1

    async def run() -> None:
        async with clientsOf(workers.server, CONNECTED) as clients:
            for client in clients:
                await client.subscribe("load")
            numbers = [0]
            publishing = asyncio.ensure_future(publish(clients[0], numbers))
            for number in range(ROUNDS):
                await kill(clients, clients[number], number + 1)
            numbers.clear()
            await publishing

    with served() as workers:
        asyncio.run(run())
        assert workers.server.log.count("ended: signal 9; the next one starts in") == ROUNDS


def test_inFlight() -> None:
    """Connections in transit to a worker that is killed are closed, and others are served."""

    async def run() -> None:
        first, second = workers.pids()
        os.kill(first, signal.SIGSTOP)
        connections = []
        for _ in range(20):
            connections.append(socket.create_connection(("127.0.0.1", workers.server.port)))
        answered = asyncio.get_running_loop().run_in_executor(None, greeted, connections)
        await asyncio.sleep(0.5)
        os.kill(first, signal.SIGKILL)
        outcomes = await answered
        assert set(outcomes) == {b"INFO", b""}
        assert second in workers.pids()
        async with clientsOf(workers.server, 2) as clients:
            await clients[0].nats.flush()

    with served() as workers:
        asyncio.run(run())


def greeted(connections: list[socket.socket]) -> list[bytes]:
    """The first bytes that each connection receives; empty for a closed one."""
    outcomes = []
    for connection in connections:
        with connection:
            try:
                outcomes.append(connection.recv(4))
            except ConnectionResetError:
                outcomes.append(b"")
    return outcomes


def test_parentKilled(tmp_path: Path) -> None:
    """Workers end after their parent was killed, and leave no files."""
    with served(environment={"TMPDIR": str(tmp_path)}) as workers:
        assert list(tmp_path.iterdir())
        pids = workers.pids()
        os.kill(workers.server.pid, signal.SIGKILL)
        asyncio.run(until(lambda: not any(isRunning(pid) for pid in pids), "an end"))
    assert not list(tmp_path.iterdir())


def isRunning(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
