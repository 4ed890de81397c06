"""
Dialling one peer until it answers.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock

from natsbroker.links.dialling import Dialler, DialTerms, peerEndpoint
from tests.server.support import logLines


class Dialled:
    """
    Somebody who is dialled.

    @ivar at: when attempts were made.
    @ivar attempts: the attempts.
    @ivar outcomes: what came of it.
    """

    def __init__(self, terms: DialTerms) -> None:
        self.clock = Clock()
        self.at: list[float] = []
        self.attempts: list[Deferred[Any]] = []
        self.outcomes: list[bool] = []
        self.dialler = Dialler(
            self.clock, Random(1), terms, self.connect, "route h:1", self.outcomes.append
        )

    def connect(self) -> Deferred[Any]:
        """One attempt."""
        self.at.append(self.clock.seconds())
        self.attempts.append(Deferred())
        return self.attempts[-1]

    def refuse(self, count: int, step: float = 0.01) -> None:
        """Have so many attempts fail."""
        for _ in range(count):
            while not self.attempts or self.attempts[-1].called:
                self.clock.advance(step)
            self.attempts[-1].errback(ConnectionRefusedError())


def test_reached() -> None:
    """An attempt that succeeds is the last."""
    dialled = Dialled(DialTerms())
    dialled.dialler.start()
    dialled.clock.advance(0)
    dialled.attempts[0].callback(None)
    dialled.clock.advance(100)
    assert (dialled.at, dialled.outcomes) == ([0.0], [True])
    assert not dialled.clock.getDelayedCalls()


def test_steady() -> None:
    """Without backoff the pause is the same, but for the jitter, for ever."""
    dialled = Dialled(DialTerms())
    dialled.dialler.start()
    dialled.refuse(50)
    pauses = [later - sooner for sooner, later in zip(dialled.at, dialled.at[1:], strict=False)]
    assert all(0.99 <= pause <= 1.12 for pause in pauses) and len(set(pauses)) > 5
    assert dialled.outcomes == []


def test_backoff() -> None:
    """With backoff it doubles, up to a bound."""
    dialled = Dialled(DialTerms(longest=30.0, jitter=0.0))
    dialled.dialler.start()
    dialled.refuse(9, 0.5)
    pauses = [later - sooner for sooner, later in zip(dialled.at, dialled.at[1:], strict=False)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_gaveUp() -> None:
    """After so many attempts it is over."""
    dialled = Dialled(DialTerms(retries=2))
    dialled.dialler.start()
    dialled.refuse(3)
    assert dialled.outcomes == [False] and not dialled.clock.getDelayedCalls()


def test_later() -> None:
    """It can begin later, and a little later than that."""
    dialled = Dialled(DialTerms())
    dialled.dialler.start(1.0)
    dialled.clock.advance(0.999)
    assert dialled.at == []
    dialled.clock.advance(0.2)
    assert len(dialled.at) == 1


def test_stopped() -> None:
    """Stopped before, during, and between attempts, nothing happens any more."""
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
    """The first failure is an error, and each so manieth; the others are for debugging."""
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
    """Names are looked up, addresses are dialled as they are."""
    assert type(peerEndpoint(Clock(), host, 1, 5.0)) is kind
