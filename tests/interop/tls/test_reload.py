"""
Certificates and pinned keys that change while clients are connected.
"""

from __future__ import annotations

import hashlib
import os
import signal
import ssl
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, REAL, Flavour
from tests.interop.tls.authority import authority, issue
from tests.interop.tls.conftest import BLOCK, VERIFY, writeFiles
from tests.interop.tls.pins import pinOf
from tests.interop.tls.reloads import reload
from tests.interop.tls.twistd import twistd
from tests.interop.tls.wire import CONNECT, Wire, contextFor, isAccepted, shakeHands

realAndOurs = pytest.mark.parametrize(
    "flavour", (REAL, OURS_FAST), ids=lambda flavour: flavour.name
)


def shownTo(wire: Wire) -> str:
    """
    @return: the SHA-256 of the certificate that a client receives.
    """
    assert isinstance(wire.socket, ssl.SSLSocket)
    return hashlib.sha256(wire.socket.getpeercert(True) or b"").hexdigest()


@realAndOurs
def test_certificate(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """A new certificate under the old name is sent to new clients, and connected clients stay."""
    writeFiles(tmp_path)
    server = startServer(flavour, (BLOCK % "").replace("$DIR", str(tmp_path)))
    with shakeHands(server.port, contextFor()) as old:
        assert old.ask(CONNECT % b"" + b"SUB here 1\r\n") == b"PONG\r\n"
        before = shownTo(old)
        ours = authority("CN=new authority")
        ours.write(tmp_path, "ca")
        issue(ours, names=["localhost"]).write(tmp_path, "server")
        reload(server)
        with shakeHands(server.port, contextFor(tmp_path)) as new:
            assert shownTo(new) != before
            assert new.ask(CONNECT % b"" + b"PUB here 2\r\nhi\r\n") == b"PONG\r\n"
        assert old.ask() == b"MSG here 1 2\r\nhi\r\nPONG\r\n"


@realAndOurs
def test_broken(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """A reload with an invalid certificate, or a key of another one, changes nothing."""
    writeFiles(tmp_path)
    server = startServer(flavour, (BLOCK % "").replace("$DIR", str(tmp_path)))
    good = (tmp_path / "server-key.pem").read_bytes()
    (tmp_path / "server-key.pem").write_bytes((tmp_path / "client-key.pem").read_bytes())
    reload(server, r"\[ERR\].*[Rr]eload")
    assert isAccepted(server.port, contextFor(tmp_path))
    (tmp_path / "server-key.pem").write_bytes(good)
    reload(server)
    assert isAccepted(server.port, contextFor(tmp_path))


@realAndOurs
def test_demand(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """A reload that requires client certificates applies to later connections only."""
    writeFiles(tmp_path)
    server = startServer(flavour, (BLOCK % "").replace("$DIR", str(tmp_path)))
    with shakeHands(server.port, contextFor(tmp_path)) as old:
        assert old.ask(CONNECT % b"") == b"PONG\r\n"
        server.writeConfig((BLOCK % VERIFY).replace("$DIR", str(tmp_path)))
        reload(server)
        assert not isAccepted(server.port, contextFor(tmp_path))
        assert isAccepted(server.port, contextFor(tmp_path, "client"))
        assert old.ask() == b"PONG\r\n"


class TestPins:
    """Reloads that pin other keys."""

    def config(self, files: Path, *names: str) -> str:
        """A TLS block that pins the keys of some certificates."""
        pins = ", ".join(f'"{pinOf(files / f"{name}.pem")}"' for name in names)
        return (BLOCK % f"{VERIFY} pinned_certs: [{pins}]").replace("$DIR", str(files))

    @realAndOurs
    def test_new(self, flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
        """New clients need a pinned certificate after a reload."""
        writeFiles(tmp_path)
        server = startServer(flavour, self.config(tmp_path, "client"))
        server.writeConfig(self.config(tmp_path, "second"))
        reload(server)
        assert not isAccepted(server.port, contextFor(tmp_path, "client"))
        assert isAccepted(server.port, contextFor(tmp_path, "second"))

    def test_dropped(self, startServer: StartServer, tmp_path: Path) -> None:
        """
        Clients whose key is no longer pinned are disconnected, and others stay. (nats-server 2.15.1
        compares with the earlier pins, and disconnects none.)
        """
        writeFiles(tmp_path)
        server = startServer(OURS_FAST, self.config(tmp_path, "client", "second"))
        client, second = (
            shakeHands(server.port, contextFor(tmp_path, name)) for name in ("client", "second")
        )
        with client, second:
            for wire in (client, second):
                assert wire.ask(CONNECT % b"") == b"PONG\r\n"
            server.writeConfig(self.config(tmp_path, "second"))
            reload(server)
            assert client.rest() == b""
            assert second.ask() == b"PONG\r\n"
        server.waitForLog(r"TLS handshake error: certificate not pinned any more")


def test_endpoint(tmp_path: Path) -> None:
    """A reload reads the files of an C{ssl:} endpoint again."""
    writeFiles(tmp_path)
    (tmp_path / "x.conf").write_text("max_payload: 100\n")
    with twistd(tmp_path, tmp_path, "--config", str(tmp_path / "x.conf")) as started:
        with Wire(started.port, contextFor(tmp_path)) as old:
            info = old.info()
            assert (info["max_payload"], info["tls_required"]) == (100, True)
            before = shownTo(old)
            assert old.ask(CONNECT % b"") == b"PONG\r\n"
            writeFiles(tmp_path)
            os.kill(started.pid, signal.SIGHUP)
            started.waitForLog("Reloaded server configuration")
            with Wire(started.port, contextFor(tmp_path)) as new:
                assert shownTo(new) != before
            assert old.ask() == b"PONG\r\n"
