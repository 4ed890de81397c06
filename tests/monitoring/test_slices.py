"""Tests for L{natsbroker.monitoring.slices}."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock

from natsbroker.monitoring.answers import PAUSE
from natsbroker.monitoring.slices import SLICE, Slices


class Scheduling(Clock):
    """A clock that counts scheduled calls."""

    scheduled = 0

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kw: object
    ) -> Any:
        self.scheduled += 1
        return super().callLater(delay, callable, *args, **kw)


def counted(clock: Clock, seen: list[int], count: int) -> Iterator[bytes]:
    """Pieces. Each takes a third of a slice."""
    for number in range(count):
        seen.append(number)
        clock.rightNow += SLICE / 3
        yield b"%d" % number


def test_slices() -> None:
    """Between slices of a long answer, the reactor runs."""
    clock = Scheduling()
    seen: list[int] = []
    made = ensureDeferred(Slices(clock).collect(counted(clock, seen, 10)))
    results: list[Any] = []
    made.addCallback(results.append)
    clock.advance(0)
    assert b"".join(results[0]) == b"0123456789"
    assert clock.scheduled >= 4


def test_waits() -> None:
    """A piece that is not there yet is waited for."""
    clock = Clock()
    waiting: Deferred[None] = Deferred()
    made = ensureDeferred(Slices(clock).collect([b"a", waiting, b"b"]))
    results: list[Any] = []
    made.addCallback(results.append)
    clock.pump([0] * 5)
    assert results == []
    waiting.callback(None)
    clock.pump([0] * 5)
    assert results == [[b"a", b"b"]]


def test_cancelled() -> None:
    """After the requester has gone, no more pieces are made."""
    clock = Clock()
    waiting: Deferred[None] = Deferred()
    seen: list[int] = []
    later = counted(clock, seen, 3)
    made = ensureDeferred(Slices(clock).collect(chain([waiting], later)))
    failures: list[Any] = []
    made.addErrback(failures.append)
    clock.advance(0)
    made.cancel()
    assert failures[0].check(CancelledError) is not None
    waiting.callback(None)
    clock.advance(0)
    assert seen == []


def test_unwanted() -> None:
    """An answer that nobody waits for any more is cancelled. Other answers continue."""
    clock = Clock()
    slices = Slices(clock)
    seen: list[int] = []
    failures: list[Any] = []
    unwanted = slices.whileWanted(lambda: len(seen) < 2)
    ensureDeferred(unwanted.collect(counted(clock, seen, 5))).addErrback(failures.append)
    results: list[Any] = []
    ensureDeferred(slices.collect([b"a"])).addCallback(results.append)
    clock.pump([0] * 9)
    assert failures[0].check(CancelledError) is not None
    assert (seen, results) == ([0, 1], [[b"a"]])


def test_failure() -> None:
    """A failure ends the answer."""

    def broken() -> Iterator[bytes]:
        yield b"a"
        raise LookupError("gone")

    clock = Clock()
    made = ensureDeferred(Slices(clock).collect(broken()))
    failures: list[Any] = []
    made.addErrback(failures.append)
    clock.pump([0] * 5)
    with pytest.raises(LookupError):
        failures[0].raiseException()


def test_result() -> None:
    """Steps that are run in slices return their result."""
    clock = Clock()
    results: list[str] = []

    def steps() -> Generator[bytes, None, str]:
        yield PAUSE
        return "done"

    ensureDeferred(Slices(clock).result(steps())).addCallback(results.append)
    clock.pump([0.0] * 4)
    assert results == ["done"]
