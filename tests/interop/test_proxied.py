"""
Clients behind proxies: nats-server and natsbroker accept and refuse the same headers of the PROXY
protocol and the same signatures, and show the same addresses and keys.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from natsbroker.auth.nkeys import Signer, encodeRaw
from natsbroker.wire.nkeys import Role
from tests.connections.headers import FIRST, NAMED, UNNAMED, WRONG
from tests.interop.certificates import writeCertificates
from tests.interop.conftest import StartServer
from tests.interop.servers import ALL, OURS, PATIENCE, Flavour, Server

HELLO = b'CONNECT {"verbose":false,"pedantic":false,"name":"here"}\r\nPING\r\n'

CONFIG = 'http: "127.0.0.1:-1"\nproxy_protocol: true\n'

TLS = 'tls {{ cert_file: "{0}/server.pem", key_file: "{0}/server-key.pem", {1} }}\n'

flavours = pytest.mark.parametrize("flavour", ALL, ids=lambda flavour: flavour.name)


@contextmanager
def dialled(port: int) -> Iterator[socket.socket]:
    """
    A connection.
    """
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        yield connection


def answer(connection: socket.socket) -> bytes:
    """
    @return: the output up to a PONG, or to the end.
    """
    received = b""
    try:
        while b"PONG\r\n" not in received and (data := connection.recv(65536)):
            received += data
    except ConnectionError:
        pass
    return received


def addressAt(server: Server) -> tuple[object, object]:
    """
    @return: the address of the only client.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        page = server.monitor("/connz")["connections"]
        assert isinstance(page, list)
        if len(page) == 1:
            return page[0]["ip"], page[0]["port"]
        time.sleep(0.05)
    raise TimeoutError("there are other clients")


def refusalsAt(server: Server, count: int) -> list[str]:
    """
    @return: the reasons for refused clients, once there are that many, because nats-server shows a
        client as closed only after the client has seen the end.
    """
    until = time.monotonic() + PATIENCE
    while True:
        closed = cast(Any, server.monitor("/connz?state=closed")["connections"])
        reasons = [connection["reason"] for connection in closed if "Proxy" in connection["reason"]]
        if len(reasons) >= count or time.monotonic() > until:
            return reasons
        time.sleep(0.05)


@flavours
def test_headers(flavour: Flavour, startServer: StartServer) -> None:
    """Every header is read in the same way, whole and in pieces."""
    server = startServer(flavour, CONFIG)
    for header in (*NAMED, *UNNAMED):
        for cut in (0, 9):
            with dialled(server.port) as connection:
                connection.sendall(header[:cut])
                time.sleep(0.02 if cut else 0.0)
                connection.sendall(header[cut:] + HELLO)
                said = answer(connection)
                assert said.endswith(b"PONG\r\n") and b"client_ip" not in said, header
                assert addressAt(server) == NAMED.get(header, connection.getsockname()), header
    for header in WRONG:
        with dialled(server.port) as connection:
            connection.sendall(header + HELLO * 4)
            said = answer(connection)
            assert b"PONG" not in said and b"-ERR" not in said, header


@flavours
@pytest.mark.parametrize("isFirst", [False, True])
def test_tls(flavour: Flavour, isFirst: bool, startServer: StartServer, tmp_path: Path) -> None:
    """A proxy header is in clear text before the handshake, and optional."""
    writeCertificates(tmp_path)
    first = "handshake_first: true" if isFirst else ""
    server = startServer(flavour, CONFIG + TLS.format(tmp_path, first))
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    for header in (FIRST, b""):
        with dialled(server.port) as connection:
            connection.sendall(header)
            if not isFirst:
                while not connection.recv(65536).endswith(b"\r\n"):
                    pass
            with context.wrap_socket(connection, server_hostname="localhost") as secured:
                secured.sendall(HELLO)
                assert answer(secured).endswith(b"PONG\r\n")
                assert addressAt(server) == NAMED.get(header, secured.getsockname())


@flavours
def test_trusted(flavour: Flavour, startServer: StartServer) -> None:
    """
    Trusted proxies sign the nonce, and the same signatures are accepted. Pages show the proxy of a
    client, and the reason why others were refused.
    """
    proxy, stranger = Signer(Role.SERVER), Signer(Role.USER)
    server = startServer(
        flavour,
        f"""
        http: "127.0.0.1:-1"
        proxies {{ trusted: [ {{key: {proxy.publicKey}}} ] }}
        authorization {{ users: [ {{user: a, password: a, proxy_required: true}}
                                  {{user: b, password: b}} ] }}
        """,
    )
    reasons = []
    for user, signer, key in (
        ("a", proxy, proxy.publicKey),
        ("b", proxy, proxy.publicKey),
        ("b", None, ""),
        ("a", None, "Proxy Required"),
        ("a", stranger, "Proxy Not Trusted"),
        ("b", stranger, "Proxy Not Trusted"),
    ):
        with dialled(server.port) as connection:
            said = b""
            while not said.endswith(b"\r\n"):
                said += connection.recv(65536)
            nonce = json.loads(said[5:])["nonce"].encode()
            options = {"verbose": False, "user": user, "pass": user, "name": "here"}
            if signer is not None:
                options["proxy_sig"] = encodeRaw(signer.sign(nonce))
            connection.sendall(b"CONNECT %b\r\nPING\r\n" % json.dumps(options).encode())
            reply = answer(connection)
            if " " in key:
                assert reply.startswith(b"-ERR 'Authorization Violation'\r\n")
                reasons.append(key)
                continue
            assert reply.endswith(b"PONG\r\n")
            addressAt(server)
            [row] = cast(Any, server.monitor("/connz")["connections"])
            assert row.get("proxy") == ({"key": key} if key else None)
    assert refusalsAt(server, len(reasons)) == reasons
    assert server.monitor("/varz")["proxies"] == {"trusted": [{"key": proxy.publicKey}]}


@pytest.mark.parametrize("flavour", OURS, ids=lambda flavour: flavour.name)
def test_webSocket(flavour: Flavour, startServer: StartServer) -> None:
    """WebSocket listeners read the header too, which nats-server's do not."""
    block = 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'
    server = startServer(flavour, CONFIG + block)
    port = int(server.waitForLog(r"Listening for websocket clients on ws://\S+:(\d+)")[1])
    for header in (FIRST, b""):
        with dialled(port) as connection:
            key = base64.b64encode(bytes(16)).decode()
            connection.sendall(
                header
                + b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            data = b""
            while b'"client_ip"' not in data:
                data += connection.recv(65536)
            info = json.loads(data[data.index(b"INFO ") + 5 : data.rindex(b"}") + 1])
            host, _ = NAMED.get(header) or connection.getsockname()
            assert info["client_ip"] == host
