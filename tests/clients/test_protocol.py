"""
The protocol of client connections on ordinary transports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IPushProducer
from twisted.internet.testing import StringTransport
from zope.interface.verify import verifyObject

from natsbroker.clients.protocol import ClientProtocol
from natsbroker.config.model import Settings
from natsbroker.testing.transport import MemoryTransport
from tests.support import QUIET, Names, World, onEach, using


@pytest.fixture(autouse=True)
def implementation(names: Names) -> Iterator[Names]:
    """Use the implementation under test."""
    with using(names):
        yield names


@onEach
class TestTransports:
    """Transports of any kind."""

    def test_stringTransport(self) -> None:
        """The protocol works with Twisted's StringTransport."""
        world = World()
        protocol: Any = world.factory.buildProtocol(None)
        transport: Any = StringTransport()
        protocol.makeConnection(transport)
        assert transport.streaming and transport.producer is protocol
        protocol.dataReceived(b"PING\r\n")
        assert transport.value().endswith(b"PONG\r\n")
        transport.clear()
        protocol.dataReceived(b"FOO\r\n")
        assert transport.value() == b"-ERR 'Unknown Protocol Operation'\r\n"
        assert transport.disconnecting
        assert transport.producer is None
        world.advance(1.1)
        assert transport.disconnected

    def test_oneWritePerTurn(self) -> None:
        """The output for one chunk of input is one write per connection."""
        world = World()
        wire, other = world.client(), world.client()
        other.ask(b"SUB foo 1\r\nSUB foo 2\r\n")
        writes: list[bytes] = []
        transport: Any = other.transport
        transport.write = writes.append
        wire.send(b"PUB foo 1\r\nx\r\n" * 20)
        assert len(writes) == 1
        assert writes[0].count(b"MSG foo") == 40

    def test_unixSocket(self) -> None:
        """A client of a Unix socket has no host and no port."""
        world = World()
        protocol = world.factory.buildProtocol(None)
        transport = MemoryTransport(world.clock, protocol, UNIXAddress(None))
        transport.connect()
        world.settle()
        assert (protocol.host, protocol.port) == ("", 0)
        assert b'"client_ip"' not in transport.take()

    def test_noDelay(self) -> None:
        """TCP_NODELAY is set on a connection."""
        world = World()
        protocol = world.factory.buildProtocol(None)
        switched: list[bool] = []
        transport: Any = MemoryTransport(world.clock, protocol)
        transport.setTcpNoDelay = switched.append
        transport.connect()
        assert switched == [True]


@onEach
class TestBackPressure:
    """Back pressure of the transport, which pauses the outbox."""

    def test_producer(self) -> None:
        """The protocol is a producer for its transport, and ignores pauses without a connection."""
        protocol = World().factory.buildProtocol(None)
        assert verifyObject(IPushProducer, protocol)
        for call in (protocol.pauseProducing, protocol.resumeProducing, protocol.stopProducing):
            call()
        protocol.dataReceived(b"PING\r\n")
        protocol.connectionLost()

    def test_pausedOutbox(self) -> None:
        """While the transport is full everything stays in the outbox."""
        world = World(Settings(no_fast_producer_stall=True))
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        message = b"PUB foo 50000\r\n" + b"x" * 50000 + b"\r\n"
        for _ in range(10):
            wire.ask(message)
        assert wire.session.outbox.paused
        assert wire.session.outbox.pending > 300_000
        assert wire.transport.waiting < 150_000
        wire.transport.taking = True
        assert wire.receive().count(b"MSG foo") == 10
        assert (wire.session.outbox.paused, wire.session.outbox.pending) == (False, 0)


@onEach
class TestFactory:
    """The factory of protocols."""

    def test_builds(self) -> None:
        """Every connection has a protocol of its own that knows its factory."""
        world = World()
        one, other = (world.factory.buildProtocol(None) for _ in range(2))
        assert isinstance(one, ClientProtocol)
        assert one is not other
        factory: Any = one.factory
        assert factory is world.factory
        assert not world.factory.noisy

    def test_lostTwiceOver(self) -> None:
        """A connection that is lost while it is being closed leaves no timer."""
        world = World()
        wire = world.client(QUIET)
        wire.transport.taking = False
        wire.send(b"FOO\r\n")
        wire.transport.hangUp()
        world.settle()
        assert world.clock.getDelayedCalls() == []
