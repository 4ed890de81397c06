"""
A conversation with another server, from its first byte to its last, without a transport.

A peer that is silent is sent PINGs, and given up if it does not answer. The bytes that wait for it
are bounded, and so is the time in which it must take some. When the conversation ends, for any
reason, the interest of the peer is withdrawn at once, exactly once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Attribute, Interface

from natsbroker import errors, hot
from natsbroker.config.addresses import joined
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.connections.peersession import PeerSession
from natsbroker.connections.trace import redactedConnect
from natsbroker.errors import logText
from natsbroker.links.context import LinkContext
from natsbroker.pure.backlog import FRAME
from natsbroker.wire import ops
from natsbroker.wire.compression import AUTO, NO_COMPRESSION, Compression, LinkCompression
from natsbroker.wire.lines import LineReader

_log = Logger(namespace="natsbroker")

#: The handler of a frame; it receives the parts after the operation.
Handler = Callable[..., None]


_Parsed = TypeVar("_Parsed")

#: Messages in, bytes in, messages out, bytes out.
LinkTraffic = tuple[int, int, int, int]


class ILinkOwner(Interface):
    context = Attribute("The L{LinkContext} of its links.")

    def linkOpened(link: Any) -> None:
        """The transport of a link is connected, and encrypted if TLS is used."""

    def linkEnding(link: Any) -> None:
        """A link that may have opened is about to close. Called once; it delivers no more."""

    def linkGone(link: Any) -> None:
        """The transport of a link is gone. Called once, also for a link that never opened."""


class Link(PeerSession):
    """
    @cvar CREATED: the name of the kind in the log line of a new connection.
    @cvar KIND: the name of the kind in the log line of a closed connection.
    @cvar ID_PREFIX: the word before the link's number in the log, such as C{rid}.
    @ivar isHeld: whether no more input is read until an answer has come.
    @ivar lane: the lane of messages; C{None} if all take the readable path.
    @ivar traffic: the handlers of messages and interest; C{None} before the dialect is agreed on.
    @ivar isQuiet: whether no PING may be sent, since the peer is about to switch to S2.
    @ivar measures: whether the round trip is measured in every interval, even with input, because
        the compression depends on it.
    """

    CREATED: ClassVar[str]
    KIND: ClassVar[str]
    ID_PREFIX: ClassVar[str]

    toleratesProgress = True

    context: LinkContext
    peer: LinkPeer

    def __init__(
        self,
        registry: ILinkOwner,
        peer: LinkPeer,
        dialect: LineReader,
        wanted: Compression = NO_COMPRESSION,
    ) -> None:
        context: LinkContext = registry.context
        settings = context.settings
        decoder = hot.Decoder(settings.max_control_line, settings.max_payload, dialect)
        self._begin(context, peer, decoder)
        decoder.headers = True
        self._handshakeBy = self.started + settings.authorization.timeout
        self.number = context.nextNumber()
        self.handlers: dict[int, Handler] = {
            ops.PING: self._pinged,
            ops.PONG: self._ponged,
            ops.OK: _nothing,
            ops.ERR: self._peerFailed,
            ops.FAULT: self.close,
        }
        self.lane: Any = None
        self.traffic: Any = None
        self._judging: Deferred[bool] | None = None
        self.isOpen = False
        self.isHeld = False
        self.compression = LinkCompression(wanted, peer.compress)
        self.isQuiet = False
        self.measures = False
        self._registry = registry
        self._isOver = False

    @abstractmethod
    def greet(self) -> None:
        """Send the first line of a new connection. If it has to be encrypted, it is by now."""

    def secured(self) -> None:
        """Refuse a handshake after lines in the clear, as most kinds of links do."""
        raise RuntimeError("a TLS handshake after the first line")

    def ended(self) -> None:
        """Withdraw the interest of the peer. Called exactly once, as soon as the link ends."""
        traffic, self.traffic = self.traffic, None
        if traffic is not None:
            traffic.end()
        self._registry.linkEnding(self)

    @property
    def remoteName(self) -> str:
        """The name of the peer; empty while it is not known."""
        return ""

    @property
    def idPrefix(self) -> str:
        return self.ID_PREFIX

    @property
    def timeoutError(self) -> errors.WireError:
        return errors.AUTH_TIMEOUT

    def opened(self) -> None:
        self.isOpen = True
        self._schedule()
        self._inBatch(self._enter)
        if not self.reason:
            _log.info("{link} - {what} connection created", link=str(self), what=self.CREATED)

    def _enter(self) -> None:
        self._registry.linkOpened(self)
        self.greet()

    def proceed(self) -> None:
        if not self.reason and not self.isHeld and not self._isQueued:
            self._inBatch(self._frames)

    def _frames(self) -> None:
        decoder, handlers = self.decoder, self.handlers
        active = False
        batch = self._batch
        while not self.reason and not self.isHeld:
            if (batch.isSpent or self._steps is not None) and self._mustRest():
                break
            lane = self.lane
            if lane is not None and self.context.tracing:
                lane.complete()
            elif lane is not None:
                if lane.forward():
                    active = True
                if lane.isShort or (batch.isSpent and self._mustRest()):
                    break
            batch.work += FRAME
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
        super()._ponged()
        self.compression.measured(self.roundTrip)

    def _peerFailed(self, text: bytes) -> None:
        quoted = inQuotes(text.strip().strip(b"'")[:256])
        _log.error("{link} - {kind} Error {text}", link=str(self), kind=self.CREATED, text=quoted)
        self.close(errors.PEER_ERROR)

    def judge(self, outcome: bool | Deferred[bool], decided: Callable[[bool], None]) -> None:
        """Continue the judgement of the peer's login. Nothing more is read until it has ended."""
        if isinstance(outcome, bool):
            decided(outcome)
            return
        self._judging = outcome
        self.isHeld = True
        self._hold()
        outcome.addErrback(_unproven).addCallback(self._judged, decided)

    def _judged(self, isRight: bool, decided: Callable[[bool], None]) -> None:
        self._judging = None
        if not self.reason:
            self.isHeld = False
            self._inBatch(lambda: decided(isRight))
        if not self.reason:
            self._resume()

    def _resume(self) -> None:
        """Continue reading after a request has been answered."""
        self._release()
        self.context.reactor.callLater(0, self.proceed)

    def parsing(
        self, parse: Callable[[bytes], _Parsed | None], handle: Callable[[_Parsed], None]
    ) -> Handler:
        """A handler that closes the link if C{parse} gives C{None} or raises C{ValueError}."""

        def parsed(argument: bytes) -> None:
            try:
                value = parse(argument)
            except ValueError:
                value = None
            if value is None:
                self.close(errors.BAD_ARGUMENTS)
            else:
                handle(value)

        return parsed

    def _refuseName(self, name: str) -> None:
        _log.error(
            "{link} - Remote server has a duplicate name: {name}",
            link=str(self),
            name=inQuotes(name),
        )
        self.close(errors.DUPLICATE_SERVER_NAME)

    def _select(self, peer: str) -> bool:
        """Select the mode of the link. Return whether it is known; else the link is closed."""
        try:
            self.compression.select(peer)
        except ValueError:
            self.close(errors.COMPRESSION_MODE, peer)
            return False
        self.isQuiet = self.isQuiet and self.compression.isOn
        return True

    def _switch(self) -> None:
        """
        Speak S2 from here on. The time that the peer took to answer determines the first level.
        """
        self.compression.begin(self.roundTrip or self.context.reactor.seconds() - self.started)

    def useCompression(self, wanted: Compression) -> None:
        if not self.reason and self.compression.change(wanted, self.roundTrip):
            self._inBatch(lambda: self.close(errors.RENEGOTIATION))

    def say(self, line: bytes) -> None:
        if self.context.tracing:
            traceSaid(str(self), line)
        self.outbox.write(line)

    def _pingDue(self) -> None:
        if not self.isQuiet:
            self.ping()

    def expect(self, seconds: float) -> None:
        self._handshakeBy = self.context.reactor.seconds() + seconds
        self._schedule()

    def agreed(self) -> None:
        self._handshakeBy = None
        self._keepalive.estimate(self.context.reactor.seconds() - self.started)

    def _lastHeard(self) -> float:
        isMeasured = self.measures and self.compression.mode == AUTO
        return -math.inf if isMeasured else super()._lastHeard()

    def _handshakeLate(self) -> None:
        self.close(self.timeoutError)

    @property
    def host(self) -> str:
        return self.peer.host

    @property
    def port(self) -> int:
        return self.peer.port

    @property
    def lastActivity(self) -> float:
        return self.decoder.heard

    @property
    def subscriptions(self) -> int:
        return 0 if self.traffic is None else len(self.traffic.interest)

    @property
    def counts(self) -> LinkTraffic:
        decoder, outbox = self.decoder, self.outbox
        return decoder.messages, decoder.messageBytes, outbox.messages, outbox.messageBytes

    def _closing(self, error: errors.WireError) -> None:
        self._over()

    def inputEnded(self) -> None:
        if not self.reason and not self._postpone(self.inputEnded):
            self.reason = "Client Closed"
            self._over()
            self.peer.finish()

    def _gone(self) -> None:
        self._over()
        self.outbox.close()
        name = f" - Remote: {logText(self.remoteName)}" if self.remoteName else ""
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
        if self._judging is not None:
            self._judging.cancel()
        try:
            self.ended()
        except BaseException:
            _log.failure("{link} - Internal failure", link=str(self))

    def __str__(self) -> str:
        return f"{joined(self.peer.host, self.peer.port)} - {self.idPrefix}:{self.number}"


