"""
OCSP with a responder, compared with nats-server: staples, and peers whose certificates are revoked.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import ocsp
from OpenSSL import SSL

from natsbroker.ocsp.responses import Status, readAnswer
from tests.interop.conftest import StartServer
from tests.interop.servers import ALL, OURS_FAST, PATIENCE, REAL, Flavour, Server
from tests.interop.tls.authority import Issued, authority
from tests.interop.tls.responder import Responder
from tests.ocsp.authorities import GOOD, REVOKED, UNKNOWN, certified

flavours = pytest.mark.parametrize("flavour", ALL, ids=lambda flavour: flavour.name)

TLS = (
    'tls {{ cert_file: "{0}/{1}.pem", key_file: "{0}/{1}-key.pem", ca_file: "{0}/ca.pem", {2} }}\n'
)

HELLO = b'CONNECT {"verbose":false}\r\nPING\r\n'


class World:
    """
    An authority with a responder, and certificates in files.
    """

    def __init__(self, directory: Path, responder: Responder) -> None:
        self.directory = directory
        self.responder = responder
        self.signer = responder.signer = authority()
        self.signer.write(directory, "ca")

    def make(self, name: str, status: ocsp.OCSPCertStatus = GOOD, must: bool = False) -> Issued:
        """Make a certificate."""
        made = certified(self.signer, f"CN={name}", self.responder.url, must, ["localhost", name])
        made.write(self.directory, name, self.signer)
        return self.responder.add(made, status)

    def tls(self, name: str, more: str = "") -> str:
        """
        A C{tls} block.
        """
        return TLS.format(self.directory, name, more)

    def talk(self, port: int, name: str = "") -> tuple[bytes, bytes]:
        """
        Connect as a client with or without a certificate.

        @return: the staple, and the last output.
        """
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.load_verify_locations(str(self.directory / "ca.pem"))
        if name:
            context.use_certificate_file(str(self.directory / f"{name}.pem"))
            context.use_privatekey_file(str(self.directory / f"{name}-key.pem"))
        staples: list[bytes] = []

        def keep(connection: SSL.Connection, staple: bytes, data: object) -> bool:
            staples.append(staple)
            return True

        context.set_ocsp_client_callback(keep)
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain:
            while not plain.recv(65536).endswith(b"\r\n"):
                pass
            connection = SSL.Connection(context, plain)
            plain.settimeout(None)
            connection.set_connect_state()
            connection.request_ocsp()
            said = b""
            try:
                connection.do_handshake()
                connection.sendall(HELLO)
                while b"PONG" not in said:
                    said += connection.recv(65536)
            except (SSL.Error, OSError):
                said = b"refused"
        return staples[-1] if staples else b"", said


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world for the tests."""
    with Responder() as responder:
        yield World(tmp_path, responder)


@flavours
@pytest.mark.parametrize(
    "mode, must, isStapled",
    [
        ("ocsp: true", True, True),
        ("ocsp: true", False, False),
        ("ocsp { mode: always }", False, True),
        ("ocsp { mode: must }", True, True),
        ("ocsp { mode: must }", False, False),
        ("ocsp: false", True, False),
        ("", True, True),
        ("", False, False),
    ],
)
def test_staples(
    flavour: Flavour, mode: str, must: bool, isStapled: bool, startServer: StartServer, world: World
) -> None:
    """Both servers send the responder's response in the same modes, for the same certificates."""
    made = world.make("localhost", must=must)
    server = startServer(flavour, f"{mode}\n{world.tls('localhost')}")
    staple, said = world.talk(server.port)
    assert b"PONG" in said and bool(staple) == isStapled
    if staple:
        answer = readAnswer(staple, made.certificate, world.signer.certificate)
        assert answer.status is Status.GOOD


@flavours
@pytest.mark.parametrize("status, mode", [(REVOKED, "always"), (UNKNOWN, "must")])
def test_noStart(
    flavour: Flavour,
    status: ocsp.OCSPCertStatus,
    mode: str,
    startServer: StartServer,
    world: World,
) -> None:
    """A server whose certificate must have a good status, and has not, does not start."""
    world.make("localhost", status, must=True)
    with pytest.raises(RuntimeError, match="found existing OCSP status for certificate at"):
        startServer(flavour, f"ocsp {{ mode: {mode} }}\n{world.tls('localhost')}")


@flavours
def test_noResponder(flavour: Flavour, startServer: StartServer, world: World) -> None:
    """A certificate that needs a response is refused if its responder cannot be reached."""
    world.make("localhost", must=True)
    text = f'ocsp {{ mode: auto, url: "http://127.0.0.1:1" }}\n{world.tls("localhost")}'
    with pytest.raises(RuntimeError, match="bad OCSP status update for certificate at"):
        startServer(flavour, text)


