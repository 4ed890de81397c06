"""
When the state of a consumer is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker.interfaces import IStateStore
from natsbroker.interfaces.records import StoreClosed, StoreFull
from natsbroker.jetstream.consumers.statewriter import StateWriter
from natsbroker.runtime.deadlines import Deadlines


@implementer(IStateStore)
class SlowStates:
    """
    A state store whose writes end at the test's command.

    @ivar written: the values so far, with the Deferreds of their writes.
    """

    def __init__(self) -> None:
        self.written: list[tuple[bytes, Deferred[None]]] = []

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        self.written.append((value, Deferred()))
        return self.written[-1][1]

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        raise NotImplementedError

    def delete(self, key: bytes) -> Deferred[None]:
        raise NotImplementedError

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        return self.put(b"", b",".join(value or b"" for value in changes.values()))


class Bench:
    """
    A writer whose state is a number.

    @ivar relaxed: the values that need not survive a power cut.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.states = SlowStates()
        self.value = 0
        self.calls: list[Any] = []
        self.relaxed: list[bytes] = []
        self.writer = StateWriter(
            self.states,
            b"key",
            lambda: b"%d" % self.value,
            Deadlines(self.clock, self.clock.seconds),
            self._relaxed,
        )

    def _relaxed(self, call: Callable[[], object]) -> None:
        written = len(self.states.written)
        call()
        self.relaxed += self.values[written:]

    def change(self) -> None:
        """Change the number."""
        self.value += 1
        self.writer.touched()

    def when(self, name: object) -> Callable[[], None]:
        """A callback that records its name."""
        return lambda: self.calls.append(name)

    @property
    def values(self) -> list[bytes]:
        """The written values."""
        return [value for value, _ in self.states.written]

    def finish(self) -> None:
        """End the newest write."""
        self.states.written[-1][1].callback(None)


@pytest.fixture
def bench() -> Bench:
    """A writer."""
    return Bench()


def test_collected(bench: Bench) -> None:
    """Changes that no callback waits for are written together after a delay."""
    bench.change()
    bench.change()
    assert bench.values == []
    bench.clock.advance(0.2)
    assert bench.values == [b"2"]


def test_oneInFlight(bench: Bench) -> None:
    """A change during a write is written when that write has ended."""
    bench.change()
    bench.writer.whenDurable(bench.when(1))
    bench.change()
    bench.writer.whenDurable(bench.when(2))
    assert (bench.values, bench.calls) == ([b"1"], [])
    bench.finish()
    assert (bench.values, bench.calls) == ([b"1", b"2"], [1])
    bench.finish()
    assert bench.calls == [1, 2]


def test_nothingChanged(bench: Bench) -> None:
    """Without changes, a callback is called at once."""
    bench.writer.whenDurable(bench.when(1))
    assert (bench.values, bench.calls) == ([], [1])


def test_lateChange(bench: Bench) -> None:
    """A change during a write that no callback waits for is written after a delay."""
    bench.change()
    bench.writer.whenDurable(bench.when(1))
    bench.change()
    bench.finish()
    assert bench.values == [b"1"]
    bench.clock.advance(0.2)
    assert bench.values == [b"1", b"2"]


def test_changeWhileCalled(bench: Bench) -> None:
    """A callback may change the state, which is then written again."""
    bench.change()
    bench.writer.whenDurable(bench.change)
    bench.finish()
    bench.clock.advance(0.2)
    assert bench.values == [b"1", b"2"]


def test_callBeginsWrite(bench: Bench) -> None:
    """A callback may start a write. There is never more than one write under way."""

    def changeAndFlush() -> None:
        bench.change()
        bench.writer.flush()

    bench.change()
    bench.writer.whenDurable(changeAndFlush)
    bench.finish()
    bench.clock.advance(10)
    bench.change()
    bench.writer.whenDurable(bench.when(3))
    assert bench.values == [b"1", b"2"]
    bench.finish()
    assert (bench.values, bench.calls) == ([b"1", b"2", b"3"], [])
    bench.finish()
    assert bench.calls == [3]


