"""
A broker in memory that listens for WebSocket connections, and clients of it.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from wsproto.frame_protocol import Opcode

from natsbroker.config.model import Settings
from natsbroker.testing.memory import MemoryBroker, MemoryReactor
from natsbroker.testing.transport import MemoryTransport
from natsbroker.websocket.frames import ControlFrame, FrameReader, FrameWriter
from tests.server.support import settingsOf

REQUEST = (
    b"GET %b HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%b\r\n"
)

CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n'


class Socket:
    """
    The other end of a connection.

    @ivar controls: the control frames that came.
    """

    def __init__(self, reactor: MemoryReactor, transport: MemoryTransport) -> None:
        self.transport = transport
        self.writer = FrameWriter(isMasked=True)
        self.reader = FrameReader(False)
        self.controls: list[ControlFrame] = []
        self._reactor = reactor

    def exchange(self, data: bytes) -> bytes:
        """Send bytes unchanged, and return the bytes that come."""
        self.transport.send(data)
        self._reactor.pass_(0)
        return self.transport.take()

    def upgrade(self, path: bytes = b"/", **headers: str) -> bytes:
        """
        @param headers: with C{_} for C{-}.
        @return: the answer.
        """
        more = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
        answer = self.exchange(REQUEST % (path, more.encode()))
        head, end, rest = answer.partition(b"\r\n\r\n")
        self.reader.feed(rest)
        return head + end

    def ask(self, data: bytes = b"") -> bytes:
        """Send bytes of NATS, and return those that come."""
        self.reader.feed(self.exchange(self.writer.frames(data) if data else b""))
        plain = b""
        while (frame := self.reader.next()) is not None:
            if isinstance(frame, bytes):
                plain += frame
            else:
                self.controls.append(frame)
        return plain

    @property
    def ending(self) -> str:
        """The close frame of the connection, which must be its only frame."""
        return self.transport.closed

    @property
    def closeCode(self) -> int | None:
        return next(control.code for control in self.controls if control.opcode is Opcode.CLOSE)


class WebSocketBroker:
    """
    @ivar service: the L{natsbroker.websocket.service.WebSocketService}.
    """

    def __init__(self, block: str = "", rest: str = "", **changes: Any) -> None:
        text = f'websocket {{ listen: "127.0.0.1:8080", no_tls: true\n{block}\n}}\n{rest}'
        self.memory = MemoryBroker(settingsOf(text), **changes)
        self.broker = self.memory.broker
        self.reactor: Any = self.broker.reactor
        self.service: Any = self.broker.links.find("websocket")

    @property
    def settings(self) -> Settings:
        return self.broker.settings

    def dial(self) -> Socket:
        factory = next(server[1] for server in self.reactor.tcpServers if server[0] == 8080)
        address = IPv4Address("TCP", "127.0.0.1", 50001)
        transport = MemoryTransport(self.reactor, factory.buildProtocol(address), address)
        transport.connect()
        return Socket(self.reactor, transport)

    def client(self, connect: bytes = CONNECT, **headers: str) -> Socket:
        """A client that has read INFO and sent CONNECT."""
        socket = self.dial()
        socket.upgrade(b"/", **headers)
        socket.ask()
        socket.ask(connect)
        return socket
