"""
Original, unmodified clients against natsbroker, and against nats-server to show that the programs
are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.conftest import showLogs
from tests.interop.programs import PROGRAMS, Line, Program
from tests.interop.servers import ALL, Flavour, Server

LOGIN = (
    "authorization { users: [ { user: alice, password: s3cret }, { user: bob, password: b } ] }\n"
)
TOKEN = "authorization { token: t0ken }\n"
PERMISSIONS = """
authorization { users: [ { user: alice, password: s3cret, permissions: {
    publish: { allow: ["allowed", "_INBOX.>"] }, subscribe: { allow: ["allowed", "_INBOX.>"] }
} } ] }
"""
TLS = """
tls { cert_file: "$DIR/server.pem", key_file: "$DIR/server-key.pem" }
"""

#: Scenario and what it prints, on a server without configuration.
PLAIN: dict[str, list[Line]] = {
    "connect": [
        {"event": "connected", "max_payload": 1048576, "cid": True},
        {"event": "closed", "closed": True},
    ],
    "publish": [
        {"subject": "data.0", "data": "000"},
        {"subject": "data.1", "data": "111"},
        {"subject": "data.2", "data": "222"},
        {"subject": "data.3", "data": "333"},
        {"subject": "data.0", "data": "000"},
        {"subject": "data.1", "data": "111"},
    ],
    "request": [{"reply": "HELLO"}, {"reply": "AGAIN"}],
    "headers": [
        {"data": "body", "headers": {"Bar": "Baz", "Some-Key": "a: b"}},
        {"data": "", "headers": {"Only": "headers"}},
        {"data": "plain", "headers": {}},
    ],
    "queue": [{"total": 200, "shared": True}],
    "nobody": [{"error": "no responders"}],
    "drain": [{"received": 50, "closed": True}],
    "payload": [{"error": "max payload"}, {"size": 1048576}],
}

CONNECTED: list[Line] = [{"event": "connected"}]
REFUSED: list[Line] = [{"refused": True}]


class SharedServers:
    """Servers of one flavour for all tests of this module, one for each configuration."""

    def __init__(self, flavour: Flavour, directory: Path) -> None:
        self.flavour = flavour
        self._directory = directory
        self._servers: dict[str, Server] = {}

    def get(self, config: str, node: pytest.Item) -> Server:
        """
        @param node: the test, which shows the server's log if it fails.
        @return: a running server.
        """
        if config not in self._servers:
            directory = self._directory / f"{len(self._servers)}"
            directory.mkdir()
            writeCertificates(directory)
            self._servers[config] = Server(self.flavour, directory, config).start()
        showLogs(node, self._servers[config])
        return self._servers[config]

    def stop(self) -> None:
        """
        Stop them all.
        """
        for server in self._servers.values():
            server.stop()


@pytest.fixture(scope="module", params=ALL, ids=lambda flavour: flavour.name)
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServers]:
    """
    The servers of each flavour in turn.
    """
    shared = SharedServers(request.param, tmp_path_factory.mktemp("servers"))
    yield shared
    shared.stop()


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.name)
def program(request: pytest.FixtureRequest) -> Program:
    """
    Each client's program in turn.
    """
    program: Program = request.param
    program.findCommand()
    return program


@pytest.mark.parametrize("scenario", PLAIN)
def test_documentedAPI(
    scenario: str, program: Program, servers: SharedServers, request: pytest.FixtureRequest
) -> None:
    """The API of the client behaves on the server as documented."""
    server = servers.get("", request.node)
    assert program.run(scenario, server.url) == PLAIN[scenario]


@pytest.mark.parametrize(
    ("config", "credentials", "printed"),
    [
        (LOGIN, "alice:s3cret@", CONNECTED),
        (LOGIN, "alice:wrong@", REFUSED),
        (LOGIN, "", REFUSED),
        (TOKEN, "t0ken@", CONNECTED),
        (TOKEN, "wrong@", REFUSED),
    ],
    ids=["login", "wrong-password", "no-login", "token", "wrong-token"],
)
def test_login(
    config: str,
    credentials: str,
    printed: list[Line],
    program: Program,
    servers: SharedServers,
    request: pytest.FixtureRequest,
) -> None:
    """A client is accepted with the right credentials, and gets an error for wrong ones."""
    url = servers.get(config, request.node).url.replace("//", f"//{credentials}")
    assert program.run("login", url) == printed


def test_permissions(
    program: Program, servers: SharedServers, request: pytest.FixtureRequest
) -> None:
    """A client gets an error for a denied subject and stays connected."""
    url = servers.get(PERMISSIONS, request.node).url.replace("//", "//alice:s3cret@")
    assert program.run("permissions", url) == [
        {"violation": True},
        {"violation": True},
        {"data": "y"},
    ]


def test_tls(program: Program, servers: SharedServers, request: pytest.FixtureRequest) -> None:
    """A client connects over TLS to a server whose authority it trusts, and to no other."""
    server = servers.get(TLS, request.node)
    url = f"tls://localhost:{server.port}"
    lines = program.run("tls", url, str(server.directory / "ca.pem"))
    assert lines == [{"size": 100_000}, {"refused": True}]


def test_reconnect(
    program: Program, servers: SharedServers, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A client reconnects to a restarted server, with its subscriptions."""
    server = Server(servers.flavour, tmp_path, "").start()
    showLogs(request.node, server)

    def restart(line: Line) -> None:
        if line == {"event": "ready"}:
            server.restart()

    try:
        lines = program.run("reconnect", server.url, onLine=restart)
    finally:
        server.stop()
    assert lines[:2] == [{"event": "ready"}, {"event": "disconnected"}]
    # Some clients report every attempt, and the close at the end.
    assert [line for line in lines[2:] if line["event"] != "disconnected"] == [
        {"event": "reconnected", "data": "still here"}
    ]