@flavours
@pytest.mark.parametrize(
    "options, status, isTaken",
    [
        ("true", GOOD, True),
        ("true", REVOKED, False),
        ("true", UNKNOWN, False),
        ("false", REVOKED, True),
        ("{ verify: true, unknown_is_good: true }", UNKNOWN, True),
        ("{ verify: true, warn_only: true }", REVOKED, True),
    ],
)
def test_clients(
    flavour: Flavour,
    options: str,
    status: ocsp.OCSPCertStatus,
    isTaken: bool,
    startServer: StartServer,
    world: World,
) -> None:
    """A client whose certificate was revoked is refused."""
    world.make("localhost")
    world.make("client", status)
    cache = f'ocsp_cache {{ local_store: "{world.directory}/rc" }}\n'
    tls = world.tls("localhost", f"verify: true, ocsp_peer: {options}")
    server = startServer(flavour, cache + tls)
    for _ in range(2):
        _, said = world.talk(server.port, "client")
        assert (b"PONG" in said) == isTaken


def leaf(server: Server, isComing: bool) -> bool:
    """
    @return: whether a leafnode is connected, once it is, or false after a while.
    """
    until = time.monotonic() + (PATIENCE if isComing else 2.0)
    while time.monotonic() < until:
        if server.monitor("/leafz")["leafnodes"]:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("status", [GOOD, REVOKED])
@pytest.mark.parametrize("side", ["hub", "spoke"])
@pytest.mark.parametrize(
    "hub, spoke", [(REAL, OURS_FAST), (OURS_FAST, REAL)], ids=lambda flavour: flavour.name
)
def test_leafnodes(
    hub: Flavour,
    spoke: Flavour,
    side: str,
    status: ocsp.OCSPCertStatus,
    startServer: StartServer,
    world: World,
) -> None:
    """Hubs check the certificates of spokes, and spokes those of hubs."""
    world.make("hub", status if side == "spoke" else GOOD)
    world.make("spoke", status if side == "hub" else GOOD)
    cache = f'ocsp_cache {{ local_store: "{world.directory}/rc" }}\n'
    ear = startServer(
        hub,
        f"{cache}server_name: hub\nleafnodes {{ listen: '127.0.0.1:-1', "
        + world.tls("hub", "verify: true, ocsp_peer: true")
        + "}",
        ["-m", "-1"],
    )
    port = ear.waitForLog(r"Listening for leafnode connections on \S+:(\d+)")[1]
    startServer(
        spoke,
        f"{cache}server_name: spoke\nleafnodes {{ reconnect: '300ms', remotes: [ "
        f"{{ url: 'tls://localhost:{port}', {world.tls('spoke', 'ocsp_peer: true')} }} ] }}",
    )
    assert leaf(ear, status is GOOD) == (status is GOOD)


def _routesOf(server: Server) -> list[Any]:
    """The routes to other servers; those between workers have no address."""
    page: Any = server.monitor("/routez")
    return [row for row in page["routes"] if row["ip"]]


@pytest.mark.parametrize("status", [GOOD, REVOKED])
@pytest.mark.parametrize(
    "side, dialler", [("ear", OURS_FAST), ("mouth", OURS_FAST), ("mouth", REAL)]
)
def test_routes(
    side: str,
    dialler: Flavour,
    status: ocsp.OCSPCertStatus,
    startServer: StartServer,
    world: World,
) -> None:
    """
    Members that send staples verify each other: the dialling one by the staple, the other one by
    the responder.
    """
    for name in ("ear", "mouth"):
        world.make(name, must=True)

    # Not strict, so that one with a bad certificate starts and shows that it has one.
    def text(name: str, routes: str) -> str:
        block = f"cluster {{ name: c, listen: '127.0.0.1:-1', routes: [{routes}], "
        return f"server_name: {name}\nocsp: true\n{block}{world.tls(name)} }}"

    world.responder.statuses[
        next(
            serial
            for serial, known in world.responder.known.items()
            if f"CN={side}" in known.certificate.subject.rfc4514_string()
        )
    ] = status
    ear = startServer(OURS_FAST, text("ear", ""), ["-m", "-1"])
    port = ear.waitForLog(r"Listening for route connections on \S+:(\d+)")[1]
    mouth = startServer(dialler, text("mouth", f"'nats://localhost:{port}'"))
    if status is GOOD:
        until = time.monotonic() + PATIENCE
        while not _routesOf(ear) and time.monotonic() < until:
            time.sleep(0.05)
        assert _routesOf(ear)
    else:
        judge = mouth if side == "ear" else ear
        judge.waitForLog("TLS handshake error: .*revoked")
        assert not _routesOf(ear)
