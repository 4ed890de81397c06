"""
Brokers of one cluster whose JetStream is in one database.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NoAnswer

from tests.interop.servers import OURS_FAST, PATIENCE, Server
from tests.postgresql import PostgresServer

__all__ = ["LEASE", "SharedBrokers", "ask", "asked"]

LEASE = 1.0
"""Seconds that leases last here."""

UNAVAILABLE = 10008
"""The error of a leader whose lease is lost, until it notices."""

_CONFIG = """
server_name: {name}
server_tags: ["az:{name}"]
accounts {{ A {{ jetstream: enabled, users: [{{user: a, password: a}}] }},
            SYS {{ users: [{{user: s, password: s}}] }} }}
system_account: SYS
no_auth_user: a
lame_duck_grace_period: 5s
jetstream {{ backend: postgresql, backend_options {{ {options} }} }}
cluster {{ name: C1, listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""


class SharedBrokers:
    """
    A cluster.

    @ivar servers: the brokers by name.
    """

    def __init__(self, postgres: PostgresServer, directory: Path) -> None:
        self._options = (
            f'source: "{postgres.source}", schema: "{postgres.newSchema()}", lease: {LEASE}'
        )
        self._directory = directory
        self._ports: dict[str, str] = {}
        self._clientPorts: dict[str, int] = {}
        self.servers: dict[str, Server] = {}

    def start(self, *names: str) -> SharedBrokers:
        """Start brokers, and connect them to those that were started before."""
        for name in names:
            directory = self._directory / name
            directory.mkdir(exist_ok=True)
            others = [port for other, port in self._ports.items() if other != name]
            config = _CONFIG.format(
                name=name,
                options=self._options,
                port=self._ports.get(name, "-1"),
                routes=", ".join(f'"nats://127.0.0.1:{port}"' for port in others),
            )
            port = self._clientPorts.get(name, -1)
            server = Server(OURS_FAST, directory, config, port=port).start()
            self.servers[name] = server
            self._clientPorts[name] = server.port
            match = server.waitForLog(r"Listening for route connections on \S+:(\d+)")
            self._ports[name] = match[1]
            for _ in others:
                server.waitForLog(r"Route connection created")
        return self

    @property
    def urls(self) -> list[str]:
        """The URLs for clients, also of brokers that are dead."""
        return [f"nats://127.0.0.1:{port}" for port in self._clientPorts.values()]

    def kill(self, name: str) -> None:
        """
        End a broker without notice.
        """
        server = self.servers.pop(name)
        server.signal("KILL")
        server.exitStatus()

    def stop(self) -> None:
        """Stop all brokers."""
        for server in self.servers.values():
            server.stop()


async def ask(client: Any, subject: str, body: Any = None, timeout: float = PATIENCE) -> Any:
    """The answer to a request below C{$JS.API.}."""
    data = b"" if body is None else json.dumps(body).encode()
    return json.loads((await client.request(f"$JS.API.{subject}", data, timeout=timeout)).data)


async def asked(client: Any, subject: str, body: Any = None) -> Any:
    """The answer to a request, which is repeated until a leader answers."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            answer = await ask(client, subject, body, 0.5)
            if answer.get("error", {}).get("err_code") != UNAVAILABLE:
                return answer
        except (NoRespondersError, NoAnswer):
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.02)
