"""
A WebSocket as a transport: a session above it reads and writes the bytes of NATS, and cannot tell
the difference.

Input is decoded no faster than the session takes it. One turn of the reactor decodes no more than a
connection without frames would bring, however well the input is compressed. Answers to PING do not
pile up for a peer that does not read: it gets the last one.

On a polled connection, the compiled lane passes plain frames between the buffers of the socket and
of the session. Other frames come here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import ITransport
from twisted.logger import Logger
from wsproto.frame_protocol import Opcode
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.connections.peersession import PeerSession
from natsbroker.connections.polledtls import PolledTLS
from natsbroker.connections.polledtransport import PolledTransport
from natsbroker.websocket.frames import ControlFrame, FrameReader, FrameWriter, FramingError

_log = Logger(namespace="natsbroker")

#: The most bytes that a session receives in one turn of the event loop.
_IN_A_TURN = 1 << 18


NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
POLICY_VIOLATION = 1008
TOO_BIG = 1009
INTERNAL = 1011

_ERRORS = {
    NORMAL: (errors.AUTH_GONE,),
    GOING_AWAY: (errors.STALE, errors.SERVER_SHUTDOWN, errors.FRAMES_DAMAGED),
    PROTOCOL_ERROR: (errors.PEER_ERROR, errors.UNKNOWN_OPERATION, errors.BAD_PROTOCOL),
    POLICY_VIOLATION: (
        errors.AUTHORIZATION,
        errors.AUTH_TIMEOUT,
        errors.AUTH_EXPIRED,
        errors.AUTH_REVOKED,
        errors.CONTROL_LINE,
        errors.MAX_CONNECTIONS,
        errors.MAX_ACCOUNT_CONNECTIONS,
        errors.MISSING_ACCOUNT,
        errors.SUBSCRIPTIONS_EXCEEDED,
    ),
    TOO_BIG: (errors.PAYLOAD,),
}

_CODES = {error.reason: code for code, raised in _ERRORS.items() for error in raised}


def closeCode(reason: str) -> int:
    return _CODES.get(reason, INTERNAL)


@implementer(ITransport)
class WebSocketTransport:
    def __init__(
        self,
        reactor: Any,
        below: Any,
        stream: Any,
        reader: FrameReader,
        writer: FrameWriter,
    ) -> None:
        """
        @param below: the protocol whose C{write} sends bytes.
        @param stream: its transport, or an object in its place.
        """
        self.transport = stream
        self._reactor = reactor
        self._below = below
        self._reader = reader
        self._writer = writer
        self._above: Any = None
        self._session: Callable[[], PeerSession | None] = _noSession
        self._producer: Any = None
        self._framing: Any = None
        self._closing = b""
        self._pong: bytes | None = None
        self._isFull = self._isPaused = self._isLater = self._isBusy = False
        self._isMore = self._isInputOver = self._isOver = False

    def carry(self, above: Any, session: Callable[[], PeerSession | None]) -> None:
        """Carry a client's or leafnode's protocol; C{session} gives its session."""
        self._above = above
        self._session = session
        above.makeConnection(self)
        peer = session()
        if self._framing is None and peer is not None:
            self.attachSession(peer)

    def attachSession(self, session: PeerSession) -> None:
        """Have the compiled lane work for a session, where it can."""
        stream = self.transport
        if hot.FrameLane is None or not _isPolled(stream):
            return
        decoder: Any = session.decoder
        if not isinstance(decoder, hot.Decoder):
            # The lane cannot fill that of a dialect.
            return
        self._framing = hot.FrameLane(decoder, self._reader.isMasked)
        stream.useFraming(self._framing)
        if self._writer.isPlain:
            stream.sendFramesOf(session.outbox)

    def useLane(self, lane: Any) -> None:
        if self._framing is not None:
            self.transport.useLane(lane)

    # Methods for the protocol above.

    def write(self, data: bytes) -> None:
        if data and not self._isOver:
            self._below.write(self._writer.frames(data))

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        """Close the connection. The last frame has the reason why the session ended."""
        if self._isOver:
            return
        self._over()
        self._below.write(self._closing or self._farewell())
        self.transport.loseConnection()

    def _farewell(self) -> bytes:
        session = self._session()
        reason = "" if session is None else session.reason
        reason = reason or errors.AUTH_GONE.reason
        return self._writer.close(closeCode(reason), reason.encode())

    def abortConnection(self) -> None:
        self._over()
        self.transport.abortConnection()

    def _over(self) -> None:
        self._isOver = True
        session: Any = self._session()
        if self._framing is not None and session is not None:
            session.outbox.frameInto(None)

    def getPeer(self) -> Any:
        return self._below.address

    def getHost(self) -> Any:
        return self._below.transport.getHost()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._producer = producer

    def unregisterProducer(self) -> None:
        self._producer = None

    def pauseProducing(self) -> None:
        self._isPaused = True
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Resume reading for the session. Input that was already read comes first."""
        self._isPaused = False
        if self._isInputOver or self._isOver:
            return
        if self._isMore and not self._isBusy:
            self._later()
        elif not self._isLater:
            self.transport.resumeProducing()

    # Methods for the protocol below.

    def received(self, data: bytes) -> None:
        if self._isInputOver or self._isOver:
            return
        if self._framing is not None:
            # Later output has to wait. Output from the lane came before it.
            self._framing.isOn = False
            session = self._session()
            if session is not None:
                session.proceed()
        if data:
            self._reader.feed(data)
            self._isMore = True
        if not (self._isLater or self._isPaused):
            self._proceed()

    def blocked(self) -> None:
        self._isFull = True
        if self._producer is not None:
            self._producer.pauseProducing()

    def unblocked(self) -> None:
        self._isFull = False
        pong, self._pong = self._pong, None
        if pong is not None and not self._isOver:
            self._answer(pong)
        if self._producer is not None:
            self._producer.resumeProducing()

    def _later(self) -> None:
        """Continue in another turn of the reactor, without reading before it."""
        if not self._isLater:
            self._isLater = True
            self.transport.pauseProducing()
            self._reactor.callLater(0, self._continue)

    def _continue(self) -> None:
        self._isLater = False
        if self._isOver or self._isInputOver or self._isPaused:
            return
        self._proceed()
        if not (self._isOver or self._isInputOver or self._isPaused or self._isLater):
            self.transport.resumeProducing()

    def _proceed(self) -> None:
        self._isBusy = True
        try:
            self._deliver()
        except FramingError as error:
            self._broken(error)
        finally:
            self._isBusy = False
            if self._framing is not None:
                self._framing.isOn = self._reader.isIdle

    def _deliver(self) -> None:
        left = _IN_A_TURN
        while not (self._isPaused or self._isOver or self._isInputOver):
            if left <= 0:
                self._later()
                break
            piece = self._reader.next()
            if piece is None:
                self._isMore = False
                break
            if isinstance(piece, bytes):
                left -= len(piece)
                self._above.dataReceived(piece)
            else:
                left -= _CONTROL
                self._controlled(piece)

    def _controlled(self, frame: ControlFrame) -> None:
        if frame.opcode is Opcode.PING:
            self._answer(frame.payload)
        elif frame.opcode is Opcode.CLOSE:
            self._end(self._writer.close(frame.code, frame.payload))
            self._above.readConnectionLost()

    def _answer(self, payload: bytes) -> None:
        if self._isFull:
            self._pong = payload
        else:
            self._below.write(self._writer.control(Opcode.PONG, payload))

    def _broken(self, error: FramingError) -> None:
        session = self._session()
        _log.error("{peer} - read error: {why}", peer=str(session), why=str(error))
        self._end(self._writer.close(error.code, str(error).encode()))
        if session is not None:
            session.close(errors.FRAMES_DAMAGED)

    def _end(self, closing: bytes) -> None:
        """Read no more. The session may still write before the last frame."""
        self._isInputOver = True
        self._closing = closing
        self.transport.pauseProducing()


#: The bytes that a control frame counts of a turn.
_CONTROL = 1024


def _isPolled(stream: Any) -> bool:
    if isinstance(stream, PolledTLS):
        return stream.outbox is not None
    return isinstance(stream, PolledTransport)


def _noSession() -> PeerSession | None:
    return None
