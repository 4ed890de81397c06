"""
A third party's kind of connection whose clients log in: C{examples/line_clients.py}, in memory and
run unchanged.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from twisted.internet.address import IPv4Address
from zope.interface.verify import verifyClass, verifyObject

from examples.line_clients import CONFIG, LineClients, LineDialect
from natsbroker.interfaces import (
    IClientDialect,
    IClientEvents,
    IConnectionKind,
    IConnectionService,
)
from natsbroker.runtime.reload import ReloadError
from natsbroker.testing.transport import MemoryTransport
from tests.examples.running import running
from tests.interop.certificates import writeCertificates
from tests.server.support import Host, settingsOf

TEXT = CONFIG.format(clients=4222, lines=7000, cert="", key="")
LOGIN = b"CONNECT device secret\n"


class Bench:
    """A broker in memory that has the kind."""

    def __init__(self, text: str = TEXT) -> None:
        self.host = Host(text, connectionKinds=[LineClients()]).start()
        (self.factory,) = (
            server[1] for server in self.host.reactor.tcpServers if server[0] == 7000
        )

    def dial(self) -> MemoryTransport:
        """Connect a client of the line protocol."""
        peer = IPv4Address("TCP", "127.0.0.1", 50000)
        transport = MemoryTransport(self.host.reactor, self.factory.buildProtocol(peer), peer)
        transport.connect()
        return transport

    def ask(self, client: MemoryTransport, data: bytes) -> Sequence[bytes]:
        """The lines that answer some input."""
        client.send(data)
        self.host.settle()
        return client.take().splitlines()


def test_contract() -> None:
    """The kind, its service and its dialect provide their interfaces."""
    bench = Bench()
    assert verifyObject(IConnectionKind, LineClients())
    assert verifyObject(IConnectionService, bench.host.broker.links.find("lines"))
    for contract in (IClientDialect, IClientEvents):
        assert verifyClass(contract, LineDialect)


def test_rights() -> None:
    """A client has the permissions of its user, and no others."""
    bench = Bench()
    client, other = bench.dial(), bench.host.client()
    assert bench.ask(client, LOGIN + b"SUB orders.*\nSUB state.*\n") == [
        b"OK",
        b"OK",
        b'ERR Permissions Violation for Subscription to "state.*"',
    ]
    other.ask(b"SUB > 1\r\n")
    assert bench.ask(client, b"PUB state.lamp open\nPUB orders.lamp open\n") == [
        b'ERR Permissions Violation for Publish to "orders.lamp"'
    ]
    assert other.receive() == b"MSG state.lamp 1 4\r\nopen\r\n"
    other.ask(b"PUB orders.lamp 5\r\nclose\r\n")
    assert bench.ask(client, b"UNSUB orders.*\n") == [b"MSG orders.lamp close", b"OK"]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"CONNECT device wrong\n", b"ERR Authentication Failure"),
        (b"PUB a b\n", b"ERR Authentication Failure"),
        (b"HELLO\n", b"ERR Protocol Violation"),
        (b"x" * 2_000_000, b"ERR Protocol Violation"),
    ],
)
def test_ended(said: bytes, answer: bytes) -> None:
    """A client without a login, or of another protocol, gets the reason before it is closed."""
    bench = Bench()
    client = bench.dial()
    assert bench.ask(client, said) == [answer]
    assert client.closed == "lost"


def test_type() -> None:
    """
    A user that is restricted to this kind cannot log in as a client of NATS, and C{/connz} names
    the kind.
    """
    bench = Bench()
    wire = bench.host.client(b'CONNECT {"user":"device","pass":"secret"}\r\n')
    assert wire.session.reason == "Authentication Failure"
    bench.ask(bench.dial(), LOGIN)
    page = bench.host.broker.monitoring.connz({"auth": "1"})
    (row,) = json.loads(b"".join(page.body))["connections"]
    assert (row["type"], row["authorized_user"], row["lang"]) == ("lines", "device", "lines")


def test_reload() -> None:
    """A reload may remove permissions. A change of the section itself needs a restart."""
    bench = Bench()
    client = bench.dial()
    bench.ask(client, LOGIN + b"SUB orders.>\n")
    bench.host.reload(TEXT.replace("orders.>", "others.>"))
    assert bench.ask(client, b"") == [b"ERR orders.> is no longer allowed"]
    bench.host.reload(TEXT.replace("secret", "changed"))
    assert bench.ask(client, b"")[-1:] == [b"ERR Authentication Failure"]
    with pytest.raises(ReloadError, match="not supported for service lines"):
        bench.host.broker.reload(settingsOf(TEXT.replace("7000", "7001")))


def test_leaving() -> None:
    """A client is notified that the broker will stop, and later that it stops."""
    bench = Bench()
    client = bench.dial()
    bench.ask(client, LOGIN)
    bench.host.broker.lameDuck()
    assert bench.ask(client, b"") == [b"ERR the server stops soon"]
    bench.host.broker.stopService()
    assert bench.ask(client, b"") == [b"ERR Server Shutdown"]


def test_program(tmp_path: Path) -> None:
    """Lines over TLS are published to a client of NATS, whose messages are sent back as lines."""
    writeCertificates(tmp_path)
    pair = [str(tmp_path / name) for name in ("server.pem", "server-key.pem")]
    terms = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    terms.load_verify_locations(tmp_path / "ca.pem")
    with running("line_clients.py", "0", "0", *pair, lines=2) as [clients, lines]:
        nats = socket.create_connection(("127.0.0.1", clients), 30)
        plain = socket.create_connection(("127.0.0.1", lines), 30)
        with nats, terms.wrap_socket(plain, server_hostname="localhost") as secure:
            secure.sendall(LOGIN + b"SUB orders.*\n")
            heard, told = secure.makefile("rb"), nats.makefile("rb")
            assert [heard.readline(), heard.readline()] == [b"OK\n", b"OK\n"]
            nats.sendall(
                b'CONNECT {"verbose":false}\r\nSUB state.> 1\r\nPUB orders.lamp 5\r\nclose\r\n'
            )
            assert heard.readline() == b"MSG orders.lamp close\n"
            assert told.readline().startswith(b"INFO")
            secure.sendall(b"PUB state.lamp open\n")
            assert told.readline() == b"MSG state.lamp 1 4\r\n"
