"""
Repeated attempts to connect to a peer until it answers.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
    UNIXClientEndpoint,
)
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock

from natsbroker.links.dialling import Dialler, Diallers, DialTerms, peerEndpoint
from tests.server.support import logLines


class Dialled:
    """
    A peer that is dialled.

    @ivar at: the times of the attempts.
    @ivar attempts: the attempts.
    @ivar outcomes: their results.
    """

    def __init__(self, terms: DialTerms) -> None:
        self.clock = Clock()
        self.at: list[float] = []
        self.attempts: list[Deferred[Any]] = []
        self.outcomes: list[bool] = []
        self.dialler = Dialler(
            self.clock, Random(1), terms, self.connect, "to route h:1", self.outcomes.append
        )

    def connect(self) -> Deferred[Any]:
        """Begin an attempt."""
        self.at.append(self.clock.seconds())
        self.attempts.append(Deferred())
        return self.attempts[-1]

    def refuse(self, count: int, step: float = 0.01) -> None:
        """Let a number of attempts fail."""
        for _ in range(count):
            while not self.attempts or self.attempts[-1].called:
                self.clock.advance(step)
            self.attempts[-1].errback(ConnectionRefusedError())


def test_reached() -> None:
    """No attempt follows a successful one."""
    dialled = Dialled(DialTerms())
    dialled.dialler.start()
    dialled.clock.advance(0)
    dialled.attempts[0].callback(None)
    dialled.clock.advance(100)
    assert (dialled.at, dialled.outcomes) == ([0.0], [True])
    assert not dialled.clock.getDelayedCalls()


def test_steady() -> None:
    """Without backoff the pause between attempts stays the same, except for the jitter."""
    dialled = Dialled(DialTerms())
    dialled.dialler.start()
    dialled.refuse(50)
    pauses = [later - sooner for sooner, later in zip(dialled.at, dialled.at[1:], strict=False)]
    assert all(0.99 <= pause <= 1.12 for pause in pauses) and len(set(pauses)) > 5
    assert dialled.outcomes == []


def test_backoff() -> None:
    """With backoff the pause between attempts doubles, up to a limit."""
    dialled = Dialled(DialTerms(longest=30.0, jitter=0.0))
    dialled.dialler.start()
    dialled.refuse(9, 0.5)
    pauses = [later - sooner for sooner, later in zip(dialled.at, dialled.at[1:], strict=False)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_gaveUp() -> None:
    """Dialling ends after the maximum number of attempts."""
    dialled = Dialled(DialTerms(retries=2))
    dialled.dialler.start()
    dialled.refuse(3)
    assert dialled.outcomes == [False] and not dialled.clock.getDelayedCalls()


def test_delayedStart() -> None:
    """The first attempt may be delayed, with a random addition."""
    dialled = Dialled(DialTerms())
    dialled.dialler.start(1.0)
    dialled.clock.advance(0.999)
    assert dialled.at == []
    dialled.clock.advance(0.2)
    assert len(dialled.at) == 1


def test_stopped() -> None:
    """A dialler that is stopped before, during, or between attempts makes no more."""
    with logLines() as lines:
        before = Dialled(DialTerms())
        before.dialler.start(1.0)
        before.dialler.stop()
        during = Dialled(DialTerms())
        during.dialler.start()
        during.clock.advance(0)
        during.dialler.stop()
        between = Dialled(DialTerms())
        between.dialler.start()
        between.refuse(1)
        between.dialler.stop()
    for dialled in (before, during, between):
        dialled.clock.advance(100)
        assert dialled.outcomes == [] and not dialled.clock.getDelayedCalls()
    assert len(lines) == 1


def test_reports() -> None:
    """
    The first failure and every later one at an interval is logged as an error, and others for
    debugging.
    """
    dialled = Dialled(DialTerms(reports=3))
    with logLines() as lines:
        dialled.dialler.start()
        dialled.refuse(6)
    assert [line[:5] for line in lines] == ["[ERR]", "[DBG]", "[ERR]", "[DBG]", "[DBG]", "[ERR]"]
    assert lines[0].startswith("[ERR] Error trying to connect to route h:1 (attempt 1): ")


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("example.com", HostnameEndpoint),
        ("127.0.0.1", TCP4ClientEndpoint),
        ("::1", TCP6ClientEndpoint),
    ],
)
def test_endpoint(host: str, kind: type) -> None:
    """Host names are resolved, and IP addresses are dialled directly."""
    assert type(peerEndpoint(Clock(), host, 1, 5.0)) is kind


def test_socketFile() -> None:
    """A path without a port is dialled as a Unix socket."""
    assert type(peerEndpoint(Clock(), "/run/socket", 0, 5.0)) is UNIXClientEndpoint


def test_reportsNothing() -> None:
    """Without an interval for reports, all failures are logged for debugging."""
    dialled = Dialled(DialTerms(reports=0))
    with logLines() as lines:
        dialled.dialler.start()
        dialled.refuse(2)
    assert [line[:5] for line in lines] == ["[DBG]", "[DBG]"]


class Dialling:
    """
    Diallers of several peers, by name.

    @ivar attempts: the attempts, by peer.
    @ivar outcomes: the results, by peer.
    """

    def __init__(self) -> None:
        self.reactor: Any = MemoryReactorClock()
        self.diallers: Diallers[str] = Diallers(self.reactor, Random(1))
        self.attempts: list[tuple[str, Deferred[Any]]] = []
        self.outcomes: list[tuple[str, bool]] = []

    def dial(self, name: str, after: float = 0.0) -> None:
        """Dial a peer, twice at most."""

        def connect() -> Deferred[Any]:
            self.attempts.append((name, Deferred()))
            return self.attempts[-1][1]

        def over(isReached: bool) -> None:
            assert name not in self.diallers
            self.outcomes.append((name, isReached))

        self.diallers.dial(name, f"to {name}", DialTerms(retries=1), connect, after, over)

    def dialled(self, seconds: float = 0.0) -> list[str]:
        """The addresses that were dialled after some time."""
        self.reactor.advance(seconds)
        return [name for name, _ in self.attempts]


def test_diallersOpen() -> None:
    """No address is dialled before the diallers are opened."""
    dialling = Dialling()
    dialling.dial("a")
    assert dialling.dialled(9.0) == [] and list(dialling.diallers) == []
    dialling.diallers.open()
    dialling.dial("a")
    assert dialling.dialled() == ["a"] and list(dialling.diallers) == ["a"]


def test_onePeerAtATime() -> None:
    """
    A peer that is being dialled is not dialled a second time, but it can be dialled again later.
    """
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


def test_dialAgainAfterGivingUp() -> None:
    """A peer that does not answer is given up after its attempts, and the callback is called."""
    dialling = Dialling()
    dialling.diallers.open()
    dialling.dial("a")
    with logLines() as lines:
        for place in range(2):
            dialling.reactor.pump([0.1] * 12)
            dialling.attempts[place][1].errback(ConnectionRefusedError())
    assert dialling.outcomes == [("a", False)] and list(dialling.diallers) == []
    assert lines[0].startswith("[ERR] Error trying to connect to a (attempt 1)")


def test_stopOnePeer() -> None:
    """Stopping the dialler of one peer does not stop others."""
    dialling = Dialling()
    dialling.diallers.open()
    dialling.dial("a")
    dialling.dial("b", 1.0)
    dialling.diallers.stop("a")
    dialling.diallers.stop("nobody")
    assert dialling.dialled(2.0) == ["b"] and dialling.outcomes == []


def test_diallersClose() -> None:
    """Closing the diallers ends all attempts, and no new one begins."""
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
    """An address is dialled once, with a time limit."""
    dialling = Dialling()
    factory = Factory()
    connecting = dialling.diallers.connect("127.0.0.1", 7, 5.0, factory)
    ((host, port, wrapped, timeout, _),) = dialling.reactor.tcpClients
    assert (host, port, timeout) == ("127.0.0.1", 7, 5.0)
    assert wrapped._wrappedFactory is factory and not connecting.called