def _unproven(failure: Failure) -> bool:
    if not failure.check(CancelledError, errors.Unauthorized):
        _log.failure("A password could not be compared", failure)
    return False


def _nothing(*_: object) -> None:
    """Handle a message that needs no answer."""


_traceLog = Logger(namespace="natsbroker.trace")

_WITH_PAYLOAD = frozenset({ops.RMSG, ops.HMSG, ops.LMSG, ops.MSG, ops.PUB})


def traceCame(link: str, frame: tuple[Any, ...], longest: int) -> None:
    """Log a frame with at most C{longest} bytes of its payload; 0 for all."""
    name = ops.NAMES.get(frame[0])
    if name is None:
        return
    rest = [part for part in frame[1:] if isinstance(part, bytes) and part]
    if frame[0] == ops.CONNECT:
        rest = [redactedConnect(rest[0]).encode()] if rest else []
    elif frame[0] in _WITH_PAYLOAD and longest:
        rest = [part[:longest] for part in rest]
    _trace(link, "<<-", b" ".join([name, *rest]))


def traceSaid(link: str, line: bytes) -> None:
    _trace(link, "->>", line.rstrip())


def _trace(link: str, arrow: str, text: bytes) -> None:
    _traceLog.debug(
        "{link} - {arrow} [{text}]", link=link, arrow=arrow, text=logText(text), trace=True
    )
