"""
A conversation with another server, from its first byte to its last, without a transport.

Frames are handled in order, and nothing escapes what they cause; a peer that is silent is
sent PINGs, and given up if it does not answer; what waits for it is bounded, and so is the time in
which it must take some; when it ends, for whatever reason, what it stood for is taken back at once,
exactly once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Protocol

from twisted.logger import Logger

from natsbroker import errors, hot
from natsbroker.connections.backlog import FRAME
from natsbroker.connections.keepalive import Keepalive, KeepaliveAction
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.connections.peersession import PeerSession
from natsbroker.errors import logText
from natsbroker.links.compression import AUTO, NO_COMPRESSION, Compression, LinkCompression
from natsbroker.links.context import LinkContext
from natsbroker.links.trace import traceCame, traceSaid
from natsbroker.wire import ops
from natsbroker.wire.lines import Dialect

__all__ = ["Link"]

_log = Logger(namespace="natsbroker")

#: What a handler does with a frame: a callable that takes what follows the operation.
Handler = Callable[..., None]


class LinkOwner(Protocol):
    """
    The links of one kind that there are, as one of them sees it: see
    L{natsbroker.links.registry.LinkRegistry}.
    """

    context: LinkContext

    def linkOpened(self, link: Any) -> None: ...

    def linkEnding(self, link: Any) -> None: ...

    def linkGone(self, link: Any) -> None: ...


class Link(PeerSession):
    """
    @cvar CREATED: what the kind of link is called when it is made.
    @cvar KIND: what it is called when it is closed.
    @cvar LETTER: begins the link's number in the log.
    @ivar number: tells links apart.
    @ivar outbox: what waits for the peer.
    @ivar decoder: what came from it.
    @ivar started: when the connection began.
    @ivar reason: why it was closed; empty while it is open.
    @ivar handlers: what is done with which operation.
    @ivar isOpen: whether it can be talked on already.
    @ivar isHeld: whether nothing more is read before something that was asked is answered.
    @ivar lane: takes messages before they are frames; C{None} for nothing that does.
    @ivar traffic: what passes over it; C{None} before it is agreed on.
    @ivar compression: whether it is compressed, and how.
    @ivar isQuiet: whether no PING may be sent, since the peer is about to switch to S2.
    @ivar measures: whether the round trip is measured in every interval, whatever comes, where
        the compression depends on it.
    """

    CREATED: ClassVar[str]
    KIND: ClassVar[str]
    LETTER: ClassVar[str]

    def __init__(
        self,
        registry: LinkOwner,
        peer: LinkPeer,
        dialect: Dialect,
        wanted: Compression = NO_COMPRESSION,
    ) -> None:
        """
        @param registry: is told when it comes, ends and is gone.
        @param wanted: the compression.
        """
        context = registry.context
        limits = context.limits
        now = context.reactor.seconds()
        self.context = context
        self.peer = peer
        self.number = context.nextNumber()
        self.started = now
        self.reason = ""
        self.decoder = hot.Decoder(limits.max_control_line, limits.max_payload, dialect)
        self.decoder.heard = now
        self.decoder.headers = True
        self.outbox = hot.Outbox(context.turn, self, peer.write, limits.max_pending)
        self.handlers: dict[int, Handler] = {
            ops.PING: self._pinged,
            ops.PONG: self._ponged,
            ops.OK: _nothing,
            ops.ERR: self._peerFailed,
            ops.FAULT: self.close,
        }
        self.lane: Any = None
        self.traffic: Any = None
        self.isOpen = False
        self.isHeld = False
        self.compression = LinkCompression(wanted, peer.compress)
        self.isQuiet = False
        self.measures = False
        self._registry = registry
        self._beginTurns(context.turn)
        self._keepalive = Keepalive(limits.ping_interval, now, context.random.random())
        self._handshakeBy: float | None = now + limits.handshake
        self._stuckSince: float | None = None
        self._sentBefore = 0
        self._isOver = False

    # What the layer above adds.

    @abstractmethod
    def greet(self) -> None:
        """
        The connection is there, and encrypted if it is to be: say what comes first.
        """

    def secured(self) -> None:
        """
        The connection is encrypted from now on, after it was talked on in the clear: links of most
        kinds never are.
        """
        raise RuntimeError("a handshake in the middle of a conversation")

    def ended(self) -> None:
        """
        Take back what the peer stood for. Called exactly once, and at once.
        """
        traffic, self.traffic = self.traffic, None
        if traffic is not None:
            traffic.end()
        self._registry.linkEnding(self)

    @property
    def remote(self) -> str:
        """
        What the peer calls itself; empty while it has not said.
        """
        return ""

    @property
    def timeoutError(self) -> errors.WireError:
        """
        How a peer is refused that took too long to say who it is.
        """
        return errors.AUTH_TIMEOUT

    # Beginning and input.

    def opened(self) -> None:
        """
        The connection can be talked on.
        """
        self.isOpen = True
        self.context.wheel.schedule(self, self._nextDeadline())
        self.context.statistics.begins(self)
        self._inTurn(self._enter)
        if not self.reason:
            _log.info("{link} - {what} connection created", link=str(self), what=self.CREATED)

    def _enter(self) -> None:
        self._registry.linkOpened(self)
        self.greet()

    def received(self, data: bytes) -> None:
        """
        Take input. What comes after the connection was closed is thrown away.
        """
        if not self.reason:
            self.decoder.append(data)
            self.proceed()

    def proceed(self) -> None:
        """
        Handle what is in the decoder.
        """
        if not self.reason and not self.isHeld and not self._isQueued:
            self._inTurn(self._frames)

    def _frames(self) -> None:
        decoder, handlers = self.decoder, self.handlers
        active = False
        turn = self._turn
        while not self.reason and not self.isHeld:
            if (turn.isSpent or self._steps is not None) and self._mustRest():
                break
            lane = self.lane
            if lane is not None and self.context.tracing:
                lane.complete()
            elif lane is not None:
                if lane.forward():
                    active = True
                if lane.isShort or (turn.isSpent and self._mustRest()):
                    break
            turn.work += FRAME
            frame = decoder.next()
            if frame is None:
                break
            active = active or frame[0] != ops.PONG
            if self.context.tracing:
                traceCame(str(self), frame, self.context.maxTraced)
            handler = handlers.get(frame[0])
            if handler is None:
                self.close(errors.UNKNOWN_OPERATION)
            else:
                handler(*frame[1:])
        if active:
            decoder.heard = self.context.reactor.seconds()

    def _pinged(self) -> None:
        self.say(b"PONG\r\n")

    def _ponged(self) -> None:
        self._keepalive.ponged(self.context.reactor.seconds())
        self.compression.measured(self.roundTrip)

    def _peerFailed(self, text: bytes) -> None:
        told = inQuotes(text.strip().strip(b"'")[:256])
        _log.error("{link} - {kind} Error {text}", link=str(self), kind=self.CREATED, text=told)
        self.close(errors.PEER_ERROR)

    # Compression.

    def _select(self, peer: str) -> bool:
        """
        Learn from the peer's first INFO which mode the link has.

        @param peer: the mode in it; empty for none.
        @return: whether that is known; else the link is closed.
        """
        try:
            self.compression.select(peer)
        except ValueError:
            self.close(errors.COMPRESSION_MODE, peer)
            return False
        self.isQuiet = self.isQuiet and self.compression.isOn
        return True

    def _switch(self) -> None:
        """
        Speak S2 from here on. The first level follows from how long the peer took to answer.
        """
        self.compression.begin(self.roundTrip or self.context.reactor.seconds() - self.started)

    def useCompression(self, wanted: Compression) -> None:
        """
        Other compression is wanted from now on.
        """
        if not self.reason and self.compression.change(wanted, self.roundTrip):
            self._inTurn(lambda: self.close(errors.RENEGOTIATION))

    # Output.

    def say(self, line: bytes) -> None:
        """
        Send a line.
        """
        if self.context.tracing:
            traceSaid(str(self), line)
        self.outbox.write(line)

    def ping(self) -> None:
        """
        Send a PING for another reason than silence.
        """
        self.say(b"PING\r\n")

    def expect(self, seconds: float) -> None:
        """
        Have the peer take no longer than that to say the next thing.
        """
        self._handshakeBy = self.context.reactor.seconds() + seconds
        self.context.wheel.schedule(self, self._nextDeadline())

    def agreed(self) -> None:
        """
        The peer has said who it is: the time for that does not matter any more.
        """
        self._handshakeBy = None
        self._keepalive.estimate(self.context.reactor.seconds() - self.started)

    def _waitFor(self, outbox: hot.Outbox) -> None:
        if self.context.limits.stall:
            self._stallFor(self.context.reactor, outbox)

    def _setReading(self, isWanted: bool) -> None:
        if isWanted:
            self.peer.resumeReading()
        else:
            self.peer.pauseReading()

    def outboxOverflowed(self) -> None:
        """
        Too much waits for a peer that is too slow: cut it.
        """
        self._cut(errors.SLOW_PENDING, f"MaxPending of {self.outbox.limit} Exceeded")

    def _cut(self, error: errors.WireError, detail: str) -> None:
        if not self.reason:
            _log.info("{link} - Slow Consumer Detected: {detail}", link=str(self), detail=detail)
            self.close(error, abort=True)

    def writeBlocked(self) -> None:
        """
        The transport is full: it has until the write deadline to take some of what waits, as
        nats-server allows links. (Clients have to take all that waited when it became full.)
        """
        isFirst = self._stuckSince is None
        self._stuckSince = self.context.reactor.seconds()
        self._sentBefore = self.outbox.sent
        if isFirst:
            self.context.wheel.schedule(self, self._nextDeadline())

    def writeProgressed(self) -> None:
        """
        The transport took everything.
        """
        self._stuckSince = None

    # Time.

    def _nextDeadline(self) -> float:
        due = self._keepalive.due
        if self._handshakeBy is not None:
            due = min(due, self._handshakeBy)
        if self._stuckSince is not None:
            due = min(due, self._stuckSince + self.context.limits.write_deadline)
        return due

    def deadlinePassed(self, now: float) -> float | None:
        if self.reason:
            return None
        limits, stuck = self.context.limits, self._stuckSince
        if self._handshakeBy is not None and now >= self._handshakeBy:
            self._inTurn(lambda: self.close(self.timeoutError))
        elif stuck is not None and now >= stuck + limits.write_deadline:
            if self.outbox.sent > self._sentBefore:
                self.writeBlocked()
            else:
                detail = f"WriteDeadline of {limits.write_deadline:g}s exceeded"
                self._cut(errors.SLOW_DEADLINE, detail)
        else:
            isMeasured = self.measures and self.compression.mode == AUTO
            heard = -math.inf if isMeasured else self.decoder.heard
            action = self._keepalive.timePassed(now, heard, limits.ping_max)
            if action is KeepaliveAction.PING and not self.isQuiet:
                self._inTurn(self.ping)
            elif action is KeepaliveAction.STALE:
                self._inTurn(lambda: self.close(errors.STALE))
        return None if self.reason else self._nextDeadline()

    def limitsChanged(self) -> None:
        """
        The limits in the context were replaced: use the new ones.
        """
        limits = self.context.limits
        self.decoder.maxControlLine = limits.max_control_line
        self.decoder.maxPayload = limits.max_payload
        self.outbox.limit = limits.max_pending
        self._keepalive.changeInterval(limits.ping_interval, self.context.reactor.seconds())
        if not self.reason:
            self.context.wheel.schedule(self, self._nextDeadline())

    @property
    def roundTrip(self) -> float:
        """
        The last measured round trip in seconds; 0.0 before the first.
        """
        return self._keepalive.roundTrip

    # The end.

    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        """
        End the connection for a reason of ours.

        @param abort: whether what waits is thrown away.
        """
        if self.reason:
            return
        self.reason = error.reason
        line = error.line(*arguments)
        if line:
            text = line[6:-3].decode("utf-8", "replace")
            log = _log.debug if error in _QUIET else _log.error
            log("{link} - {text}", link=str(self), text=text)
        if not abort:
            self.outbox.write(line)
        self._over()
        if abort:
            self.outbox.close()
            self.peer.abort()
        else:
            self.outbox.resume()
            self.peer.finish()

    def inputEnded(self) -> None:
        """
        The peer sends no more: there is nothing left to do for it.
        """
        if not self.reason and not self._isDeferred(self.inputEnded):
            self.reason = "Client Closed"
            self._over()
            self.peer.finish()

    def lost(self, reason: str = "Client Closed") -> None:
        """
        The transport is gone. Called exactly once, whoever closed.

        @param reason: what to note if it was not us.
        """
        if not self.reason and self._isDeferred(partial(self.lost, reason)):
            self.outbox.close()
            return
        self.reason = self.reason or reason
        self._over()
        self.outbox.close()
        self.context.statistics.ends(self)
        name = f" - Remote: {logText(self.remote)}" if self.remote else ""
        _log.info(
            "{link} - {kind} connection closed: {why}{name}",
            link=str(self),
            kind=self.KIND,
            why=self.reason,
            name=name,
        )
        self._registry.linkGone(self)

    def _over(self) -> None:
        if self._isOver:
            return
        self._isOver = True
        self.context.wheel.forget(self)
        if self._stall is not None:
            self._stall.end()
        try:
            self.ended()
        except BaseException:
            _log.failure("{link} - Internal failure", link=str(self))

    def __str__(self) -> str:
        host = f"[{self.peer.host}]" if ":" in self.peer.host else self.peer.host
        return f"{host}:{self.peer.port} - {self.LETTER}:{self.number}"


#: What is no news: the real server logs it for debugging only.
_QUIET = frozenset({errors.AUTH_TIMEOUT, errors.STALE})


def _nothing(*_: object) -> None:
    """
    What needs no answer.
    """