def test_failureIsRetried(bench: Bench, flushLoggedErrors: Callable[..., list[Any]]) -> None:
    """A write that fails is repeated. Callbacks wait for its success."""
    bench.change()
    bench.writer.whenDurable(bench.when(1))
    bench.states.written[-1][1].errback(StoreFull("full"))
    assert bench.calls == []
    bench.clock.advance(1)
    bench.finish()
    assert (bench.values, bench.calls) == ([b"1", b"1"], [1])


def test_closedStore(bench: Bench) -> None:
    """A write that fails because the store is closed is not repeated."""
    bench.change()
    bench.writer.whenDurable(bench.when(1))
    bench.states.written[-1][1].errback(StoreClosed("closed"))
    bench.clock.advance(5)
    assert (bench.values, bench.calls, bench.clock.getDelayedCalls()) == ([b"1"], [], [])


def test_stopped(bench: Bench) -> None:
    """A writer that is stopped writes nothing."""
    bench.change()
    bench.writer.stop()
    bench.change()
    bench.writer.whenDurable(bench.when(1))
    bench.clock.advance(5)
    assert (bench.values, bench.calls) == ([], [])


def test_notKept() -> None:
    """The state of a consumer in memory is durable at once."""
    clock = Clock()
    calls: list[int] = []
    writer = StateWriter(
        None, b"key", lambda: b"", Deadlines(clock, clock.seconds), lambda call: call()
    )
    writer.touched()
    writer.whenDurable(lambda: calls.append(1))
    assert (calls, writer.isKept, clock.getDelayedCalls()) == ([1], False, [])


def test_flush(bench: Bench) -> None:
    """A flush fires when the changes are durable."""
    bench.change()
    fired: list[None] = []
    bench.writer.flush().addCallback(fired.append)
    assert fired == []
    bench.finish()
    assert fired == [None]


def test_begin(bench: Bench) -> None:
    """
    The first state is written together with other values, such as the configuration. Later changes
    follow it.
    """
    fired: list[None] = []
    bench.writer.begin({b"other": b"config"}).addCallback(fired.append)
    bench.change()
    bench.writer.whenDurable(bench.when(1))
    assert (bench.values, fired) == ([b"config,0"], [])
    bench.finish()
    assert (bench.values, fired, bench.calls) == ([b"config,0", b"1"], [None], [])


def test_beginFails(bench: Bench) -> None:
    """If the first write fails, the failure is reported and the write is not repeated."""
    refused: list[Any] = []
    bench.writer.begin({}).addErrback(refused.append)
    bench.states.written[-1][1].errback(StoreFull("full"))
    bench.clock.advance(5)
    assert (bench.values, refused[0].type) == ([b"0"], StoreFull)


def test_relaxed(bench: Bench) -> None:
    """A write is synced only if a callback asks for that."""
    bench.change()
    bench.writer.whenDurable(bench.when(1), isRelaxed=True)
    bench.finish()
    bench.change()
    bench.clock.advance(0.2)
    assert (bench.relaxed, bench.calls) == ([b"1", b"2"], [1])
    bench.finish()
    bench.change()
    bench.writer.whenDurable(bench.when(2))
    assert (bench.values, bench.relaxed, bench.calls) == ([b"1", b"2", b"3"], [b"1", b"2"], [1])
    bench.finish()
    assert bench.calls == [1, 2]


def test_syncedAfterRelaxed(bench: Bench) -> None:
    """A callback that needs a synced write gets a second write if the first was not synced."""
    bench.change()
    bench.writer.whenDurable(bench.when(1), isRelaxed=True)
    bench.writer.whenDurable(bench.when(2))
    bench.writer.whenDurable(bench.when(3), isRelaxed=True)
    bench.finish()
    assert (bench.values, bench.relaxed, bench.calls) == ([b"1", b"1"], [b"1"], [1])
    bench.finish()
    assert bench.calls == [1, 2, 3]
    bench.writer.whenDurable(bench.when(4))
    assert bench.calls == [1, 2, 3, 4]
