"""
nats-py logs in with each kind of credential, on nats-server and on natsbroker. Logins that no
client library sends have the same results on both.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import bcrypt
import nats
import nats.errors
import pytest
from nats.aio.client import Client

from tests.auth.operator.chain import KeyPair, raw
from tests.interop.conftest import StartServer, showLogs
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour, Server
from tests.interop.tls.authority import authority, issue
from tests.interop.tls.wire import Wire, contextFor

realAndOurs = pytest.mark.parametrize(
    "flavour", (REAL, OURS_FAST), ids=lambda flavour: flavour.name
)

HASH = bcrypt.hashpw(b"h4shed", bcrypt.gensalt(4)).decode()
USER = KeyPair("U")

USERS = f"""
authorization {{ users: [
    {{user: alice, password: s3cret}}
    {{user: hashed, password: "{HASH}"}}
    {{user: bare}}
    {{user: empty, password: ""}}
    {{nkey: {USER.key}}}
] }}
"""
TOKEN = "authorization { token: t0ken }\n"
MAPPED = """
tls { cert_file: "$DIR/server.pem", key_file: "$DIR/server-key.pem", ca_file: "$DIR/ca.pem"
      verify_and_map: true }
authorization { users: [ {user: "alice@example.com"}, {user: "CN=bob,O=acme"} ] }
"""


class Servers:
    """Servers of one flavour, one for each configuration, with certificates."""

    def __init__(self, flavour: Flavour, directory: Path) -> None:
        self.flavour = flavour
        self.directory = directory
        self._running: dict[str, Server] = {}
        ours, theirs = authority(), authority("CN=another authority")
        ours.write(directory, "ca")
        issue(ours, names=["localhost"]).write(directory, "server")
        issue(ours, "CN=x", emails=["alice@example.com"]).write(directory, "alice")
        issue(ours, "CN=bob,O=acme").write(directory, "bob")
        issue(ours, "CN=eve").write(directory, "eve")
        issue(theirs, "CN=bob,O=acme").write(directory, "stranger")

    def get(self, config: str, node: pytest.Item) -> Server:
        """
        @return: a running server.
        """
        if config not in self._running:
            place = self.directory / f"{self.flavour.name}-{len(self._running)}"
            place.mkdir()
            text = config.replace("$DIR", str(self.directory))
            self._running[config] = Server(self.flavour, place, text).start()
        showLogs(node, self._running[config])
        return self._running[config]

    def stop(self) -> None:
        """Stop all servers."""
        for server in self._running.values():
            server.stop()


@pytest.fixture(scope="module", params=(REAL, OURS_FAST), ids=lambda flavour: flavour.name)
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """
    The servers of each flavour in turn.
    """
    made = Servers(request.param, tmp_path_factory.mktemp("logins"))
    yield made
    made.stop()


def run(coroutine: Coroutine[Any, Any, str]) -> str:
    """
    Run a client to its end.
    """
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


async def talk(server: Server, scheme: str = "nats", **options: Any) -> str:
    """
    Log in and publish to oneself.

    @return: the received message, or the error of the server instead.
    """
    told: list[str] = []

    async def failed(error: Exception) -> None:
        told.append(str(error))

    try:
        client: Client = await nats.connect(
            f"{scheme}://localhost:{server.port}",
            allow_reconnect=False,
            connect_timeout=PATIENCE,
            error_cb=failed,
            **options,
        )
    except (nats.errors.Error, OSError) as error:
        return told[0] if told else str(error)
    subscription = await client.subscribe("me")
    await client.publish("me", b"hello")
    heard = await subscription.next_msg(PATIENCE)
    await client.drain()
    return heard.data.decode()


VIOLATION = "nats: 'Authorization Violation'"


class TestNatsPy:
    """nats-py, unmodified."""

    @pytest.mark.parametrize(
        ("options", "isIn"),
        [
            ({"user": "alice", "password": "s3cret"}, True),
            ({"user": "alice", "password": "S3cret"}, False),
            ({"user": "hashed", "password": "h4shed"}, True),
            ({"user": "hashed", "password": HASH}, False),
            ({"user": "nobody", "password": "s3cret"}, False),
            ({"token": "s3cret"}, False),
            ({}, False),
        ],
    )
    def test_password(
        self,
        servers: Servers,
        request: pytest.FixtureRequest,
        options: dict[str, str],
        isIn: bool,
    ) -> None:
        """nats-py logs in with name and password, which may be hashed in the settings."""
        said = run(talk(servers.get(USERS, request.node), **options))
        assert said == "hello" if isIn else VIOLATION in said

    @pytest.mark.parametrize(("token", "isIn"), [("t0ken", True), ("T0ken", False)])
    def test_token(
        self, servers: Servers, request: pytest.FixtureRequest, token: str, isIn: bool
    ) -> None:
        """nats-py logs in with a token."""
        said = run(talk(servers.get(TOKEN, request.node), token=token))
        assert said == "hello" if isIn else VIOLATION in said

    @pytest.mark.parametrize("isKnown", [True, False])
    def test_nkey(self, servers: Servers, request: pytest.FixtureRequest, isKnown: bool) -> None:
        """nats-py logs in with a key that signs the server's nonce."""
        seed = (USER if isKnown else KeyPair("U")).seed.decode()
        said = run(talk(servers.get(USERS, request.node), nkeys_seed_str=seed))
        assert said == "hello" if isKnown else VIOLATION in said

    @pytest.mark.parametrize(("name", "isIn"), [("alice", True), ("bob", True), ("eve", False)])
    @pytest.mark.parametrize("first", [False, True])
    def test_certificate(
        self,
        servers: Servers,
        request: pytest.FixtureRequest,
        name: str,
        isIn: bool,
        first: bool,
    ) -> None:
        """
        nats-py logs in with a TLS certificate that names the user by e-mail address or
        distinguished name.
        """
        more = "verify_and_map: true, handshake_first: true" if first else "verify_and_map: true"
        server = servers.get(MAPPED.replace("verify_and_map: true", more), request.node)
        context = contextFor(servers.directory, name)
        said = run(talk(server, "tls", tls=context, tls_handshake_first=first))
        assert said == "hello" if isIn else VIOLATION in said

    def test_stranger(self, servers: Servers, request: pytest.FixtureRequest) -> None:
        """A certificate of another authority fails in the handshake."""
        server = servers.get(MAPPED, request.node)
        context = contextFor(servers.directory, "stranger")
        said = run(talk(server, "tls", tls=context))
        assert said != "hello" and "Authorization" not in said


