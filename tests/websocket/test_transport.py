"""
Tests for L{natsbroker.websocket.transport}.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock
from wsproto.frame_protocol import Opcode

from natsbroker import errors
from natsbroker.clients.dialectinput import DialectInput
from natsbroker.websocket.deflate import Inflation
from natsbroker.websocket.frames import FrameReader, FrameWriter
from natsbroker.websocket.transport import WebSocketTransport, closeCode
from tests.conftest import FlushLoggedErrors

TO_SERVER = FrameWriter(isMasked=True)


class Session:
    """A session that closes its transport like the real ones."""

    def __init__(self, above: Above) -> None:
        self.above = above
        self.reason = ""

    def close(self, error: errors.WireError) -> None:
        self.reason = error.reason
        self.above.transport.write(b"-ERR 'why'\r\n")
        self.above.transport.loseConnection()


class Above:
    transport: Any

    def __init__(self) -> None:
        self.came: list[bytes] = []
        self.isEnded = False
        self.session = Session(self)
        self.pauseAfter = 0

    def makeConnection(self, transport: Any) -> None:
        self.transport = transport

    def dataReceived(self, data: bytes) -> None:
        self.came.append(data)
        if self.pauseAfter and len(self.came) == self.pauseAfter:
            self.transport.pauseProducing()

    def readConnectionLost(self) -> None:
        self.isEnded = True
        self.transport.loseConnection()


class Stream:
    """The stream that carries the frames, and the protocol that writes them."""

    def __init__(self) -> None:
        self.written = b""
        self.calls: list[str] = []
        self.isReading = True
        self.transport = self
        self.address = "peer"

    def write(self, data: bytes) -> None:
        self.written += data

    def pauseProducing(self) -> None:
        self.isReading = False

    def resumeProducing(self) -> None:
        self.isReading = True

    def loseConnection(self) -> None:
        self.calls.append("lose")

    def abortConnection(self) -> None:
        self.calls.append("abort")

    def getPeer(self) -> str:
        return "peer"

    def getHost(self) -> str:
        return "host"


class Socket:
    def __init__(self, limit: int = 0) -> None:
        self.clock = Clock()
        self.stream = Stream()
        self.above = Above()
        inflation = Inflation(lambda: limit) if limit else None
        self.transport = WebSocketTransport(
            self.clock,
            self.stream,
            self.stream,
            FrameReader(True, inflation),
            FrameWriter(),
        )
        self.transport.carry(self.above, lambda: self.above.session)  # type: ignore[arg-type, return-value]  # a stand-in with what is used of it

    def receive(self, data: bytes) -> None:
        self.transport.received(data)

    @property
    def came(self) -> bytes:
        return b"".join(self.above.came)


@pytest.fixture
def socket() -> Socket:
    return Socket()


class TestOutput:
    def test_frames(self, socket: Socket) -> None:
        """The session's output is sent in frames; an empty write makes no frame."""
        socket.transport.write(b"PONG\r\n")
        socket.transport.write(b"")
        socket.transport.writeSequence([b"a", b"b"])
        assert socket.stream.written == b"\x82\x06PONG\r\n\x82\x02ab"

    def test_addresses(self, socket: Socket) -> None:
        """The addresses are those of the connection that carries the frames."""
        assert (socket.transport.getPeer(), socket.transport.getHost()) == ("peer", "host")

    def test_farewell(self, socket: Socket) -> None:
        """The last frame has the code and the text of the reason. No frame follows it."""
        socket.above.session.close(errors.AUTHORIZATION)
        socket.transport.loseConnection()
        socket.transport.write(b"x")
        reason = b"Authentication Failure"
        farewell = bytes((0x88, len(reason) + 2)) + b"\x03\xf0" + reason
        assert socket.stream.written == b"\x82\x0c-ERR 'why'\r\n" + farewell
        assert socket.stream.calls == ["lose"]

    def test_abort(self, socket: Socket) -> None:
        """A connection that is cut ends without a close frame."""
        socket.transport.abortConnection()
        socket.transport.loseConnection()
        assert socket.stream.written == b""
        assert socket.stream.calls == ["abort"]

    def test_full(self, socket: Socket) -> None:
        """
        The session is notified when the connection below is full, and when it is free again.
        """
        calls: list[str] = []

        class Producer:
            def pauseProducing(self) -> None:
                calls.append("pause")

            def resumeProducing(self) -> None:
                calls.append("resume")

        socket.transport.registerProducer(Producer(), True)
        socket.transport.blocked()
        socket.transport.unblocked()
        socket.transport.unregisterProducer()
        socket.transport.blocked()
        assert calls == ["pause", "resume"]


