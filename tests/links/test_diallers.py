"""
Everybody whom one kind of link dials.
"""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock

from natsbroker.links.diallers import Diallers
from natsbroker.links.dialling import DialTerms
from tests.server.support import logLines


class Dialling:
    """
    Peers that are dialled by their names.

    @ivar attempts: the attempts, by whom they are to.
    @ivar outcomes: what came of it, by whom.
    """

    def __init__(self) -> None:
        self.reactor: Any = MemoryReactorClock()
        self.diallers: Diallers[str] = Diallers(self.reactor, Random(1))
        self.attempts: list[tuple[str, Deferred[Any]]] = []
        self.outcomes: list[tuple[str, bool]] = []

    def dial(self, name: str, after: float = 0.0) -> None:
        """Have somebody dialled, twice at most."""

        def connect() -> Deferred[Any]:
            self.attempts.append((name, Deferred()))
            return self.attempts[-1][1]

        def over(isReached: bool) -> None:
            assert name not in self.diallers
            self.outcomes.append((name, isReached))

        self.diallers.dial(name, name, DialTerms(retries=1), connect, after, over)

    def dialled(self, seconds: float = 0.0) -> list[str]:
        """Who has been dialled when some time has passed."""
        self.reactor.advance(seconds)
        return [name for name, _ in self.attempts]


def test_open() -> None:
    """Before it is open, nobody is dialled."""
    dialling = Dialling()
    dialling.dial("a")
    assert dialling.dialled(9.0) == [] and list(dialling.diallers) == []
    dialling.diallers.open()
    dialling.dial("a")
    assert dialling.dialled() == ["a"] and list(dialling.diallers) == ["a"]


def test_once() -> None:
    """Whoever is being dialled is not dialled twice; when it is over, it may be again."""
    dialling = Dialling()
    dialling.diallers.open()
    for name in ("a", "b", "a"):
        dialling.dial(name)
    assert dialling.dialled(9.0) == ["a", "b"]
    dialling.attempts[0][1].callback(None)
    assert dialling.outcomes == [("a", True)]
    assert list(dialling.diallers) == ["b"]
    dialling.dial("a", 1.0)
    assert dialling.dialled(0.9) == ["a", "b"]
    assert dialling.dialled(0.3) == ["a", "b", "a"]


def test_gaveUp() -> None:
    """Whoever does not answer is given up as its terms say, and that is told."""
    dialling = Dialling()
    dialling.diallers.open()
    dialling.dial("a")
    with logLines() as lines:
        for place in range(2):
            dialling.reactor.pump([0.1] * 12)
            dialling.attempts[place][1].errback(ConnectionRefusedError())
    assert dialling.outcomes == [("a", False)] and list(dialling.diallers) == []
    assert lines[0].startswith("[ERR] Error trying to connect to a (attempt 1)")


def test_stop() -> None:
    """Whoever is dialled no more is not heard of again; the others are."""
    dialling = Dialling()
    dialling.diallers.open()
    dialling.dial("a")
    dialling.dial("b", 1.0)
    dialling.diallers.stop("a")
    dialling.diallers.stop("nobody")
    assert dialling.dialled(2.0) == ["b"] and dialling.outcomes == []


def test_close() -> None:
    """When it is closed, attempts end and none begin."""
    dialling = Dialling()
    dialling.diallers.open()
    dialling.dial("a")
    dialling.dial("b", 1.0)
    assert dialling.dialled() == ["a"]
    dialling.diallers.close()
    assert dialling.attempts[0][1].called
    dialling.dial("c")
    assert dialling.dialled(9.0) == ["a"]
    assert dialling.outcomes == [] and list(dialling.diallers) == []
    assert not dialling.reactor.getDelayedCalls()


def test_connect() -> None:
    """One attempt is made at a place, with a limit."""
    dialling = Dialling()
    factory = Factory()
    connecting = dialling.diallers.connect("127.0.0.1", 7, 5.0, factory)
    ((host, port, wrapped, timeout, _),) = dialling.reactor.tcpClients
    assert (host, port, timeout) == ("127.0.0.1", 7, 5.0)
    assert wrapped._wrappedFactory is factory and not connecting.called
