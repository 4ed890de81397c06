"""
Several workers, which clients see as one server.
"""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

from natsbroker.testing.process import startBroker
from tests.interop.workers.support import clientsOf, served, until

CONNECTED = 12


def test_oneServer() -> None:
    """All clients see one server, have unique numbers, and receive each other's messages."""

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
    """The lines of the start and of the end are logged once."""
    with startBroker("--workers", "3") as server:
        pass
    for line in ("Starting natsbroker", "Listening for client", "Server is ready", "Exiting"):
        assert server.log.count(line) == 1
    routes = [line for line in server.log.splitlines() if "Route connection created" in line]
    assert len(routes) == 6 and all("] neighbour - rid:" in line for line in routes)


def test_files(tmp_path: Path) -> None:
    """The pid and ports files are written by the parent, and removed with it."""
    pid = tmp_path / "pid"
    with served("-P", str(pid), "--ports_file_dir", str(tmp_path)) as workers:
        assert pid.read_text() == str(workers.server.pid)
        [ports] = tmp_path.glob("*.ports")
        assert json.loads(ports.read_text())["nats"] == [workers.server.url]
    assert list(tmp_path.iterdir()) == []


def test_reopenedLog(tmp_path: Path) -> None:
    """One file has the lines of all workers, and is opened again."""

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
        # The file is there before the workers have agreed to the reload.
        asyncio.run(until(lambda: log.exists() and "Reloaded server" in log.read_text(), "a file"))
        asyncio.run(run())


STREAMS = 4


def test_jetStream(tmp_path: Path) -> None:
    """
    Streams are spread over the workers, can be used by clients of each worker, and survive a
    restart.
    """

    async def make() -> None:
        async with clientsOf(workers.server, CONNECTED) as clients:
            assert {workers.at(client) for client in clients} == set(workers.pids())
            context = clients[0].nats.jetstream()
            for number in range(STREAMS):
                await context.add_stream(name=f"S{number}", subjects=[f"s.{number}.*"])
            for stream in range(STREAMS):
                for number, client in enumerate(clients):
                    stored = await client.nats.jetstream().publish(f"s.{stream}.{number}", b"x")
                    assert (stored.stream, stored.seq) == (f"S{stream}", number + 1)

    async def use() -> None:
        async with clientsOf(workers.server, CONNECTED) as clients:
            for client in clients:
                names = [str(info.config.name) for info in await client.nats.jsm().streams_info()]
                assert sorted(names) == [f"S{number}" for number in range(STREAMS)]
            for stream in range(STREAMS):
                context = clients[stream].nats.jetstream()
                puller = await context.pull_subscribe(f"s.{stream}.*", "d")
                messages = await puller.fetch(CONNECTED)
                assert len(messages) == CONNECTED
                for message in messages:
                    await message.ack_sync()
            for name in (f"S{number}" for number in range(STREAMS)):
                info = await clients[-1].nats.jsm().consumer_info(name, "d")
                assert (info.num_ack_pending, info.num_pending) == (0, 0)

    with served("-js", "-sd", str(tmp_path)) as workers:
        asyncio.run(make())
        assert (tmp_path / "jetstream" / "worker-2" / "STORE").exists()
    with served("-js", "-sd", str(tmp_path)) as workers:
        asyncio.run(use())


def test_pages(tmp_path: Path) -> None:
    """The monitoring pages show one server."""

    async def run() -> None:
        async with clientsOf(workers.server, CONNECTED) as clients:
            server = clients[0].nats._server_info
            await clients[0].nats.jetstream().add_stream(name="S", subjects=["s"])
            varz, connz, jsz = [
                await asyncio.to_thread(documentAt, f"{pages}/{name}")
                for name in ("varz", "connz?limit=5", "jsz?streams=1")
            ]
            assert (varz["server_id"], varz["connections"]) == (server["server_id"], CONNECTED)
            assert (varz["port"], varz["http_port"]) == (workers.server.port, int(port))
            assert (connz["total"], connz["num_connections"]) == (CONNECTED, 5)
            cids = [row["cid"] for row in connz["connections"]]
            assert cids == sorted(cids)
            assert (jsz["streams"], jsz["total"]) == (1, 1)
            assert await asyncio.to_thread(documentAt, f"{pages}/healthz") == {"status": "ok"}

    def documentAt(url: str) -> Any:
        with urllib.request.urlopen(url) as response:
            return json.load(response)

    given = ("-js", "-sd", str(tmp_path), "-m", "-1", "--ports_file_dir", str(tmp_path))
    with served(*given) as workers:
        [ports] = tmp_path.glob("*.ports")
        [pages] = json.loads(ports.read_text())["monitoring"]
        port = pages.rpartition(":")[2]
        asyncio.run(run())


def test_streamsOfOneWorker(tmp_path: Path) -> None:
    """Clients of each worker can use a stream that one of them has."""

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
                # The answer to an empty request is an error.
                answer = await client.nats.request("_STAN.discover.test-cluster", b"", timeout=30)
                assert answer.data

    with served("--streaming") as workers:
        asyncio.run(run())
