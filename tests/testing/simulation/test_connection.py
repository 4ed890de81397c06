"""
Connections of the simulated network, seen from their protocols.
"""

from __future__ import annotations

import pytest
from twisted.internet.interfaces import IConsumer, IPushProducer, ITransport
from zope.interface.verify import verifyObject

from tests.testing.simulation.support import Pair


@pytest.fixture
def pair() -> Pair:
    """Two machines."""
    return Pair()


class TestCarrying:
    """Bytes."""

    def test_provides(self, pair: Pair) -> None:
        """An end has the methods that a protocol expects."""
        here, _ = pair.connect()
        for interface in (ITransport, IConsumer, IPushProducer):
            assert verifyObject(interface, here.transport)
        assert here.transport.getPeer().port == 7
        assert here.transport.getHost().host == "10.0.0.1"

    def test_orderOfBytes(self, pair: Pair) -> None:
        """All bytes arrive in order and in pieces, in both directions, and not within the call."""
        pair.network.largest = 10
        here, there = pair.connect()
        data = bytes(range(256)) * 4
        here.transport.write(data)
        there.transport.writeSequence([b"a", b"b"])
        assert there.got == b""
        pair.clock.advance(1)
        assert (there.got, here.got) == (data, b"ab")
        assert there.pieces > len(data) // 10

    def test_notReading(self, pair: Pair) -> None:
        """A peer that does not read receives everything later."""
        here, there = pair.connect()
        there.transport.pauseProducing()
        here.transport.write(b"x")
        pair.clock.advance(1)
        assert there.got == b""
        there.transport.resumeProducing()
        pair.clock.advance(1)
        assert there.got == b"x"

    def test_producer(self, pair: Pair) -> None:
        """A producer is paused while much output is on its way, and resumed when all was sent."""
        here, there = pair.connect()
        there.transport.pauseProducing()
        here.transport.registerProducer(here, True)
        here.transport.write(b"x" * 70_000)
        here.transport.write(b"x")
        assert here.calls == ["pause"]
        there.transport.resumeProducing()
        pair.clock.advance(1)
        assert here.calls == ["pause", "resume"]
        assert len(there.got) == 70_001

    def test_pullProducer(self, pair: Pair) -> None:
        """Pull producers are refused."""
        here, _ = pair.connect()
        with pytest.raises(NotImplementedError):
            here.transport.registerProducer(here, False)


class TestEnding:
    """The end."""

    def test_lose(self, pair: Pair) -> None:
        """All written bytes arrive before the end, in any amount."""
        here, there = pair.connect()
        here.transport.registerProducer(here, True)
        here.transport.write(b"x" * 100_000)
        here.transport.loseConnection()
        here.transport.write(b"never")
        pair.clock.advance(1)
        assert len(there.got) == 100_000
        assert (here.lost, there.lost) == ("ConnectionDone", "ConnectionDone")
        assert here.calls[-1] == "stop"
        assert not pair.network.connections

    def test_abort(self, pair: Pair) -> None:
        """Aborting drops the bytes on their way."""
        here, there = pair.connect()
        here.transport.write(b"x")
        here.transport.abortConnection()
        assert here.lost == ""
        pair.clock.advance(1)
        assert there.got == b""
        assert (here.lost, there.lost) == ("ConnectionAborted", "ConnectionLost")

    def test_abortUnheard(self, pair: Pair) -> None:
        """While the network is held, the peer does not notice the end."""
        here, there = pair.connect()
        pair.network.hold("10.0.0.1", "10.0.0.2")
        here.transport.abortConnection()
        pair.clock.advance(1)
        assert (here.lost, there.lost) == ("ConnectionAborted", "")
        pair.network.heal()
        pair.clock.advance(1)
        assert there.lost == "ConnectionLost"


class TestDialling:
    """Connecting to a machine."""

    def test_noPort(self, pair: Pair) -> None:
        """Without a listener a connection is refused."""
        dialling = pair.dial(port=8)
        pair.clock.advance(1)
        assert dialling.failed == "ConnectionRefusedError"

    def test_timeout(self, pair: Pair) -> None:
        """While the network is held, connecting times out."""
        pair.network.hold("10.0.0.2", "10.0.0.1")
        dialling = pair.dial(timeout=3)
        pair.clock.advance(2.9)
        assert dialling.failed == ""
        pair.clock.advance(0.2)
        assert dialling.failed == "TimeoutError"
        assert pair.answering.made == []

    def test_late(self, pair: Pair) -> None:
        """If the network recovers before the timeout, the connection is made."""
        pair.network.hold("10.0.0.1", "10.0.0.2")
        dialling = pair.dial(timeout=3)
        pair.clock.advance(1)
        pair.network.heal()
        pair.clock.advance(1)
        assert dialling.made.transport is not None
        pair.clock.advance(5)
        assert (dialling.failed, dialling.made.lost) == ("", "")

    def test_stop(self, pair: Pair) -> None:
        """An attempt to connect can be cancelled."""
        pair.network.hold("10.0.0.1", "10.0.0.2")
        dialling = pair.dial()
        connector = pair.one.connectTCP("10.0.0.2", 7, dialling)
        connector.stopConnecting()
        assert dialling.failed == "UserError"
