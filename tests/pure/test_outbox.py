"""
The outbox and the turn: when output is sent, which output waits, and what happens if too much
waits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.pure.outbox import frameFor
from natsbroker.wire.values import Message
from tests.support import COMPILED, PURE, Names, needsCompiled, onEach

HIGH = 1 << 20
LOW = 1 << 18


class Owner:
    """
    The owner of an outbox.

    @ivar overflows: how often too much waited.
    @ivar failures: how often sending raised.
    """

    def __init__(self) -> None:
        self.overflows = self.failures = 0

    def outboxOverflowed(self) -> None:
        """Count."""
        self.overflows += 1

    def outboxFailed(self) -> None:
        """Count."""
        self.failures += 1


class Stage:
    """
    A turn with an outbox, and the output of this outbox.

    @ivar soon: the calls that were asked for.
    @ivar writes: what was written to the transport, one item for each write.
    """

    def __init__(self, names: Names, limit: int = 1 << 30) -> None:
        self.soon: list[Callable[[], None]] = []
        self.writes: list[bytes] = []
        self.owner = Owner()
        self.batch = names.FlushBatch(self.soon.append)
        self.names = names
        self.outbox = self.another(self.writes.append, limit)

    def another(self, write: Callable[[bytes], object], limit: int = 1 << 30) -> Any:
        """Another outbox of the same turn and owner."""
        return self.names.Outbox(self.batch, self.owner, write, limit)

    def settle(self) -> None:
        """Make the calls that were asked for."""
        while self.soon:
            self.soon.pop(0)()


@onEach
class TestTurn:
    """When outboxes are flushed."""

    def test_thresholds(self, names: Names) -> None:
        """
        A receiver slows publishers down from 1 MiB of waiting output on, until less than 256 KiB
        wait.
        """
        assert (names.FlushBatch.HIGH, names.FlushBatch.LOW) == (HIGH, LOW)

    def test_collects(self, names: Names) -> None:
        """The output of a turn leaves in one write when it ends."""
        stage = Stage(names)
        stage.batch.enter()
        stage.outbox.write(b"a")
        stage.outbox.write(b"b")
        assert (stage.writes, stage.outbox.pending) == ([], 2)
        stage.batch.leave()
        assert (stage.writes, stage.outbox.pending) == ([b"ab"], 0)
        assert stage.soon == []

    def test_outermost(self, names: Names) -> None:
        """Output is sent at the end of the outermost turn only."""
        stage = Stage(names)
        stage.batch.enter()
        stage.batch.enter()
        stage.outbox.write(b"a")
        stage.batch.leave()
        assert stage.writes == []
        stage.batch.leave()
        assert stage.writes == [b"a"]

    def test_outsideOfATurn(self, names: Names) -> None:
        """Output that is written outside of turns is sent together in a scheduled call."""
        stage = Stage(names)
        stage.outbox.write(b"a")
        stage.outbox.write(b"b")
        assert stage.writes == []
        assert len(stage.soon) == 1
        stage.settle()
        assert stage.writes == [b"ab"]
        stage.outbox.write(b"c")
        stage.settle()
        assert stage.writes == [b"ab", b"c"]

    def test_turnBeforeSoon(self, names: Names) -> None:
        """
        If a turn ends before the scheduled call, it sends the output, and the call does nothing.
        """
        stage = Stage(names)
        stage.outbox.write(b"a")
        stage.batch.enter()
        stage.batch.leave()
        assert stage.writes == [b"a"]
        stage.settle()
        assert stage.writes == [b"a"]

    def test_manyOutboxes(self, names: Names) -> None:
        """Each outbox with output sends once. Others do not."""
        stage = Stage(names)
        logs: list[list[bytes]] = [[] for _ in range(4)]
        outboxes = [stage.another(log.append) for log in logs]
        stage.batch.enter()
        for outbox in outboxes[:3] * 2:
            outbox.write(b"x")
        stage.batch.leave()
        assert logs == [[b"xx"], [b"xx"], [b"xx"], []]

    def test_callsAtTheEnd(self, names: Names) -> None:
        """Calls for the end of a turn are made once, in order, after the output is sent."""
        stage = Stage(names)
        events: list[object] = []
        outbox = stage.another(events.append)
        stage.batch.enter()
        stage.batch.atEnd(lambda: events.append("first"))
        stage.batch.atEnd(lambda: events.append("second"))
        outbox.write(b"a")
        assert events == []
        stage.batch.leave()
        assert events == [b"a", "first", "second"]
        stage.batch.enter()
        stage.batch.leave()
        assert len(events) == 3

    def test_callOutsideOfATurn(self, names: Names) -> None:
        """A call that is scheduled outside of a turn is made soon, not at once."""
        stage = Stage(names)
        events: list[str] = []
        stage.batch.atEnd(lambda: events.append("called"))
        assert events == []
        stage.settle()
        assert events == ["called"]

    def test_callsMayWrite(self, names: Names) -> None:
        """
        Calls at the end of a turn may write and schedule further calls, which belong to the same
        turn.
        """
        stage = Stage(names)
        events: list[str] = []

        def call() -> None:
            stage.outbox.write(b"late")
            stage.batch.atEnd(lambda: events.append("later"))

        stage.batch.enter()
        stage.batch.atEnd(call)
        stage.batch.leave()
        assert stage.writes == [b"late"]
        assert events == ["later"]

    def test_turnInsideOfACall(self, names: Names) -> None:
        """A call at the end may run a turn of its own."""
        stage = Stage(names)

        def call() -> None:
            stage.batch.enter()
            stage.outbox.write(b"inner")
            stage.batch.leave()

        stage.batch.enter()
        stage.batch.atEnd(call)
        stage.batch.leave()
        stage.settle()
        assert stage.writes == [b"inner"]

    def test_callThatFails(self, names: Names) -> None:
        """A call that raises does not keep later calls, or their writes, from running."""
        stage = Stage(names)

        def fail() -> None:
            raise RuntimeError("as expected")

        stage.batch.enter()
        stage.batch.atEnd(fail)
        stage.batch.atEnd(lambda: stage.outbox.write(b"after"))
        with pytest.raises(RuntimeError, match="as expected"):
            stage.batch.leave()
        assert stage.writes == [b"after"]
        stage.outbox.write(b"later")
        stage.settle()
        assert stage.writes == [b"after", b"later"]

    @pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
    def test_outboxThatFails(self, names: Names, error: type[BaseException]) -> None:
        """
        An outbox whose transport raises an exception is closed and reported. The others are
        flushed.
        """
        stage = Stage(names)
        reported: list[type[BaseException] | None] = []
        batch = names.FlushBatch(stage.soon.append, lambda text: reported.append(sys.exc_info()[0]))
        owner = Owner()

        def fail(data: bytes) -> None:
            raise error

        events: list[object] = []
        failing = names.Outbox(batch, owner, fail, 1 << 30)
        fine = names.Outbox(batch, Owner(), events.append, 1 << 30)
        batch.enter()
        failing.write(b"a")
        fine.write(b"b")
        batch.atEnd(lambda: events.append("called"))
        batch.leave()
        assert (events, reported) == ([b"b", "called"], [error])
        assert (failing.closed, failing.pending, owner.failures) == (True, 0, 1)
        assert not fine.closed

    def test_waiterThatFails(self, names: Names) -> None:
        """A waiting publisher that raises an exception stops neither others nor the outbox."""
        stage = Stage(names)
        reported: list[str] = []
        batch = names.FlushBatch(stage.soon.append, reported.append)
        events: list[object] = []
        outbox = names.Outbox(batch, Owner(), events.append, 1 << 30)

        def fail() -> None:
            raise KeyboardInterrupt

        outbox.whenRelieved(fail)
        outbox.whenRelieved(lambda: events.append("called"))
        outbox.write(b"a")
        stage.settle()
        assert (events, len(reported), outbox.closed) == ([b"a", "called"], 1, False)

    def test_reportThatFails(self, names: Names) -> None:
        """
        If reporting a failure fails too, the other outboxes are flushed before that is raised.
        """
        stage = Stage(names)

        def fail(*_: object) -> None:
            raise MemoryError

        batch = names.FlushBatch(stage.soon.append, fail)
        events: list[bytes] = []
        failing = names.Outbox(batch, Owner(), fail, 1 << 30)
        fine = names.Outbox(batch, Owner(), events.append, 1 << 30)
        batch.enter()
        failing.write(b"a")
        fine.write(b"b")
        with pytest.raises(MemoryError):
            batch.leave()
        assert events == [b"b"]


@onEach
class TestOutbox:
    """Output that waits for one peer."""

    def test_sentBytes(self, names: Names) -> None:
        """Sent bytes are counted, except those that a full transport still holds."""
        stage = Stage(names)
        held = [4]
        stage.outbox.write(b"0123456789")
        assert stage.outbox.sent == 0
        stage.settle()
        assert stage.outbox.sent == 10
        stage.outbox.pause(lambda: held[0])
        assert stage.outbox.sent == 6
        held[0] = 1
        stage.outbox.write(b"x")
        assert stage.outbox.sent == 9
        stage.outbox.resume()
        assert stage.outbox.sent == 11

    def test_newOutbox(self, names: Names) -> None:
        """A new outbox is empty and open, and sends no headers until its peer supports them."""
        outbox = Stage(names, 77).outbox
        assert (outbox.pending, outbox.messages, outbox.messageBytes, outbox.limit) == (0, 0, 0, 77)
        assert (outbox.closed, outbox.paused, outbox.lagging) == (False, False, False)
        assert (outbox.headers, outbox.echo, outbox.direct) == (False, True, True)

    def test_messages(self, names: Names) -> None:
        """Messages are framed, kept in order with other writes, and counted."""
        stage = Stage(names)
        stage.batch.enter()
        stage.outbox.write(b"+OK\r\n")
        stage.outbox.deliver(Message(b"foo", b"hi", b"rep"), b"7")
        stage.outbox.write(b"PONG\r\n")
        stage.batch.leave()
        assert stage.writes == [b"+OK\r\nMSG foo 7 rep 2\r\nhi\r\nPONG\r\n"]
        assert (stage.outbox.messages, stage.outbox.messageBytes) == (1, 2)

    def test_headersAsThePeerKnowsThem(self, names: Names) -> None:
        """
        A message with headers is an HMSG, or a MSG without them for a peer that does not support
        headers.
        """
        stage = Stage(names)
        message = Message(b"foo", b"NATS/1.0\r\n\r\nhi", headerLength=12)
        stage.outbox.deliver(message, b"1")
        stage.outbox.headers = True
        stage.outbox.deliver(message, b"2")
        stage.settle()
        assert stage.writes == [
            b"MSG foo 1 2\r\nhi\r\nHMSG foo 2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        ]

    def test_paused(self, names: Names) -> None:
        """
        While the transport is full all output is kept. When it has room all is sent, in order.
        """
        stage = Stage(names)
        stage.outbox.pause()
        assert stage.outbox.paused
        for piece in (b"a", b"b", b"c"):
            stage.batch.enter()
            stage.outbox.write(piece)
            stage.batch.leave()
        assert (stage.writes, stage.outbox.pending) == ([], 3)
        stage.outbox.resume()
        assert not stage.outbox.paused
        assert (stage.writes, stage.outbox.pending) == ([b"abc"], 0)
        stage.outbox.write(b"d")
        stage.settle()
        assert stage.writes == [b"abc", b"d"]

    def test_pausedByItsOwnWrite(self, names: Names) -> None:
        """A transport may pause the outbox while it is written to."""
        stage = Stage(names)

        def write(data: bytes) -> None:
            stage.writes.append(data)
            outbox.pause()

        outbox = stage.another(write)
        outbox.write(b"a")
        stage.settle()
        outbox.write(b"b")
        stage.settle()
        assert (stage.writes, outbox.pending) == ([b"a"], 1)
        outbox.resume()
        assert stage.writes == [b"a", b"b"]

    def test_limit(self, names: Names) -> None:
        """
        Output up to the limit may wait. One more byte ends the outbox and notifies the owner once.
        """
        stage = Stage(names, limit=10)
        stage.outbox.pause()
        stage.batch.enter()
        stage.outbox.write(b"0123456789")
        assert not stage.outbox.closed
        stage.outbox.write(b"x")
        assert stage.outbox.closed
        assert stage.owner.overflows == 0
        stage.outbox.write(b"y")
        stage.outbox.deliver(Message(b"foo"), b"1")
        stage.batch.leave()
        stage.settle()
        assert stage.owner.overflows == 1
        assert (stage.writes, stage.outbox.pending) == ([], 0)

    def test_limitCountsTheTransport(self, names: Names) -> None:
        """Bytes that a full transport still holds count for the limit."""
        stage = Stage(names, limit=10)
        held = [6]
        stage.outbox.pause(lambda: held[0])
        assert stage.outbox.pending == 6
        stage.outbox.write(b"0123")
        assert (stage.outbox.pending, stage.outbox.closed) == (10, False)
        held[0] = 2
        stage.outbox.write(b"4567")
        assert (stage.outbox.pending, stage.outbox.closed) == (10, False)
        stage.outbox.resume()
        assert (stage.outbox.pending, stage.writes) == (0, [b"01234567"])
        stage.outbox.write(b"0123456789")
        stage.settle()
        assert stage.outbox.pending == 0
        stage.outbox.pause(lambda: held[0])
        stage.outbox.write(b"012345678")
        stage.settle()
        assert (stage.outbox.closed, stage.outbox.pending, stage.owner.overflows) == (True, 0, 1)

    def test_limitCountsMessages(self, names: Names) -> None:
        """Messages count with their frames."""
        stage = Stage(names, limit=18)
        stage.outbox.pause()
        stage.outbox.deliver(Message(b"foo", b"hi"), b"1")
        assert stage.outbox.pending == len(b"MSG foo 1 2\r\nhi\r\n")
        stage.outbox.deliver(Message(b"foo", b"hi"), b"1")
        stage.settle()
        assert stage.owner.overflows == 1

    def test_limitWithoutAPause(self, names: Names) -> None:
        """The limit also applies within a single turn, so that memory stays bounded."""
        stage = Stage(names, limit=3 * HIGH)
        stage.batch.enter()
        for _ in range(4):
            stage.outbox.write(b"x" * HIGH)
        stage.batch.leave()
        assert stage.owner.overflows == 1
        assert stage.writes == []

    def test_limitChanges(self, names: Names) -> None:
        """A new limit applies to the next write."""
        stage = Stage(names)
        stage.outbox.pause()
        stage.outbox.write(b"0123456789")
        stage.outbox.limit = 10
        assert not stage.outbox.closed
        stage.outbox.write(b"x")
        assert stage.outbox.closed

    def test_closed(self, names: Names) -> None:
        """A closed outbox has dropped its waiting bytes, and drops later writes silently."""
        stage = Stage(names)
        stage.outbox.write(b"a")
        stage.outbox.close()
        stage.outbox.write(b"b")
        stage.outbox.deliver(Message(b"foo"), b"1")
        stage.settle()
        stage.outbox.resume()
        stage.outbox.close()
        assert (stage.writes, stage.outbox.pending, stage.outbox.closed) == ([], 0, True)
        assert (stage.outbox.messages, stage.owner.overflows) == (0, 0)

    def test_nothingToSend(self, names: Names) -> None:
        """Without waiting output nothing is written."""
        stage = Stage(names)
        stage.outbox.flush()
        stage.outbox.pause()
        stage.outbox.resume()
        assert stage.writes == []

    def test_largeAmounts(self, names: Names) -> None:
        """Megabytes in many pieces are sent unchanged, with any pauses."""
        stage = Stage(names)
        sent = []
        for number in range(3000):
            piece = b"%d." % number * (number % 300)
            sent.append(piece)
            stage.outbox.write(piece)
            if number % 500 == 0:
                stage.outbox.pause()
            if number % 500 == 250:
                stage.settle()
                stage.outbox.resume()
        stage.outbox.resume()
        stage.settle()
        assert b"".join(stage.writes) == b"".join(sent)


@onEach
class TestBackPressure:
    """Slowing down publishers for a receiver that lags."""

    def test_congested(self, names: Names) -> None:
        """The turn remembers an outbox that has more than 1 MiB waiting."""
        stage = Stage(names)
        stage.outbox.pause()
        stage.batch.enter()
        stage.outbox.write(b"x" * HIGH)
        assert not stage.batch.congested
        stage.outbox.write(b"x")
        assert stage.batch.congested is stage.outbox
        stage.batch.congested = None
        stage.outbox.write(b"x")
        assert stage.batch.congested is stage.outbox

    def test_notForTheLagging(self, names: Names) -> None:
        """A receiver that already lags slows no publisher down."""
        stage = Stage(names)
        stage.outbox.pause()
        stage.outbox.lagging = True
        stage.outbox.write(b"x" * (HIGH + 1))
        assert stage.batch.congested is None

    def test_relief(self, names: Names) -> None:
        """Waiting publishers are called once, when everything has gone to the transport."""
        stage = Stage(names)
        calls: list[str] = []
        stage.outbox.pause()
        stage.outbox.write(b"x" * HIGH)
        stage.outbox.whenRelieved(lambda: calls.append("one"))
        stage.outbox.whenRelieved(lambda: calls.append("two"))
        stage.settle()
        assert calls == []
        stage.outbox.resume()
        assert calls == ["one", "two"]
        stage.outbox.write(b"x")
        stage.settle()
        assert calls == ["one", "two"]

    def test_reliefOfTheLagging(self, names: Names) -> None:
        """A receiver whose output is all sent does not count as lagging any more."""
        stage = Stage(names)
        stage.outbox.pause()
        stage.outbox.write(b"x")
        stage.outbox.lagging = True
        stage.settle()
        assert stage.outbox.lagging
        stage.outbox.resume()
        assert not stage.outbox.lagging

    def test_reliefAtTheEnd(self, names: Names) -> None:
        """Publishers that wait for an outbox continue when it is closed or overflows."""
        for end in ("close", "overflow"):
            stage = Stage(names, limit=100)
            calls: list[str] = []
            stage.outbox.pause()
            stage.outbox.write(b"x")
            stage.outbox.whenRelieved(partial(calls.append, "relieved"))
            if end == "close":
                stage.outbox.close()
            else:
                stage.outbox.write(b"x" * 100)
            assert calls == ["relieved"]

    def test_waitingAgain(self, names: Names) -> None:
        """A publisher may wait for the same outbox again."""
        stage = Stage(names)
        calls: list[str] = []

        def again() -> None:
            calls.append("again")
            stage.outbox.whenRelieved(lambda: calls.append("last"))

        stage.outbox.pause()
        stage.outbox.write(b"x")
        stage.outbox.whenRelieved(again)
        stage.outbox.resume()
        assert calls == ["again"]
        stage.outbox.pause()
        stage.outbox.write(b"x")
        stage.outbox.resume()
        assert calls == ["again", "last"]


FRAMES = [
    (Message(b"a", b"hi"), False, b"MSG a s 2\r\nhi\r\n"),
    (Message(b"a", b"hi"), True, b"MSG a s 2\r\nhi\r\n"),
    (Message(b"a", b"hi", b"r"), False, b"MSG a s r 2\r\nhi\r\n"),
    (Message(b"a", b""), False, b"MSG a s 0\r\n\r\n"),
    (Message(b"a", b"", b"r"), False, b"MSG a s r 0\r\n\r\n"),
    (Message(b"a", b"hi", sizeText=b"002"), False, b"MSG a s 002\r\nhi\r\n"),
    (Message(b"a", b"HHhi", headerLength=2), True, b"HMSG a s 2 4\r\nHHhi\r\n"),
    (Message(b"a", b"HHhi", b"r", 2), True, b"HMSG a s r 2 4\r\nHHhi\r\n"),
    (Message(b"a", b"HHhi", headerLength=2), False, b"MSG a s 2\r\nhi\r\n"),
    (Message(b"a", b"HHhi", b"r", 2), False, b"MSG a s r 2\r\nhi\r\n"),
    (Message(b"a", b"HH", headerLength=2), False, b"MSG a s 0\r\n\r\n"),
    (
        Message(b"a", b"HHhi", headerLength=2, sizeText=b"004", headerText=b"02"),
        True,
        b"HMSG a s 02 004\r\nHHhi\r\n",
    ),
]


@pytest.mark.parametrize(("message", "headers", "frame"), FRAMES)
class TestFrames:
    """Messages as the bytes that a client gets."""

    def test_frameFor(self, message: Message, headers: bool, frame: bytes) -> None:
        """A frame has the sizes of the message, and its headers if the peer supports them."""
        assert frameFor(message, b"s", headers) == frame

    @onEach
    def test_deliver(self, message: Message, headers: bool, frame: bytes, names: Names) -> None:
        """An outbox sends the same frame, and counts headers and payload."""
        stage = Stage(names)
        stage.outbox.headers = headers
        stage.outbox.deliver(message, b"s")
        stage.settle()
        assert stage.writes == [frame]
        assert stage.outbox.messages == 1
        assert stage.outbox.messageBytes == len(message.body if headers else message.payload)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 1), st.binary(max_size=30)),
        st.tuples(st.just("deliver"), st.integers(0, 1), st.binary(max_size=30)),
        st.tuples(
            st.sampled_from(["pause", "resume", "flush", "close", "lag", "wait"]),
            st.integers(0, 1),
            st.just(b""),
        ),
        st.tuples(st.sampled_from(["enter", "leave", "settle"]), st.just(0), st.just(b"")),
    ),
    max_size=25,
)


def play(names: Names, steps: list[tuple[str, int, bytes]], limit: int) -> list[object]:
    """
    Do some steps on two outboxes of one turn.

    @return: all that could be observed.
    """
    stage = Stage(names)
    seen: list[object] = []
    outboxes = [
        stage.another(partial(lambda who, data: seen.append((who, data)), who), limit)
        for who in (0, 1)
    ]
    depth = 0
    for what, who, data in steps:
        outbox = outboxes[who]
        if what == "write":
            outbox.write(data)
        elif what == "deliver":
            outbox.headers = bool(len(data) % 2)
            outbox.deliver(Message(b"s", data, headerLength=len(data) // 2), b"1")
        elif what == "lag":
            outbox.lagging = True
        elif what == "wait":
            outbox.whenRelieved(lambda: seen.append("relieved"))
        elif what == "enter":
            depth += 1
            stage.batch.enter()
        elif what == "leave":
            if depth:
                depth -= 1
                stage.batch.leave()
        elif what == "settle":
            stage.settle()
        else:
            getattr(outbox, what)()
        seen.append(
            [(queue.pending, queue.closed, queue.lagging, queue.messages) for queue in outboxes]
        )
    for _ in range(depth):
        stage.batch.leave()
    stage.settle()
    return [*seen, stage.owner.overflows]


@onEach
class TestProperties:
    """Properties of any steps."""

    @given(st.lists(st.tuples(st.binary(max_size=20), st.booleans(), st.booleans()), max_size=20))
    def test_nothingLostOrReordered(
        self, names: Names, steps: list[tuple[bytes, bool, bool]]
    ) -> None:
        """With any pauses, the written bytes come out in order and without a gap."""
        stage = Stage(names)
        for data, pause, resume in steps:
            stage.outbox.write(data)
            if pause:
                stage.outbox.pause()
            stage.settle()
            if resume:
                stage.outbox.resume()
        stage.outbox.resume()
        assert b"".join(stage.writes) == b"".join(data for data, _, _ in steps)


@needsCompiled
class TestCompiledAgrees:
    """The pure and the compiled outbox side by side."""

    @given(STEPS, st.sampled_from([0, 10, 60, 1 << 20]))
    def test_sameBehaviour(self, steps: list[tuple[str, int, bytes]], limit: int) -> None:
        """The same steps give the same writes, calls and states."""
        assert COMPILED is not None
        assert play(PURE, steps, limit) == play(COMPILED, steps, limit)
