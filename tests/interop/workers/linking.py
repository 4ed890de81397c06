"""A server with two workers among nats-servers."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.interop.servers import OURS_FAST, REAL, Server
from tests.interop.workers.exact import waitUntil

NAME = "host"

LISTENING = 'leafnodes { listen: "127.0.0.1:-1" }'

HOST = f'server_name: {NAME}, http: "127.0.0.1:-1"\n'

CLIENTS = 6
"""Enough clients that each worker has some."""


def made(directory: Path, name: str, text: str, isHost: bool = False) -> Server:
    """A server, of which that of the tests has workers."""
    home = directory / name
    home.mkdir()
    arguments = ["--workers", "2"] if isHost else []
    text = text if isHost else f'server_name: {name}, http: "127.0.0.1:-1"\n{text}'
    return Server(OURS_FAST if isHost else REAL, home, text, arguments)


def leafPort(server: Server) -> str:
    return server.waitForLog(r"Listening for leafnode connections on \S+:(\d+)")[1]


def remote(port: str) -> str:
    return f'leafnodes {{ reconnect: "0.1s", remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}'


def document(server: Server, page: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.monitorPort}/{page}") as response:
        shown: dict[str, Any] = json.load(response)
    return shown


def leafsOf(server: Server) -> list[dict[str, Any]]:
    return document(server, "leafz")["leafs"] or []


def waitForLeafs(server: Server, count: int) -> list[dict[str, Any]]:
    leafs: list[dict[str, Any]] = []

    def haveCome() -> bool:
        leafs[:] = leafsOf(server)
        return len(leafs) == count

    waitUntil(haveCome, lambda: leafs)
    return leafs


def workersOf(server: Server) -> list[int]:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
    return [int(word) for word in children.split()]
