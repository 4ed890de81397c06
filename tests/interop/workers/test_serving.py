"""Several workers seem to be one server."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from natsbroker.testing.process import startBroker
from tests.interop.workers.support import clientsOf, served, until

CONNECTED = 12


def test_oneServer() -> None:
    """All clients see one server, have numbers of their own, and reach each other."""

    async def run() -> None:
        async with clientsOf(workers.server, CONNECTED) as clients:
            infos = [client.nats._server_info for client in clients]
            assert len({info["server_id"] for info in infos}) == 1
            assert len({info["client_id"] for info in infos}) == CONNECTED
            assert {info["port"] for info in infos} == {workers.server.port}
            for client in clients:
                await client.subscribe("all.*")
            for number, client in enumerate(clients):
                await client.nats.publish(f"all.{number}", str(number).encode())
                await client.nats.flush()
            await until(
                lambda: all(len(client.came) == CONNECTED for client in clients), "all have all"
            )

    with served() as workers:
        asyncio.run(run())


def test_log() -> None:
    """The lines of a start and an end are there once."""
    with startBroker("--workers", "3") as server:
        pass
    for line in ("Starting natsbroker", "Listening for client", "Server is ready", "Exiting"):
        assert server.log.count(line) == 1


def test_files(tmp_path: Path) -> None:
    """pid and ports files are of the parent, and go with it."""
    pid = tmp_path / "pid"
    with served("-P", str(pid), "--ports_file_dir", str(tmp_path)) as workers:
        assert pid.read_text() == str(workers.server.pid)
        [ports] = tmp_path.glob("*.ports")
        assert json.loads(ports.read_text())["nats"] == [workers.server.url]
    assert list(tmp_path.iterdir()) == []


def test_reopenedLog(tmp_path: Path) -> None:
    """One file has the lines of all, and is opened again."""

    async def run() -> None:
        log.rename(tmp_path / "old")
        workers.signal(signal.SIGUSR1)
        await until(log.exists, "another file")
        async with clientsOf(workers.server, 4):
            await until(lambda: log.read_text().count("Client connection created") == 4, "lines")

    log = tmp_path / "log"
    path = tmp_path / "conf"
    path.write_text("debug: true")
    with served("-c", str(path)) as workers:
        # Standard error tells the port.
        path.write_text(f'debug: true\nlogfile: "{log}"')
        workers.signal(signal.SIGHUP)
        asyncio.run(until(log.exists, "a file"))
        asyncio.run(run())


def test_jetStream(tmp_path: Path) -> None:
    """Clients of each worker use the streams of the first."""

    async def run() -> None:
        async with clientsOf(workers.server, CONNECTED) as clients:
            assert {workers.at(client) for client in clients} == set(workers.pids())
            await clients[0].nats.jetstream().add_stream(name="S", subjects=["s.*"])
            for number, client in enumerate(clients):
                stored = await client.nats.jetstream().publish(f"s.{number}", b"x")
                assert stored.seq == number + 1
            puller = await clients[-1].nats.jetstream().pull_subscribe("s.*", "d")
            assert len(await puller.fetch(CONNECTED)) == CONNECTED

    with served("-js", "-sd", str(tmp_path)) as workers:
        asyncio.run(run())


def test_streaming() -> None:
    """NATS Streaming answers requests from each worker."""

    async def run() -> None:
        async with clientsOf(workers.server, CONNECTED) as clients:
            assert {workers.at(client) for client in clients} == set(workers.pids())
            for client in clients:
                # A request that is no request of the protocol is answered with an error.
                answer = await client.nats.request("_STAN.discover.test-cluster", b"", timeout=30)
                assert answer.data

    with served("--streaming") as workers:
        asyncio.run(run())
