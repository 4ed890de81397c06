"""
What Twisted's transports keep.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Server
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory

from natsbroker.connections.unsent import unsentBy


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection that takes little."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
    yield ours, theirs
    ours.close()
    theirs.close()


def serverOver(end: socket.socket) -> Any:
    """A transport of Twisted's; nothing happens by itself."""
    reactor: Any = MemoryReactorClock()
    port: Any = None
    return Server(end, Protocol(), ("127.0.0.1", 1), port, 1, reactor)


def test_unsent(ends: tuple[socket.socket, socket.socket]) -> None:
    """All that the peer cannot have yet counts: given lately, or lying there, or partly sent."""
    transport = serverOver(ends[0])
    assert unsentBy(transport) == 0
    transport.write(b"x" * 300_000)
    assert unsentBy(transport) == 300_000
    transport.doWrite()
    sent = 300_000 - unsentBy(transport)
    assert 0 < sent < 300_000
    assert len(ends[1].recv(1 << 20)) == sent
    transport.write(b"y" * 1_000)
    assert unsentBy(transport) == 301_000 - sent


def test_layers(ends: tuple[socket.socket, socket.socket]) -> None:
    """What is above the transport, as TLS is, is looked through."""
    transport = serverOver(ends[0])
    wrapper = ProtocolWrapper(WrappingFactory(None), Protocol())
    wrapper.makeConnection(transport)
    wrapper.write(b"abc")
    assert unsentBy(wrapper) == 3


def test_otherTransportsHoldNothing() -> None:
    """Of a transport that does not tell nothing counts."""
    transport = StringTransport()
    transport.write(b"abc")
    assert unsentBy(transport) == 0
