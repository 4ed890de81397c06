"""
Machines, and what goes wrong between them.
"""

from __future__ import annotations

import pytest
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IReactorTCP
from zope.interface.verify import verifyObject

from tests.testing.simulation.support import Pair


@pytest.fixture
def pair() -> Pair:
    """Two machines."""
    return Pair()


class TestHost:
    """One machine."""

    def test_provides(self, pair: Pair) -> None:
        """The host is a reactor for TCP."""
        assert verifyObject(IReactorTCP, pair.one)
        assert verifyObject(IListeningPort, pair.port)
        assert pair.port.getHost().port == 7

    def test_taken(self, pair: Pair) -> None:
        """A port has one listener."""
        with pytest.raises(CannotListenError):
            pair.two.listenTCP(7, pair.answering)
        pair.port.stopListening()
        assert pair.two.listenTCP(7, pair.answering).getHost().host == "10.0.0.2"

    def test_anyPort(self, pair: Pair) -> None:
        """Port 0 means any free port."""
        ports = {pair.two.listenTCP(0, pair.answering).getHost().port for _ in range(3)}
        assert len(ports) == 3

    def test_dies(self, pair: Pair) -> None:
        """A connection of a dead machine receives nothing more; its peers notice the end."""
        here, there = pair.connect()
        ticks: list[int] = []
        pair.two.callLater(1, ticks.append, 1)
        pair.two.die()
        pair.clock.advance(5)
        assert (here.lost, there.lost, ticks) == ("ConnectionLost", "", [])
        assert pair.network.at("10.0.0.2") is None
        assert pair.dial() is not None
        again = pair.network.host("10.0.0.2")
        assert again is not pair.two and again.isAlive


class TestTrouble:
    """Trouble on the network."""

    def test_hold(self, pair: Pair) -> None:
        """A held direction carries nothing, the other one everything, and no byte is lost."""
        here, there = pair.connect()
        pair.network.hold("10.0.0.1", "10.0.0.2")
        here.transport.write(b"x")
        there.transport.write(b"y")
        pair.clock.advance(60)
        assert (here.got, there.got) == (b"y", b"")
        pair.network.release("10.0.0.1", "10.0.0.2")
        pair.clock.advance(1)
        assert there.got == b"x"

    def test_reset(self, pair: Pair) -> None:
        """A reset ends the connections at both ends."""
        here, there = pair.connect()
        pair.network.reset("10.0.0.2", "10.0.0.1")
        pair.clock.advance(1)
        assert (here.lost, there.lost) == ("ConnectionLost", "ConnectionLost")

    def test_resetOthers(self, pair: Pair) -> None:
        """A reset leaves the connections of other machines open."""
        here, _ = pair.connect()
        pair.network.reset("10.0.0.1", "10.0.0.3")
        pair.clock.advance(1)
        assert here.lost == ""


class TestTrace:
    """The trace that distinguishes runs."""

    def test_same(self) -> None:
        """The same seed and the same bytes have the same trace; others have different ones."""

        def trace(seed: int, data: bytes) -> str:
            pair = Pair(seed)
            here, _ = pair.connect()
            here.transport.write(data)
            pair.clock.advance(1)
            return pair.network.trace

        assert trace(1, b"x") == trace(1, b"x")
        assert len({trace(1, b"x"), trace(2, b"x"), trace(1, b"y")}) == 3

    def test_watch(self, pair: Pair) -> None:
        """Every write can be watched."""
        seen: list[tuple[str, bytes]] = []
        pair.network.watch = lambda wire, data: seen.append((wire.source.host.address, data))
        here, there = pair.connect()
        here.transport.write(b"x")
        there.transport.write(b"y")
        assert seen == [("10.0.0.1", b"x"), ("10.0.0.2", b"y")]
