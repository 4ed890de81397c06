"""
WebSocket clients of several workers, at one address.
"""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client as NATSClient

from natsbroker.testing.process import BrokerProcess
from tests.interop.workers.support import Client, Workers, served, until

CONNECTED = 8

CONFIG = """
    listen: "127.0.0.1:-1", http: "127.0.0.1:-1"
    authorization { users [ { user: a, password: p } ] }
    websocket {
        listen: "127.0.0.1:-1", no_tls: true, user_cookie: who, pass_cookie: word
        allowed_origins: ["http://here.example"]
    }
"""


def portsOf(directory: Path) -> dict[str, list[str]]:
    [path] = directory.glob("*.ports")
    ports: dict[str, list[str]] = json.loads(path.read_text())
    return ports


async def connected(url: str) -> Client:
    client = NATSClient()
    headers = {"Cookie": ["who=a; word=p"]}
    await client.connect(url, ws_connection_headers=headers, max_reconnect_attempts=0)
    return Client(client)


def dialled(url: str) -> socket.socket:
    host, _, port = url.removeprefix("ws://").rpartition(":")
    return socket.create_connection((host, int(port)))


def rows(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/connz?auth=1") as response:
        document: dict[str, list[dict[str, Any]]] = json.load(response)
    return document["connections"]


def test_oneAddress(tmp_path: Path) -> None:
    """
    WebSocket clients are spread over the workers, log in by cookies, and exchange messages with all
    clients.
    """

    async def run(workers: Workers[BrokerProcess], ports: dict[str, list[str]]) -> None:
        [url] = ports["websocket"]
        clients = [await connected(url) for _ in range(CONNECTED)]
        clients.append(await Client.connect(workers.server, user="a", password="p"))
        for client in clients:
            await client.subscribe("all")
        for number, client in enumerate(clients):
            await client.nats.publish("all", str(number).encode())
            await client.nats.flush()
        expected = sorted(str(number).encode() for number in range(len(clients)))
        await until(lambda: all(len(client.came) == len(clients) for client in clients), "all")
        assert all(sorted(client.came) == expected for client in clients)
        there = await asyncio.to_thread(rows, ports["monitoring"][0])
        kinds = [row["type"] for row in there]
        assert (kinds.count("websocket"), kinds.count("nats")) == (CONNECTED, 1)
        assert len({row["cid"] for row in there}) == len(clients)
        assert {row["worker"] for row in there} == {1, 2}
        assert {row["authorized_user"] for row in there} == {"a"}
        for client in clients:
            await client.nats.close()

    path = tmp_path / "conf"
    path.write_text(CONFIG)
    with served("-c", str(path), "--ports_file_dir", str(tmp_path)) as workers:
        asyncio.run(run(workers, portsOf(tmp_path)))
        assert workers.server.log.count("Listening for websocket clients on ws://") == 1


@pytest.mark.parametrize(("origin", "status"), [("there", b"403"), ("here", b"101")])
def test_origin(tmp_path: Path, origin: str, status: bytes) -> None:
    """Each worker checks the origin of WebSocket clients."""
    lines = (
        "GET / HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Origin: http://{origin}.example",
    )
    path = tmp_path / "conf"
    path.write_text(CONFIG)
    with served("-c", str(path), "--ports_file_dir", str(tmp_path)):
        [url] = portsOf(tmp_path)["websocket"]
        with dialled(url) as client:
            client.sendall("\r\n".join((*lines, "", "")).encode("ascii"))
            assert client.recv(4096).startswith(b"HTTP/1.1 " + status)


def test_unfinished(tmp_path: Path) -> None:
    """
    Connections that never became WebSockets do not count towards a limit after they have ended.
    """

    async def run(url: str) -> None:
        for _ in range(4 * CONNECTED):
            with dialled(url) as opened:
                opened.sendall(b"nonsense\r\n\r\n")
                while await asyncio.to_thread(opened.recv, 4096):
                    pass
        client = await connected(url)
        await client.nats.flush()
        await client.nats.close()

    path = tmp_path / "conf"
    path.write_text(CONFIG + f"max_connections: {CONNECTED}\n")
    with served("-c", str(path), "--ports_file_dir", str(tmp_path)):
        [url] = portsOf(tmp_path)["websocket"]
        asyncio.run(run(url))
