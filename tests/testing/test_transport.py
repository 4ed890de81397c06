"""
The transport in memory.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IConsumer, IPushProducer, ITransport
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.testing.transport import BUFFER_SIZE, MemoryTransport
from tests.testing.recording import Recording


class Line:
    """
    A connected protocol.
    """

    def __init__(self, **more: Any) -> None:
        self.clock = Clock()
        self.protocol = Recording()
        self.transport = MemoryTransport(self.clock, self.protocol, **more)
        self.transport.connect()
        self.events.clear()

    @property
    def events(self) -> list[Any]:
        """The events of the protocol."""
        return self.protocol.events

    def settle(self) -> None:
        """Run the calls that are due now."""
        self.clock.advance(0)

    def take(self) -> bytes:
        """The bytes that have arrived at the peer."""
        self.settle()
        return self.transport.take()


class TestBytes:
    """Bytes between the ends."""

    def test_provides(self) -> None:
        """The transport provides the interfaces of a transport, a consumer and a producer."""
        for interface in (ITransport, IConsumer, IPushProducer):
            assert verifyObject(interface, Line().transport)

    def test_made(self) -> None:
        """The protocol learns of the connection, with the given addresses."""
        line = Line()
        protocol: Any = line.protocol
        addresses: list[Any] = [line.transport.getPeer(), line.transport.getHost()]
        assert protocol.transport is line.transport
        assert [address.host for address in addresses] == ["127.0.0.1"] * 2
        assert addresses[1].port == 4222

    def test_bothWays(self) -> None:
        """Input is delivered at once; output leaves in a later turn of the reactor."""
        line = Line()
        line.transport.send(b"in")
        assert line.events == [b"in"]
        line.transport.write(b"a")
        line.transport.writeSequence([b"b", b"c"])
        assert line.transport.take() == b""
        assert line.take() == b"abc"
        assert line.take() == b""

    def test_pausedReading(self) -> None:
        """Input during a pause is delivered after it, in order, and not within the call."""
        line = Line()
        line.transport.pauseProducing()
        line.transport.send(b"1")
        line.transport.send(b"2")
        assert line.events == []
        line.transport.resumeProducing()
        assert line.events == []
        line.transport.send(b"3")
        line.settle()
        assert line.events == [b"123"]

    def test_pausedWhileReading(self) -> None:
        """A protocol may pause while it reads, and resume before more input comes."""
        line = Line()
        line.protocol.onData = line.transport.pauseProducing
        line.transport.send(b"1")
        line.transport.send(b"2")
        line.settle()
        assert line.events == [b"1"]
        line.transport.resumeProducing()
        line.transport.pauseProducing()
        line.settle()
        assert line.events == [b"1"]
        line.transport.resumeProducing()
        line.settle()
        assert line.events == [b"1", b"2"]


class TestBackPressure:
    """Output to a peer that does not read."""

    def test_pausesItsProducer(self) -> None:
        """A producer is paused when too much output waits, and resumed when all was sent."""
        line = Line()
        line.transport.registerProducer(line.protocol, True)
        line.transport.taking = False
        line.transport.write(b"x" * BUFFER_SIZE)
        line.settle()
        assert (line.events, line.transport.waiting) == ([], BUFFER_SIZE)
        line.transport.write(b"x")
        assert line.events == ["pause"]
        line.transport.taking = True
        assert len(line.take()) == BUFFER_SIZE + 1
        assert (line.events, line.transport.waiting) == (["pause", "resume"], 0)

    def test_largeWrite(self) -> None:
        """A large write pauses the producer for a moment, as in Twisted."""
        line = Line(bufferSize=10)
        line.transport.registerProducer(line.protocol, True)
        line.transport.write(b"x" * 11)
        assert line.events == ["pause"]
        line.settle()
        assert line.events == ["pause", "resume"]

    def test_producers(self) -> None:
        """A transport has one streaming producer at a time; a producer after the end is stopped."""
        line = Line()
        line.transport.registerProducer(line.protocol, True)
        with pytest.raises(RuntimeError):
            line.transport.registerProducer(line.protocol, True)
        line.transport.unregisterProducer()
        with pytest.raises(NotImplementedError):
            line.transport.registerProducer(line.protocol, False)
        line.transport.abortConnection()
        line.settle()
        line.transport.registerProducer(line.protocol, True)
        assert line.events == [ConnectionAborted, "stop"]


class TestTheEnd:
    """The end of connections."""

    def test_lost(self) -> None:
        """Losing the connection sends the output first and reads no more."""
        line = Line()
        line.transport.write(b"bye")
        line.transport.loseConnection()
        line.transport.loseConnection()
        line.transport.send(b"too late")
        assert line.events == []
        assert (line.take(), line.transport.closed) == (b"bye", "lost")
        assert line.events == [ConnectionDone]

    def test_lostWaits(self) -> None:
        """A peer that does not read keeps the connection open."""
        line = Line()
        line.transport.taking = False
        line.transport.write(b"bye")
        line.transport.loseConnection()
        line.settle()
        assert (line.transport.closed, line.transport.connected) == ("", True)
        line.transport.taking = True
        assert (line.take(), line.transport.closed) == (b"bye", "lost")

    def test_aborted(self) -> None:
        """Aborting drops the waiting output."""
        line = Line()
        line.transport.taking = False
        line.transport.write(b"bye")
        line.transport.abortConnection()
        line.settle()
        line.transport.taking = True
        assert (line.take(), line.transport.closed) == (b"", "aborted")
        assert line.events == [ConnectionAborted]

    def test_left(self) -> None:
        """
        The peer may end the connection; then nothing is sent, and both ends are notified once.
        """
        line = Line()
        line.transport.registerProducer(line.protocol, True)
        line.transport.hangUp()
        line.transport.hangUp()
        line.settle()
        line.transport.send(b"in")
        line.transport.write(b"out")
        line.transport.loseConnection()
        line.transport.abortConnection()
        assert (line.take(), line.transport.closed) == (b"", "left")
        assert line.events == ["stop", ConnectionDone]

    def test_stopProducing(self) -> None:
        """Stopping the input ends the connection, as in Twisted."""
        line = Line()
        line.transport.stopProducing()
        line.settle()
        assert line.transport.closed == "lost"
