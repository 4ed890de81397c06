"""
The base of client and link sessions. Input is handled in batches, each with a share of work. The
peer has deadlines, and the connection ends once.

No exception escapes, not even one that is meant to end the process: it ends the session that
caused it and no other. A peer has to wait when it fills an outbox that is too full already, and
when its share of work is used up. Meanwhile its socket is not read, and the input that was read
waits in the backlog.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from natsbroker import errors, hot
from natsbroker.connections.keepalive import Keepalive, KeepaliveAction
from natsbroker.wire.text import decoded

_log = Logger(namespace="natsbroker")

#: Errors that nats-server logs for debugging only.
_QUIET = frozenset(
    {
        errors.ACCOUNT_EXPIRED,
        errors.AUTH_EXPIRED,
        errors.AUTH_REVOKED,
        errors.AUTH_TIMEOUT,
        errors.STALE,
    }
)


class PeerSession(ABC):
    """
    @cvar toleratesProgress: whether a peer that takes some of its output before the write deadline
        gets a new deadline, as nats-server allows links. A client has to take all that waited when
        its transport became full.
    @ivar context: reactor, settings, wheel and more that all sessions of a kind share.
    @ivar reason: why the connection was closed; empty while it is open.
    @ivar _batch: the flush batch, which sends what a chunk of input causes.
    @ivar _handshakeBy: the time by which the peer must have logged in; C{None} if it need not.
    @ivar _expires: the time at which the peer's login expires; C{None} for never.
    @ivar _stuckSince: the time since which the transport is full; C{None} while it is not.
    @ivar _sentBefore: the number of bytes that were sent before that time.
    @ivar _holds: the number of reasons not to read.
    @ivar _isQueued: whether the session waits in the backlog.
    @ivar _steps: the steps that the last operation still has to do.
    @ivar _afterwards: the end of the connection, which waits until no input is left.
    """

    __slots__ = (
        "_afterwards",
        "_batch",
        "_expires",
        "_handshakeBy",
        "_holds",
        "_isQueued",
        "_isResting",
        "_keepalive",
        "_sentBefore",
        "_stall",
        "_steps",
        "_stuckSince",
        "context",
        "decoder",
        "outbox",
        "peer",
        "reason",
        "started",
    )

    toleratesProgress = False

    def _begin(self, context: Any, peer: Any, decoder: hot.Decoder) -> None:
        settings, now = context.settings, context.reactor.seconds()
        self._useBatch(context.batch)
        self.context = context
        self.peer = peer
        self.started: float = now
        self.reason = ""
        self.decoder = decoder
        decoder.heard = now
        self.outbox = hot.Outbox(context.batch, self, peer.write, self.maxPending)
        self._keepalive = Keepalive(settings.ping_interval, now, context.random.random())
        self._handshakeBy: float | None = None
        self._expires: float | None = None
        self._stuckSince: float | None = None
        self._sentBefore = 0

    def _useBatch(self, batch: hot.FlushBatch) -> None:
        self._batch = batch
        self._stall: Stall | None = None
        self._holds = 0
        self._isResting = self._isQueued = False
        self._steps: Iterator[object] | None = None
        self._afterwards: Callable[[], None] | None = None

    @abstractmethod
    def proceed(self) -> None: ...

    @abstractmethod
    def inputEnded(self) -> None: ...

    @abstractmethod
    def say(self, line: bytes) -> None: ...

    @abstractmethod
    def _handshakeLate(self) -> None:
        """Close the connection of a peer that did not log in in time."""

    @abstractmethod
    def _closing(self, error: errors.WireError) -> None:
        """The connection was closed, and the peer has not been informed yet."""

    @abstractmethod
    def _gone(self) -> None:
        """The transport is gone, and the outbox still open. Called exactly once."""

    @property
    def maxPending(self) -> int:
        """The most bytes that may wait for the peer."""
        limit: int = self.context.settings.max_pending
        return limit

    def received(self, data: bytes) -> None:
        """Drop bytes that arrive after the connection was closed."""
        if not self.reason:
            self.decoder.append(data)
            self.proceed()

    def _inBatch(self, call: Callable[..., None], *arguments: Any) -> None:
        batch = self._batch
        batch.enter()
        try:
            call(*arguments)
            if batch.congested is not None:
                outbox, batch.congested = batch.congested, None
                batch.atEnd(lambda: self._waitFor(outbox))
        except BaseException:
            batch.contain(self.internalFailure)
        try:
            batch.leave()
        except BaseException:
            _log.failure("{peer} - Cannot finish the work of its input", peer=str(self))

    def internalFailure(self) -> None:
        try:
            _log.failure("{peer} - Internal failure", peer=str(self))
        finally:
            self.close(errors.INTERNAL)

    def outboxFailed(self) -> None:
        """Cut the connection, since sending raised an error. The batch has logged it."""
        self.close(errors.INTERNAL, abort=True)

    def _mustRest(self) -> bool:
        """Continue the last operation, and return whether the batch's share of work is used up."""
        batch, steps = self._batch, self._steps
        if steps is not None:
            for _ in steps:
                if batch.isSpent:
                    break
            else:
                self._steps = None
        if batch.isSpent:
            self._rest()
            return True
        return False

    def _rest(self) -> None:
        if not self._isResting:
            self._isResting = True
            self._hold()
        self._queue()

    def _queue(self) -> None:
        if not self._isQueued:
            self._isQueued = True
            self._batch.backlog.add(self._goOn)

    def _goOn(self) -> None:
        self._isQueued = False
        if self._stall is not None and not self.reason:
            return
        self.proceed()
        if self._isQueued:
            return
        self._isResting = False
        afterwards, self._afterwards = self._afterwards, None
        if afterwards is None:
            self._release()
        else:
            self._holds -= 1
            afterwards()

    def _postpone(self, call: Callable[[], None]) -> bool:
        """
        Postpone the end of the connection until no input waits. Return whether that was necessary.
        """
        if self._isResting:
            self._afterwards = call
        return self._isResting

    def later(self, steps: Iterator[object]) -> None:
        self._steps = steps

    def _hold(self) -> None:
        """Stop reading until L{_release} was called as often as this."""
        self._holds += 1
        if self._holds == 1:
            self._setReading(False)

    def _release(self) -> None:
        self._holds -= 1
        if not self._holds and not self.reason and self._afterwards is None:
            self._setReading(True)

    def _setReading(self, isWanted: bool) -> None:
        if isWanted:
            self.peer.resumeReading()
        else:
            self.peer.pauseReading()

    def _waitFor(self, outbox: hot.Outbox) -> None:
        """
        Stop reading if the peer has filled an outbox that is too full. Read again when the outbox
        holds less, at the latest after C{PATIENCE} seconds.
        """
        if self.context.settings.no_fast_producer_stall or self.reason or self._stall is not None:
            return
        if outbox.pending > hot.FlushBatch.HIGH and not outbox.lagging:
            self._hold()
            self._stall = Stall(self.context.reactor, outbox, self._waited)

    def _waited(self) -> None:
        self._stall = None
        self._release()
        if self._isResting:
            self._queue()

    def writeBlocked(self) -> None:
        """Give a full transport the write deadline to take what waits now."""
        isFirst = self._stuckSince is None
        self._stuckSince = self.context.reactor.seconds()
        self._sentBefore = self.outbox.sent
        if isFirst:
            self._schedule()

    def writeProgressed(self) -> None:
        self._stuckSince = None

    def outboxOverflowed(self) -> None:
        self._cut(errors.SLOW_PENDING, f"MaxPending of {self.outbox.limit} Exceeded")

    def _cut(self, error: errors.WireError, detail: str) -> None:
        if not self.reason:
            _log.info("{peer} - Slow Consumer Detected: {detail}", peer=str(self), detail=detail)
            self.close(error, abort=True)

    def _schedule(self) -> None:
        self.context.wheel.schedule(self, self._nextDeadline())

    def _nextDeadline(self) -> float:
        due = self._keepalive.due
        if self._handshakeBy is not None and self._handshakeBy < due:
            due = self._handshakeBy
        if self._expires is not None and self._expires < due:
            due = self._expires
        if self._stuckSince is not None:
            due = min(due, self._stuckSince + self.context.settings.write_deadline)
        return due

    def deadlinePassed(self, now: float) -> float | None:
        if self.reason:
            return None
        settings, stuck = self.context.settings, self._stuckSince
        if self._handshakeBy is not None and now >= self._handshakeBy:
            self._inBatch(self._handshakeLate)
        elif self._expires is not None and now >= self._expires:
            self._inBatch(self.close, errors.AUTH_EXPIRED)
        elif stuck is not None and now >= stuck + settings.write_deadline:
            if self.toleratesProgress and self.outbox.sent > self._sentBefore:
                self.writeBlocked()
            else:
                detail = f"WriteDeadline of {settings.write_deadline:g}s exceeded"
                self._cut(errors.SLOW_DEADLINE, detail)
        else:
            action = self._keepalive.timePassed(now, self._lastHeard(), settings.ping_max)
            if action is KeepaliveAction.PING:
                self._inBatch(self._pingDue)
            elif action is KeepaliveAction.STALE:
                self._inBatch(self.close, errors.STALE)
        return None if self.reason else self._nextDeadline()

    def _lastHeard(self) -> float:
        """When the peer last sent anything but PONG; a PING is due an interval later."""
        return self.decoder.heard

    def _pingDue(self) -> None:
        self.ping()

    def ping(self) -> None:
        self.say(b"PING\r\n")

    def _ponged(self) -> None:
        self._keepalive.ponged(self.context.reactor.seconds())

    @property
    def roundTrip(self) -> float:
        return self._keepalive.roundTrip

    def limitsChanged(self) -> None:
        settings = self.context.settings
        self.decoder.maxControlLine = settings.max_control_line
        self.decoder.maxPayload = settings.max_payload
        self.outbox.limit = self.maxPending
        self._keepalive.changeInterval(settings.ping_interval, self.context.reactor.seconds())
        if not self.reason:
            self._schedule()

    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        if self.reason:
            return
        self.reason = error.reason
        self._closing(error)
        line = error.line(*arguments)
        if line:
            log = _log.debug if error in _QUIET else _log.error
            log("{peer} - {text}", peer=str(self), text=self._logged(error, line))
            if not abort:
                self.say(line)
        if abort:
            self.outbox.close()
            self.peer.abort()
        else:
            self.outbox.resume()
            self.peer.finish()

    def _logged(self, error: errors.WireError, line: bytes) -> str:
        """The text between the quotes of an C{-ERR} line, for the log."""
        return decoded(line[6:-3])

    def lost(self, reason: str = "Client Closed") -> None:
        """
        Note that the transport is gone, exactly once. C{reason} counts if this side did not close
        it.
        """
        if not self.reason and self._postpone(partial(self.lost, reason)):
            self.outbox.close()
            return
        self.reason = self.reason or reason
        self._gone()


#: The longest wait of a publisher for one receiver, in seconds.
PATIENCE = 0.1


class Stall:
    """The wait of a publisher for a receiver whose outbox is too full."""

    __slots__ = ("_call", "_outbox", "_resume")

    def __init__(
        self, reactor: IReactorTime, outbox: hot.Outbox, resume: Callable[[], None]
    ) -> None:
        self._outbox = outbox
        self._resume: Callable[[], None] | None = resume
        self._call: IDelayedCall | None = reactor.callLater(PATIENCE, self._impatient)
        outbox.whenRelieved(self.end)

    def end(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        resume, self._resume = self._resume, None
        if resume is not None:
            resume()

    def _impatient(self) -> None:
        self._call = None
        self._outbox.lagging = True
        self.end()
