"""
The users and the TLS of connections in C{/connz}, on nats-server and on natsbroker: keys, their
order, and values.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.auth.operator.chain import Account, KeyPair, Operator, raw
from tests.interop.auth.peers import Both, Peer
from tests.interop.servers import PATIENCE, Server
from tests.interop.tls.authority import authority, issue
from tests.interop.tls.wire import CONNECT, Wire, contextFor

OPERATOR = Operator()
SYSTEM, ACCOUNT = Account(OPERATOR), Account(OPERATOR)
USER, SIGNER, BEARER = KeyPair("U"), KeyPair("U"), KeyPair("U")

CHAIN = f"""
http: "127.0.0.1:-1"
operator: {OPERATOR.jwt({"system_account": SYSTEM.key})}
resolver: MEMORY
resolver_preload {{
    {SYSTEM.key}: {SYSTEM.jwt()}
    {ACCOUNT.key}: {ACCOUNT.jwt(name="the account")}
}}
"""

KEY = KeyPair("U")

TLS = f"""
http: "127.0.0.1:-1"
tls {{ cert_file: "$DIR/../server.pem", key_file: "$DIR/../server-key.pem"
      ca_file: "$DIR/../ca.pem", verify: true, %s }}
accounts {{ A {{ users: [ {{user: alice, password: pw}}, {{nkey: {KEY.key}}} ] }} }}
"""

#: With a comma, and with attributes that Go has no names for.
SUBJECT = "CN=alice,O=acme\\, inc,DC=example,DC=com,1.2.840.113549.1.9.1=a@b.c"

#: What is not the same on two servers, or from one moment to the next.
VOLATILE = {"cid", "port", "start", "last_activity", "stop", "rtt", "uptime", "idle", "version"}

PAGES = ("/connz", "/connz?auth=1", "/connz?state=closed", "/connz?state=closed&auth=1")


def rows(server: Server, path: str) -> list[dict[str, Any]]:
    """
    The rows of a page, oldest first.
    """
    page: Any = server.monitor(path)
    listed = []
    for row in sorted(page["connections"], key=lambda row: row["cid"]):
        fixed = {key: "" if key in VOLATILE else value for key, value in row.items()}
        fixed.pop("worker", None)  # several workers say which has the connection
        if fixed.get("tls_version") == "1.3":
            fixed["tls_cipher_suite"] = fixed["tls_cipher_suite"][:8]  # each has its preferences
        if fixed.get("reason") == "Read Error":
            # The client went while something, such as PING, was on its way to it.
            fixed["reason"] = "Client Closed"
        if "closed" in path:
            fixed["pending_bytes"] = 0  # how much of that there was depends on the moment
        listed.append(fixed)
    return listed


def _untilClosed(server: Server) -> None:
    """Wait until a server has noticed that one client has disconnected."""
    deadline = time.monotonic() + PATIENCE
    while not rows(server, "/connz?state=closed"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ordered(listed: list[dict[str, Any]]) -> list[list[str]]:
    """
    The keys of rows in their order.
    """
    return [list(row) for row in listed]


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Servers in operator mode, with connected users and one disconnected user."""
    both = Both(tmp_path_factory.mktemp("connz"), CHAIN)
    peers = []
    tagged = {"tags": ["blue", "size:9"]}
    for server in both.servers:
        users = [
            (ACCOUNT.user(USER, tagged, name="me"), USER),
            (ACCOUNT.user(SIGNER, tagged, signer=ACCOUNT.signing), SIGNER),
            (ACCOUNT.user(BEARER, {"bearer_token": True}), None),
            (ACCOUNT.user(USER, tagged, name="gone"), USER),
        ]
        for text, user in users:
            peers.append(Peer(server))
            assert peers[-1].login(text, user, {"name": "a client"}) == ""
        peers[-1].close()
        _untilClosed(server)
    yield both
    for peer in peers:
        peer.close()
    both.stop()


@pytest.mark.parametrize("path", PAGES)
def test_operator(chained: Both, path: str) -> None:
    """Names, tags, issuers and JWTs are the same, and the JWT of a bearer is never shown."""
    listed = chained.compare(lambda server: rows(server, path))
    assert chained.compare(lambda server: ordered(rows(server, path)))
    shown = json.dumps(listed)
    if "auth" in path or "closed" in path:
        assert '"jwt"' in shown and '"tags": ["blue", "size:9"]' in shown
    assert BEARER.key not in shown or "auth" in path


@pytest.fixture(scope="module", params=("", "handshake_first: true"), ids=("later", "first"))
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    """Servers that require certificates, with connected clients and one disconnected client."""
    directory = tmp_path_factory.mktemp("tls")
    root = authority()
    between = authority("CN=between", root)
    root.write(directory, "ca")
    issue(root, names=["localhost"]).write(directory, "server")
    issue(root, SUBJECT).write(directory, "alice")
    issue(between, "OU=two+CN=bob").write(directory, "bob", between)
    both = Both(directory, TLS % request.param)
    wires = []
    for server in both.servers:
        for name in ("alice", "bob", "alice"):
            old = (ssl.TLSVersion.TLSv1_2,) * 2 if name == "bob" else None
            context = contextFor(directory, name, old, "ECDHE-ECDSA-AES128-GCM-SHA256")
            wire = _dial(server, context, bool(request.param))
            wires.append(wire)
            assert wire.ask(CONNECT % b',"user":"alice","pass":"pw"').endswith(b"PONG\r\n")
        wire = _dial(server, contextFor(directory, "bob"), bool(request.param), KEY)
        wires[-1].socket.close()
        _untilClosed(server)
        wires.append(wire)
    yield both
    for wire in wires:
        wire.socket.close()
    both.stop()


def _dial(server: Server, context: Any, first: bool, key: KeyPair | None = None) -> Wire:
    wire = Wire(server.port, context) if first else Wire(server.port)
    info = wire.info()
    if not first:
        wire.secure(context)
    if key is not None:
        signature = raw(key.sign(info["nonce"].encode()))
        said = b',"nkey":"%b","sig":"%b"' % (key.key.encode(), signature.encode())
        assert wire.ask(CONNECT % said).endswith(b"PONG\r\n")
    return wire


@pytest.mark.parametrize("path", PAGES)
def test_tls(secured: Both, path: str) -> None:
    """Versions, cipher suites and certificates are the same."""
    listed = secured.compare(lambda server: rows(server, path))
    assert secured.compare(lambda server: ordered(rows(server, path)))
    versions = {row["tls_version"] for row in listed}
    assert versions == ({"1.3"} if "closed" in path else {"1.2", "1.3"})
    assert ("tls_peer_certs" in json.dumps(listed)) is (path == "/connz?auth=1")