def test_readableInput(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled lane is left out if it cannot fill the decoder of the session."""
    socket = Socket()
    monkeypatch.setattr("natsbroker.websocket.transport._isPolled", lambda stream: True)
    session: Any = SimpleNamespace(decoder=DialectInput(1, 1))
    socket.transport.attachSession(session)
    socket.receive(TO_SERVER.frames(b"ab"))
    assert socket.came == b"ab"


class TestInput:
    def test_bytes(self, socket: Socket) -> None:
        """The session gets the payload of frames."""
        data = TO_SERVER.frames(b"PING\r\n") + TO_SERVER.frames(b"PONG\r\n")
        socket.receive(data[:9])
        socket.receive(data[9:])
        assert socket.came == b"PING\r\nPONG\r\n"

    def test_pong(self, socket: Socket) -> None:
        """A PING of WebSocket is answered with its content. A PONG is not answered."""
        socket.receive(TO_SERVER.control(Opcode.PING, b"hi") + TO_SERVER.control(Opcode.PONG))
        assert socket.stream.written == b"\x8a\x02hi"
        assert socket.came == b""

    def test_onePong(self, socket: Socket) -> None:
        """A peer that does not read gets the answer to its last PING only."""
        socket.transport.blocked()
        for number in range(1000):
            socket.receive(TO_SERVER.control(Opcode.PING, b"%d" % number))
        assert socket.stream.written == b""
        socket.transport.unblocked()
        assert socket.stream.written == b"\x8a\x03999"

    def test_close(self, socket: Socket) -> None:
        """A close frame is answered with the same code after the session's last output."""
        socket.receive(TO_SERVER.frames(b"x") + TO_SERVER.close(1000, b"bye"))
        assert socket.above.isEnded
        assert socket.stream.written == b"\x88\x05\x03\xe8bye"
        assert socket.stream.calls == ["lose"]
        socket.receive(TO_SERVER.frames(b"more"))
        assert socket.came == b"x"

    def test_violation(self, socket: Socket, flushLoggedErrors: FlushLoggedErrors) -> None:
        """
        Input that is no WebSocket frame ends the session, with the right code in the close frame.
        """
        socket.receive(b"\x82\x01x")
        assert socket.above.session.reason == "Read Error"
        assert b"\x03\xea" in socket.stream.written
        assert not socket.stream.isReading

    def test_pause(self, socket: Socket) -> None:
        """
        A paused session gets no more input; after it resumes, input that was already read comes in
        a later turn.
        """
        socket.above.pauseAfter = 1
        socket.receive(
            TO_SERVER.frames(b"a") + TO_SERVER.control(Opcode.PONG) + TO_SERVER.frames(b"b")
        )
        assert (socket.came, socket.stream.isReading) == (b"a", False)
        socket.transport.resumeProducing()
        assert socket.came == b"a"
        socket.clock.advance(0)
        assert (socket.came, socket.stream.isReading) == (b"ab", True)

    def test_resume(self, socket: Socket) -> None:
        """If no input is left over, reading resumes at once."""
        socket.transport.pauseProducing()
        socket.transport.resumeProducing()
        assert socket.stream.isReading
        assert not socket.clock.getDelayedCalls()

    def test_turns(self) -> None:
        """Input that decompresses to much is given to the session in several turns."""
        socket = Socket(limit=1 << 20)
        message = FrameWriter(isMasked=True, isCompressed=True).frames(bytes(1 << 16))
        socket.receive(message * 10)
        assert len(socket.came) == 1 << 18
        assert not socket.stream.isReading
        while socket.clock.getDelayedCalls():
            socket.clock.advance(0)
        assert len(socket.came) == 10 << 16
        assert socket.stream.isReading


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.AUTH_GONE, 1000),
        (errors.STALE, 1001),
        (errors.SERVER_SHUTDOWN, 1001),
        (errors.UNKNOWN_OPERATION, 1002),
        (errors.AUTHORIZATION, 1008),
        (errors.AUTH_TIMEOUT, 1008),
        (errors.MAX_CONNECTIONS, 1008),
        (errors.CONTROL_LINE, 1008),
        (errors.PAYLOAD, 1009),
        (errors.KICKED, 1011),
        (errors.INTERNAL, 1011),
    ],
)
def test_codes(error: errors.WireError, code: int) -> None:
    """Each reason has the code that nats-server sends for it."""
    assert closeCode(error.reason) == code
