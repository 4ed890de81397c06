"""
The logins of routes and gateways: passwords that are stored as hashes, and users that certificates
name. natsbroker and nats-server dial each other.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.auth.hashes import blowfish
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour, Server
from tests.interop.tls.authority import authority, issue

FLAVOURS = pytest.mark.parametrize(
    "listener, dialler",
    [(REAL, OURS_FAST), (OURS_FAST, REAL)],
    ids=lambda flavour: flavour.name,
)

LISTENER = {
    "cluster": 'cluster {{ name: c, listen: "127.0.0.1:-1", {0} }}',
    "gateway": 'gateway {{ name: here, listen: "127.0.0.1:-1", {0} }}',
}

DIALLER = {
    "cluster": 'cluster {{ name: c, listen: "127.0.0.1:-1", routes: ["nats://{1}"] {0} }}',
    "gateway": 'gateway {{ name: "{2}", listen: "127.0.0.1:-1", gateways: '
    '[ {{name: here, url: "nats://{1}"}} ] {0} }}',
}

TLS = (
    'tls {{ cert_file: "{0}/{1}.pem", key_file: "{0}/{1}-key.pem", ca_file: "{0}/ca.pem",'
    " verify_and_map: true }}"
)

PAGES = ["-m", "-1"]


def portOf(server: Server) -> int:
    """
    @return: the port of a server for routes or gateways.
    """
    lines = server.waitForLog(r"Listening for (?:route|gateways?) connections on \S+:(\d+)")
    return int(lines[1])


def isLetIn(ear: Server, mouth: Server, name: str) -> bool:
    """
    @return: whether a server that dials another is accepted, once that is decided.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if any(name in json.dumps(ear.monitor(page)) for page in ("/routez", "/gatewayz")):
            return True
        if "Authorization Violation" in mouth.log():
            return False
        time.sleep(0.05)
    raise TimeoutError(ear.log())


@pytest.mark.parametrize("kind", ["cluster", "gateway"])
@FLAVOURS
def test_hash(listener: Flavour, dialler: Flavour, kind: str, startServer: StartServer) -> None:
    """
    A peer is accepted with the password whose hash the listener has, and refused with any other.
    """
    login = f'authorization {{ user: u, password: "{blowfish("bar", b"2a")}", timeout: 5 }}'
    ear = startServer(listener, f"server_name: ear\n{LISTENER[kind].format(login)}", PAGES)
    for password, isRight in (("baz", False), ("bar", True)):
        url = f"u:{password}@127.0.0.1:{portOf(ear)}"
        name = f"mouth-{password}"
        text = f"server_name: {name}\n{DIALLER[kind].format('', url, name)}"
        assert isLetIn(ear, startServer(dialler, text), name) == isRight


@pytest.mark.parametrize("kind", ["cluster", "gateway"])
@FLAVOURS
def test_mapped(
    listener: Flavour, dialler: Flavour, kind: str, startServer: StartServer, tmp_path: Path
) -> None:
    """A peer's certificate names the user, who has no password."""
    ours = authority()
    ours.write(tmp_path, "ca")
    for name in ("right", "wrong"):
        names = [f"{name}.example.com", "localhost"]
        issue(ours, f"CN={name}", names=names).write(tmp_path, name)
    login = 'authorization { user: "right.example.com" }, ' + TLS.format(tmp_path, "right")
    ear = startServer(listener, f"server_name: ear\n{LISTENER[kind].format(login)}", PAGES)
    for name, isRight in (("wrong", False), ("right", True)):
        more = f', authorization {{ user: "{name}.example.com" }}, {TLS.format(tmp_path, name)}'
        text = DIALLER[kind].format(more, f"localhost:{portOf(ear)}", f"mouth-{name}")
        mouth = startServer(dialler, f"server_name: mouth-{name}\n{text}")
        assert isLetIn(ear, mouth, f"mouth-{name}") == isRight


@pytest.mark.parametrize("kind", ["cluster", "gateway"])
@FLAVOURS
def test_known(
    listener: Flavour, dialler: Flavour, kind: str, startServer: StartServer, tmp_path: Path
) -> None:
    """A peer's certificate names a host of the listener's own URLs, or the peer is refused."""
    ours = authority()
    ours.write(tmp_path, "ca")
    for name in ("right", "wrong"):
        names = [f"{name}.example.com", "localhost"]
        issue(ours, f"CN={name}", names=names).write(tmp_path, name)
    tls = TLS.replace("verify_and_map", "verify_cert_and_check_known_urls")
    url = "nats://right.example.com:1"
    known = {"cluster": f'routes: ["{url}"]', "gateway": f'gateways: [{{name: x, url: "{url}"}}]'}
    more = f"{known[kind]}, {tls.format(tmp_path, 'right')}"
    ear = startServer(listener, f"server_name: ear\n{LISTENER[kind].format(more)}", PAGES)
    for name, isRight in (("wrong", False), ("right", True)):
        more = f", {TLS.format(tmp_path, name).replace('verify_and_map: true', '')}"
        text = DIALLER[kind].format(more, f"localhost:{portOf(ear)}", f"mouth-{name}")
        mouth = startServer(dialler, f"server_name: mouth-{name}\n{text}")
        assert isLetIn(ear, mouth, f"mouth-{name}") == isRight
