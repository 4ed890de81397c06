"""
What a peer causes, within one turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from natsbroker import errors, hot
from natsbroker.net.turns import TurnTaker
from tests.conftest import FlushLoggedErrors
from tests.hosting.support import logLines


class Owner:
    """
    Whose outbox it is that is written to.
    """

    def outboxOverflowed(self) -> None:
        """See L{hot.Outbox}."""


class Taker(TurnTaker):
    """
    Our side of a conversation of which nothing is known.

    @ivar closed: for which reasons it was closed.
    @ivar waited: whom it was told to wait for.
    @ivar written: what was sent.
    """

    def __init__(self) -> None:
        self._turn = hot.Turn(lambda call: None)
        self.closed: list[str] = []
        self.waited: list[Any] = []
        self.written: list[bytes] = []
        self.outbox = hot.Outbox(self._turn, Owner(), self.written.append, 64 << 20)

    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        """See L{TurnTaker.close}."""
        self.closed.append(error.reason)

    def _waitFor(self, outbox: hot.Outbox) -> None:
        self.waited.append(outbox)

    def take(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have something happen."""
        self._inTurn(call, *arguments)

    def atEnd(self, call: Callable[[], None]) -> None:
        """Have something happen when the turn ends."""
        self._turn.atEnd(call)

    def __str__(self) -> str:
        return "somebody"


def fail() -> None:
    """Something fails."""
    raise RuntimeError("a test")


def test_turn() -> None:
    """What is written goes out together, when all is done."""
    taker = Taker()

    def call(*words: bytes) -> None:
        for word in words:
            taker.outbox.write(word)
        assert taker.written == []

    taker.take(call, b"a", b"b")
    assert b"".join(taker.written) == b"ab"
    assert (taker.closed, taker.waited) == ([], [])


def test_congested() -> None:
    """Who fills an outbox that holds much is told to wait for it, once."""
    taker = Taker()
    taker.outbox.pause()
    taker.take(taker.outbox.write, b"x" * (2 << 20))
    taker.take(lambda: None)
    assert taker.waited == [taker.outbox]


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """What fails closes the conversation, and what was written before goes out."""
    taker = Taker()

    def call() -> None:
        taker.outbox.write(b"a")
        fail()

    with logLines() as lines:
        taker.take(call)
    assert (taker.closed, taker.written) == (["Internal Client"], [b"a"])
    assert lines[0] == "[FTL] somebody - Internal failure"
    assert len(flushLoggedErrors(RuntimeError)) == 1


def test_failureAtEnd(flushLoggedErrors: FlushLoggedErrors) -> None:
    """What fails at the end of the turn is logged."""
    taker = Taker()
    with logLines() as lines:
        taker.take(taker.atEnd, fail)
    assert taker.closed == []
    assert lines[0] == "[FTL] somebody - What its input caused failed"
    assert len(flushLoggedErrors(RuntimeError)) == 1
