"""
Listening sockets that are opened before the reactor is imported.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactor

from natsbroker.connections.listener import PortListener, addressEndpoint, describe
from natsbroker.connections.opensocket import ANYWHERE, addressOf, openSocket, takesBoth


def freePort() -> int:
    """A port that the kernel chose."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_listens() -> None:
    """Clients can connect as soon as the socket is open."""
    port = freePort()
    opened = openSocket("127.0.0.1", port)
    assert opened is not None
    with opened, socket.create_connection(("127.0.0.1", port), 10):
        assert opened.getsockname() == ("127.0.0.1", port)


def test_everywhere() -> None:
    """The host for all addresses includes IPv6, if the machine has it."""
    opened = openSocket(ANYWHERE, freePort())
    assert opened is not None
    with opened:
        assert (opened.family == socket.AF_INET6) is takesBoth()
        assert addressOf(opened)[0] == ANYWHERE


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_addressOf(host: str) -> None:
    """The address of a socket is the one at which it was opened."""
    port = freePort()
    opened = openSocket(host, port)
    if opened is None:
        pytest.skip("no IPv6")
    with opened:
        assert addressOf(opened) == (host, port)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "127.0.0.1"])
def test_cannotListen(host: str) -> None:
    """An address that cannot be used opens no socket. The ordinary listener reports the reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert openSocket(host, taken.getsockname()[1]) is None


def test_standardLibraryOnly() -> None:
    """The module imports no slow modules."""
    program = "import natsbroker.connections.opensocket, sys; print('twisted' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", ANYWHERE])
def test_adopted(host: str) -> None:
    """The reactor adopts the socket, and the address is that of the settings."""
    opened = openSocket(host, freePort())
    assert opened is not None
    family, number, factory = opened.family, opened.fileno(), Factory()
    reactor: Any = MemoryReactor()
    listener = PortListener(addressEndpoint(reactor, host, 0, opened=opened), factory)
    listener.open()
    assert reactor.adoptedPorts == [(number, family, factory)]
    assert opened.fileno() == -1
    if host == ANYWHERE:
        assert describe(listener.address) == "0.0.0.0:1234"