#: What is said in CONNECT, and who gets in with it: the users of L{USERS}.
SAID: list[dict[str, Any]] = [
    {"user": user, **given}
    for user in ("alice", "hashed", "bare", "empty", "nobody", USER.key, "")
    for given in (
        {},
        {"pass": ""},
        {"pass": None},
        {"pass": "s3cret"},
        {"pass": "h4shed"},
        {"pass": HASH},
        {"auth_token": "s3cret"},
        {"pass": "s3cret\x00"},
        {"pass": "s3cret", "auth_token": "x"},
    )
]
SAID += [
    {},
    {"nkey": USER.key},
    {"nkey": USER.key, "sig": ""},
    {"nkey": USER.key, "sig": "A" * 86},
    {"nkey": USER.key, "sig": "!"},
    {"nkey": "U", "user": "alice", "pass": "s3cret"},
    {"nkey": "", "user": "alice", "pass": "s3cret"},
    {"jwt": "x.y.z", "user": "alice", "pass": "s3cret"},
    {"user": "alice", "pass": "s3cret", "account": "$G"},
    {"user": "alice", "pass": "s3cret", "new_account": True},
    {"user": "alice", "pass": "s3cret", "new_account": "B"},
    {"user": "alice", "pass": 7},
    {"user": "alice", "pass": ["s3cret"]},
    {"user": ["alice"], "pass": "s3cret"},
    {"USER": "alice", "Pass": "s3cret"},
    {"user": "ALICE", "pass": "s3cret"},
    {"user": "alice ", "pass": "s3cret"},
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """
    nats-server and natsbroker with the same users.
    """
    servers = []
    for flavour in (REAL, OURS_FAST):
        place = tmp_path_factory.mktemp(flavour.name)
        servers.append(Server(flavour, place, USERS).start())
    yield servers
    for server in servers:
        server.stop()


def verdict(server: Server, said: bytes) -> bytes:
    """
    @return: the answer of a server to a login.
    """
    with Wire(server.port) as wire:
        wire.info()
        return wire.ask(said)


@pytest.mark.parametrize("said", SAID, ids=lambda said: json.dumps(said)[:70])
def test_verdict(both: list[Server], said: dict[str, Any]) -> None:
    """For every CONNECT, both servers answer the same."""
    line = b"CONNECT " + json.dumps({"verbose": False, **said}).encode() + b"\r\n"
    theirs, ours = (verdict(server, line) for server in both)
    assert ours == theirs


class TestReload:
    """Users and permissions that are removed while a client is connected."""

    BEFORE = """
    authorization {{ users: [
        {{user: stays, password: x}}
        {0}
    ] }}
    """
    RULED = "{{user: goes, password: x, permissions: {{subscribe: [{0}]}}}}"

    def connected(self, server: Server, user: str) -> Wire:
        """A client that has logged in."""
        wire = Wire(server.port)
        wire.info()
        said = {"verbose": False, "user": user, "pass": "x"}
        assert wire.ask(b"CONNECT " + json.dumps(said).encode() + b"\r\n") == b"PONG\r\n"
        return wire

    @realAndOurs
    def test_user(self, flavour: Flavour, startServer: StartServer) -> None:
        """
        A removed user is disconnected without an error and cannot log in again, and other users
        stay.
        """
        server = startServer(flavour, self.BEFORE.format("{user: goes, password: x}"))
        with self.connected(server, "goes") as goes, self.connected(server, "stays") as stays:
            reload(server, self.BEFORE.format(""))
            assert goes.rest() == b""
            assert stays.ask(b"SUB a 1\r\nPUB a 1\r\nx\r\n") == b"MSG a 1 1\r\nx\r\nPONG\r\n"
        assert verdict(server, b'CONNECT {"user":"goes","pass":"x"}\r\n') == (
            b"-ERR 'Authorization Violation'\r\n"
        )

    @realAndOurs
    def test_password(self, flavour: Flavour, startServer: StartServer) -> None:
        """A user whose password has changed is disconnected with an error."""
        server = startServer(flavour, self.BEFORE.format("{user: goes, password: x}"))
        with self.connected(server, "goes") as goes:
            reload(server, self.BEFORE.format("{user: goes, password: y}"))
            assert goes.rest() == b"-ERR 'Authorization Violation'\r\n"

    @realAndOurs
    def test_account(self, flavour: Flavour, startServer: StartServer) -> None:
        """A client whose user has moved to another account is disconnected without an error."""
        text = "accounts {{ A {{ users: [{0}] }}, B {{ users: [{1}] }} }}"
        goes, stays = "{user: goes, password: x}", "{user: stays, password: x}"
        server = startServer(flavour, text.format(f"{goes}, {stays}", ""))
        with self.connected(server, "goes") as moved:
            reload(server, text.format(stays, goes))
            assert moved.rest() == b""

    @realAndOurs
    def test_permission(self, flavour: Flavour, startServer: StartServer) -> None:
        """
        A subscription that is denied now ends with an error, plain or in a queue, and others
        continue.
        """
        before = self.RULED.format('"a", "b", "c", "d q"')
        server = startServer(flavour, self.BEFORE.format(before))
        with self.connected(server, "goes") as goes, self.connected(server, "stays") as stays:
            subscriptions = b"SUB a 1\r\nSUB b 2\r\nSUB c g 3\r\nSUB d q 4\r\n"
            assert goes.ask(subscriptions) == b"PONG\r\n"
            reload(server, self.BEFORE.format(self.RULED.format('"b"')))
            told = {goes.line() for _ in range(3)}
            assert told == {
                f"-ERR 'Permissions Violation for Subscription to {subject}'\r\n".encode()
                for subject in (
                    '"a" (sid "1")',
                    '"c" using queue "g" (sid "3")',
                    '"d" using queue "q" (sid "4")',
                )
            }
            server.waitForLog(r'Removed sub "a" \(sid "1"\) for User "goes" - not authorized')
            published = b"".join(
                b"PUB %b 1\r\nx\r\n" % subject for subject in (b"a", b"c", b"d", b"b")
            )
            assert stays.ask(published) == b"PONG\r\n"
            assert goes.ask() == b"MSG b 2 1\r\nx\r\nPONG\r\n"


#: A configuration, another one, and the login of a user of the first.
CHANGES: dict[str, tuple[str, str, dict[str, str]]] = {
    "another password of the only user": (
        "authorization {user: a, password: x}",
        "authorization {user: a, password: y}",
        {"user": "a", "pass": "x"},
    ),
    "another only user": (
        "authorization {user: a, password: x}",
        "authorization {user: b, password: x}",
        {"user": "a", "pass": "x"},
    ),
    "another token": (
        "authorization {token: x}",
        "authorization {token: y}",
        {"auth_token": "x"},
    ),
    "users in place of a token": (
        "authorization {token: x}",
        "authorization {users: [{user: a, password: x}]}",
        {"auth_token": "x"},
    ),
    "a token where there was nothing": ("", "authorization {token: y}", {}),
    "users where there was nothing": ("", "authorization {users: [{user: a, password: x}]}", {}),
    "a name that is no user's": (
        "",
        "authorization {users: [{user: a, password: x}]}",
        {"user": "z"},
    ),
    "a key that is gone": (
        f"authorization {{users: [{{nkey: {USER.key}}}, {{user: a, password: x}}]}}",
        "authorization {users: [{user: a, password: x}]}",
        {"nkey": USER.key},
    ),
}


def lastWords(server: Server, before: str, after: str, said: dict[str, str]) -> bytes:
    """
    @return: the error of a user that a reload disconnects.
    """
    reload(server, before + "\nmax_payload: 1000\n")
    with Wire(server.port) as wire:
        info = wire.info()
        if "nkey" in said:
            said = {**said, "sig": raw(USER.sign(info["nonce"].encode()))}
        line = b"CONNECT " + json.dumps({"verbose": False, **said}).encode() + b"\r\n"
        assert wire.ask(line) == b"PONG\r\n"
        reload(server, after + "\nmax_payload: 1001\n")
        return wire.rest()


def reload(server: Server, config: str) -> None:
    """Let a server reload another configuration."""
    since = server.logLength()
    server.writeConfig(config)
    server.signal("HUP")
    server.waitForLog("Reloaded server configuration", since)


def test_lastWords(startServer: StartServer) -> None:
    """
    A user that is denied after a reload gets the same error from both servers, or none from both.
    """
    told = {}
    for flavour in (REAL, OURS_FAST):
        server = startServer(flavour, "max_payload: 999\n")
        told[flavour.name] = {name: lastWords(server, *change) for name, change in CHANGES.items()}
    assert told[OURS_FAST.name] == told[REAL.name]
    assert set(told[REAL.name].values()) == {b"", b"-ERR 'Authorization Violation'\r\n"}


def test_contextShowsCertificate(tmp_path: Path) -> None:
    """The TLS context of these clients verifies the server, and would detect a wrong one."""
    authority().write(tmp_path, "ca")
    assert contextFor(tmp_path).verify_mode is ssl.CERT_REQUIRED
