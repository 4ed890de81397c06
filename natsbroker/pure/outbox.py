"""
The output that waits on one connection, and the batch that sends it.

All output that one chunk of input causes for one connection is sent in one write. Bytes that a slow
peer does not take are counted, here and in its transport. If they exceed the limit, the connection
ends. Until then nothing is lost or reordered. Publishers can wait for a peer that lags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from natsbroker.pure.backlog import FLUSH, LEAST, LONGEST_BATCH, LOOK, SHARE, UNLIMITED, WorkQueue
from natsbroker.wire.values import Message


class OutboxOwner(Protocol):
    def outboxOverflowed(self) -> None:
        """
        Note that more bytes wait than the limit allows. Called once, at the batch's end; no more
        output is taken.
        """

    def outboxFailed(self) -> None:
        """Note that sending raised. Called once, at the batch's end; no more output is taken."""


@dataclass(eq=False, slots=True)
class FlushBatch:
    """
    Collects the outboxes that were written to and flushes them together.

    Inside the batch (C{enter} to C{leave}), writes are only collected. The outermost C{leave}
    flushes. A write outside of any batch asks C{schedule} for a flush soon.

    @cvar HIGH: waiting bytes from which on a receiver slows its publishers down.
    @cvar LOW: waiting bytes below which it no longer does.
    @ivar _schedule: called with L{flush} to have it called soon, but not at once.
    @ivar _failed: called with a sentence while an exception is handled; without it, L{flush} raises
        the first exception after everything else was done.
    @ivar worked: gives the seconds of the thread's work; without it, time ends no batch.
    @ivar _look: the C{work} at which the time is looked at next.
    @ivar _end: when the time of the batch is used up; C{None} before the first look.
    @ivar congested: the last written outbox that has more than C{HIGH} bytes. A session in the
        batch sets this to C{None}, to learn whether it fills one itself.
    @ivar work: the amount of work so far, in the units of L{natsbroker.pure.backlog}.
    @ivar until: the C{work} at which the running work leaves its rest for later.
    @ivar round: the C{work} at which a round of batches ends. Each batch begins with the rest of
        it.
    """

    HIGH = 1 << 20
    LOW = 1 << 18

    _schedule: Callable[[Callable[[], None]], object]
    _failed: Callable[[str], object] | None = None
    worked: Callable[[], float] | None = None
    congested: Outbox | None = field(default=None, init=False)
    work: int = field(default=0, init=False)
    until: int = field(default=UNLIMITED, init=False)
    round: int = field(default=SHARE, init=False)
    backlog: WorkQueue = field(init=False)
    _look: int = field(default=UNLIMITED, init=False)
    _end: float | None = field(default=None, init=False)
    _trouble: BaseException | None = field(default=None, init=False)
    _scheduled: bool = field(default=False, init=False)
    _depth: int = field(default=0, init=False)
    _isFlushing: bool = field(default=False, init=False)
    _dirty: list[Outbox] = field(default_factory=list, init=False)
    _ended: list[Callable[[], None]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.backlog = WorkQueue(self, self._schedule)

    @property
    def isSpent(self) -> bool:
        if self.work >= self._look:
            self._lookAtTime()
        return self.work >= self.until

    def _lookAtTime(self) -> None:
        if self.worked is None:
            return
        now = self.worked()
        self._look = self.work + LOOK
        if self._end is None:
            self._end = now + LONGEST_BATCH
        elif now >= self._end:
            # No other batch has a share of this round either.
            self.round = self.work - SHARE
            self.until = min(self.until, self.work)

    def renew(self) -> None:
        self.round = self.work + SHARE

    def enter(self) -> None:
        if not self._depth:
            self.until = max(self.round, self.work + LEAST)
            self._look, self._end = self.work, None
        self._depth += 1

    def leave(self) -> None:
        self._depth -= 1
        if not self._depth:
            self.until = self._look = UNLIMITED
            self.flush()

    def dirty(self, outbox: Outbox) -> None:
        self.work += FLUSH
        self._dirty.append(outbox)
        self._flushSoon()

    def atEnd(self, call: Callable[[], None]) -> None:
        """Call a function once when the batch ends, after everything was flushed."""
        self._ended.append(call)
        self._flushSoon()

    def _flushSoon(self) -> None:
        if not (self._depth or self._isFlushing or self._scheduled):
            self._scheduled = True
            self._schedule(self._scheduledFlush)

    def flush(self) -> None:
        """
        Send the collected output, then make the calls. If one outbox raises, only that one is
        closed.
        """
        isNested, self._isFlushing = self._isFlushing, True
        try:
            while self._dirty or self._ended:
                dirty, self._dirty = self._dirty, []
                for outbox in dirty:
                    try:
                        outbox.flush()
                    except BaseException as problem:
                        outbox.fail()
                        self.caught(problem)
                ended, self._ended = self._ended, []
                for call in ended:
                    self.contain(call)
        finally:
            self._isFlushing = isNested
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def contain(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as problem:
            # The error is reported, not raised, because other outboxes have to be flushed after
            # this one.
            self.caught(problem)

    def caught(self, problem: BaseException) -> None:
        if self._failed is None:
            self._trouble = self._trouble or problem
            return
        try:
            self._failed("Work of a flush batch failed")
        except BaseException as another:
            # There may be no memory for a report. The work of the batch comes first in any case.
            self._trouble = another

    def _scheduledFlush(self) -> None:
        self._scheduled = False
        self.flush()


def _nothing() -> int:
    return 0


@dataclass(eq=False, slots=True)
class Outbox:
    """
    @ivar headers: whether the peer understands headers; if not, they are stripped.
    @ivar echo: whether the peer wants its own messages back.
    @ivar direct: whether messages may be put in without telling the owner; false for an owner that
        must see each of them.
    @ivar pending: the waiting bytes, here and in a full transport.
    @ivar sent: the bytes that were sent, as far as a full transport reports them.
    @ivar lagging: whether nobody waits for this peer any more, because it did not catch up in time.
        It ends when the peer has caught up.
    @ivar messageBytes: the bytes of their payloads, and of headers if the peer gets them.
    """

    batch: FlushBatch
    _owner: OutboxOwner
    _write: Callable[[bytes], object]
    limit: int
    headers: bool = field(default=False, init=False)
    echo: bool = field(default=True, init=False)
    closed: bool = field(default=False, init=False)
    messages: int = field(default=0, init=False)
    messageBytes: int = field(default=0, init=False)
    lagging: bool = field(default=False, init=False)
    direct: bool = field(default=True, init=False)
    _waiting: int = field(default=0, init=False)
    _sent: int = field(default=0, init=False)
    _held: Callable[[], int] = field(default=_nothing, init=False)
    _heldAtMost: int = field(default=0, init=False)
    _pieces: list[bytes] = field(default_factory=list, init=False)
    _paused: bool = field(default=False, init=False)
    _isDirty: bool = field(default=False, init=False)
    _waiters: list[Callable[[], None]] = field(default_factory=list, init=False)

    def write(self, data: bytes) -> None:
        if self.closed or not data:
            return
        self._pieces.append(data)
        self._grown(len(data))

    def deliver(self, message: Message, sid: bytes) -> None:
        """Append a message as MSG or HMSG, whichever the peer understands."""
        if self.closed:
            return
        frame = frameFor(message, sid, self.headers)
        self._pieces.append(frame)
        self.messages += 1
        self.messageBytes += len(message.body) - (0 if self.headers else message.headerLength)
        self._grown(len(frame))

    def putRun(self, data: bytes, messages: int, messageBytes: int) -> None:
        """Append finished messages; for the lane."""
        if self.closed:
            return
        self._pieces.append(data)
        self.messages += messages
        self.messageBytes += messageBytes
        self._grown(len(data))

    def _grown(self, count: int) -> None:
        self._waiting += count
        if not self._isDirty:
            self._isDirty = True
            self.batch.dirty(self)
        if self._waiting + self._heldAtMost > self.limit and self.pending > self.limit:
            self._overflow()
        elif self._waiting > FlushBatch.HIGH and not self.lagging:
            self.batch.congested = self

    def _overflow(self) -> None:
        overflowed = self._owner.outboxOverflowed
        self.close()
        self.batch.atEnd(overflowed)

    def fail(self) -> None:
        """Take nothing more, and tell the owner, because sending raised."""
        failed = self._owner.outboxFailed
        self.close()
        self.batch.atEnd(failed)

    def whenRelieved(self, call: Callable[[], None]) -> None:
        """
        Call a function once, when fewer than L{FlushBatch.LOW} bytes wait or no more ever will.
        """
        self._waiters.append(call)

    def close(self) -> None:
        self.closed = True
        self._pieces = []
        self._waiting = 0
        self._held = _nothing
        # A lane may remember the outbox for a while, but not whose it was.
        self._owner = CLOSED
        self._write = CLOSED.write
        self._relieve()

    def flush(self) -> None:
        """Hand the waiting bytes to the transport, unless it is full."""
        self._isDirty = False
        if self._paused:
            return
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            self._sent += self._waiting
            self._waiting = 0
            self._write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        self._relieve()

    def _relieve(self) -> None:
        self.lagging = False
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for call in waiters:
                self.batch.contain(call)

    @property
    def pending(self) -> int:
        return self._waiting + self._held()

    @property
    def sent(self) -> int:
        return self._sent - self._held()

    def pause(self, held: Callable[[], int] | None = None) -> None:
        """
        Pause. C{held} gives the unsent bytes of a full transport, which do not grow. C{None} if the
        transport does not report them.
        """
        self._paused = True
        if held is not None and not self.closed:
            self._held = held
            self._heldAtMost = held()

    def resume(self) -> None:
        self._paused = False
        self._held = _nothing
        self._heldAtMost = 0
        self.flush()

    @property
    def paused(self) -> bool:
        return self._paused


class _ClosedOwner:
    def outboxOverflowed(self) -> None:
        """Do nothing: a closed connection cannot overflow."""

    def outboxFailed(self) -> None:
        """Do nothing: a closed connection has nothing to send."""

    def write(self, data: bytes) -> None:
        """Do nothing: a closed connection has nothing to write."""


CLOSED = _ClosedOwner()


def frameFor(message: Message, sid: bytes, headers: bool) -> bytes:
    """Without C{headers}, the size is the payload's (PROTOCOL part 2, row 28)."""
    if not message.headerLength:
        middle = b"%b %b" % (message.reply, message.sizeText) if message.reply else message.sizeText
        return b"MSG %b %b %b\r\n%b\r\n" % (message.shownSubject, sid, middle, message.body)
    reply = message.reply + b" " if message.reply else b""
    if headers:
        return b"HMSG %b %b %b%b %b\r\n%b\r\n" % (
            message.shownSubject,
            sid,
            reply,
            message.headerText,
            message.sizeText,
            message.body,
        )
    payload = message.payload
    return b"MSG %b %b %b%d\r\n%b\r\n" % (message.shownSubject, sid, reply, len(payload), payload)
