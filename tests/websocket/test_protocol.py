"""
Tests for L{natsbroker.websocket.protocol}, with a broker in memory.
"""

from __future__ import annotations

import json

import pytest

from natsbroker.connections.proxyheader import TIMEOUT
from natsbroker.websocket.deflate import Inflation
from natsbroker.websocket.frames import FrameReader, FrameWriter
from tests.conftest import FlushLoggedErrors
from tests.connections.headers import FIRST, NAMED, UNNAMED, WRONG
from tests.websocket.memory import CONNECT, REQUEST, WebSocketBroker


class TestHandshake:
    def test_session(self) -> None:
        """After the handshake, the connection is a client like any other."""
        broker = WebSocketBroker()
        socket = broker.dial()
        assert socket.upgrade().startswith(b"HTTP/1.1 101 ")
        info = json.loads(socket.ask()[5:])
        assert (info["client_id"], info["port"]) == (1, 8080)
        assert (
            socket.ask(CONNECT + b"SUB a 1\r\nPUB a 2\r\nhi\r\n") == b"PONG\r\nMSG a 1 2\r\nhi\r\n"
        )

    def test_noSessionBefore(self) -> None:
        """Before the handshake, the connection is no client, and has no client id."""
        broker = WebSocketBroker()
        socket = broker.dial()
        socket.exchange(b"GET / HTTP/1.1\r\n")
        assert broker.broker.clientContext.connections.total == 0

    def test_late(self) -> None:
        """A connection that does not complete the handshake in time is cut."""
        broker = WebSocketBroker()
        socket = broker.dial()
        broker.memory.advance(1.9)
        before = socket.ending
        assert before == ""
        broker.memory.advance(0.2)
        assert socket.ending == "aborted"
        assert not broker.service.handshakes

    def test_lateAfterRefusals(self) -> None:
        """Refused requests do not extend the time for the handshake."""
        broker = WebSocketBroker()
        socket = broker.dial()
        for _ in range(3):
            assert socket.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").startswith(b"HTTP/1.1 400")
            broker.memory.advance(0.7)
        assert socket.ending == "aborted"

    def test_noRequest(self) -> None:
        """Input that is no request gets an answer, and the connection is closed."""
        socket = WebSocketBroker().dial()
        assert socket.exchange(b"PING\r\n\r\n").startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert socket.ending == "lost"

    def test_leaves(self) -> None:
        """A connection that ends before the handshake leaves no state."""
        broker = WebSocketBroker()
        socket = broker.dial()
        assert broker.service.handshakes
        socket.transport.hangUp()
        broker.memory.advance(0)
        assert not broker.service.handshakes

    def test_full(self) -> None:
        """A client over the limit gets the error, and is closed with the right code."""
        broker = WebSocketBroker(rest="max_connections: 1")
        broker.client()
        socket = broker.dial()
        socket.upgrade()
        assert b"-ERR 'maximum connections exceeded'" in socket.ask()
        assert socket.closeCode == 1008


class TestFrames:
    def test_compressed(self) -> None:
        """Long payloads are compressed in both directions."""
        broker = WebSocketBroker("compression: true")
        socket = broker.dial()
        socket.writer = FrameWriter(isMasked=True, isCompressed=True)
        socket.reader = FrameReader(False, Inflation(lambda: 1 << 20))
        answer = socket.upgrade(Sec_WebSocket_Extensions="permessage-deflate")
        assert b"permessage-deflate" in answer
        socket.ask()
        data = b"x" * 100_000
        said = socket.ask(CONNECT + b"SUB a 1\r\nPUB a 100000\r\n%b\r\n" % data)
        assert said == b"PONG\r\nMSG a 1 100000\r\n%b\r\n" % data

    def test_bomb(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A message that decompresses to more than the maximum payload ends the connection."""
        broker = WebSocketBroker("compression: true", "max_payload: 1000")
        socket = broker.dial()
        socket.upgrade(Sec_WebSocket_Extensions="permessage-deflate")
        socket.reader = FrameReader(False, Inflation(lambda: 1 << 20))
        bomb = FrameWriter(isMasked=True, isCompressed=True).frames(b"PING\r\n" * 10_000)
        socket.exchange(bomb)
        assert socket.ending == "lost"
        (closed,) = broker.broker.clientContext.connections.closed
        assert closed.reason == "Read Error"

    def test_browser(self) -> None:
        """A browser gets short messages."""
        broker = WebSocketBroker()
        socket = broker.client(User_Agent="Mozilla/5.0")
        written = socket.exchange(
            socket.writer.frames(b"SUB a 1\r\nPUB a 9000\r\n%b\r\n" % bytes(9000))
        )
        assert written[:4] == b"\x82\x7e\x10\x00"

    def test_unmasked(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A client must mask its frames, unless both sides agreed otherwise."""
        broker = WebSocketBroker()
        socket = broker.client()
        socket.writer = FrameWriter()
        assert socket.ask(b"PING\r\n") == b""
        assert socket.closeCode == 1002
        socket = broker.dial()
        assert b"Nats-No-Masking: true" in socket.upgrade(Nats_No_Masking="true")
        socket.writer = FrameWriter()
        assert socket.ask(CONNECT).endswith(b"PONG\r\n")

    def test_slow(self) -> None:
        """
        A client that does not read is cut when its waiting output is too large, including frames.
        """
        broker = WebSocketBroker(rest="max_payload: 1000, max_pending: 10000")
        slow, fast = broker.client(), broker.client()
        slow.ask(b"SUB a 1\r\n")
        slow.transport.taking = False
        for _ in range(200):
            fast.ask(b"PUB a 1000\r\n%b\r\n" % bytes(1000))
        assert slow.ending == "aborted"
        assert broker.broker.clientContext.connections.slow == {"Slow Consumer (Pending Bytes)": 1}

    def test_writeDeadline(self) -> None:
        """A client that does not read is cut after the write deadline."""
        broker = WebSocketBroker(rest='write_deadline: "1s"')
        slow, fast = broker.client(), broker.client()
        slow.ask(b"SUB a 1\r\n")
        slow.transport.taking = False
        for _ in range(3):
            fast.ask(b"PUB a 100000\r\n%b\r\n" % bytes(100_000))
        broker.memory.advance(3)
        assert slow.ending == "aborted"
        assert broker.broker.clientContext.connections.slow == {"Slow Consumer (Write Deadline)": 1}

    def test_closes(self) -> None:
        """A client that closes gets its code back, and is removed."""
        broker = WebSocketBroker()
        socket = broker.client()
        socket.exchange(socket.writer.close(1000, b"bye"))
        assert socket.ending == "lost"
        (closed,) = broker.broker.clientContext.connections.closed
        assert closed.reason == "Client Closed"

    def test_endOfInput(self) -> None:
        """A client that ends its input gets the remaining output, and a close frame."""
        broker = WebSocketBroker()
        socket = broker.client()
        socket.transport.send(socket.writer.frames(b"PING\r\n"))
        socket.transport.endInput() if hasattr(socket.transport, "endInput") else None
        assert socket.ask() == b"PONG\r\n"


class TestLogins:
    @pytest.mark.parametrize(
        ("cookie", "isIn"),
        [("u=bob; p=secret", True), ("u=bob; p=wrong", False), ("x=bob; p=secret", False)],
    )
    def test_cookies(self, cookie: str, isIn: bool) -> None:
        """Cookies fill in fields of CONNECT."""
        broker = WebSocketBroker(
            "user_cookie: u, pass_cookie: p",
            "authorization { users: [ {user: bob, password: secret} ] }",
        )
        socket = broker.dial()
        socket.upgrade(Cookie=cookie)
        socket.ask()
        assert (socket.ask(CONNECT) == b"PONG\r\n") is isIn

    def test_connectWins(self) -> None:
        """A field of CONNECT wins over the cookie."""
        broker = WebSocketBroker("token_cookie: t", "authorization { token: right }")
        socket = broker.dial()
        socket.upgrade(Cookie="t=right")
        socket.ask()
        said = socket.ask(b'CONNECT {"auth_token":"wrong"}\r\n')
        assert b"Authorization Violation" in said

    def test_connectionTypes(self) -> None:
        """A user may be limited to WebSocket, or to other connections."""
        users = (
            "authorization { users: [ {user: a, password: a, connection_types: [WEBSOCKET]}, "
            "{user: b, password: b, connection_types: [STANDARD]} ] }"
        )
        broker = WebSocketBroker(rest=users)
        outcomes = []
        for name in "ab":
            socket = broker.dial()
            socket.upgrade()
            connect = json.dumps({"user": name, "pass": name, "verbose": False})
            socket.ask()
            outcomes.append(socket.ask(f"CONNECT {connect}\r\nPING\r\n".encode()))
        assert outcomes[0] == b"PONG\r\n"
        assert b"Authorization Violation" in outcomes[1]

    def test_late(self) -> None:
        """The block's own timeout ends a client that does not log in."""
        broker = WebSocketBroker("authorization { user: u, password: p, timeout: 1 }")
        socket = broker.dial()
        socket.upgrade()
        broker.memory.advance(1.5)
        assert b"Authentication Timeout" in socket.ask()
        assert socket.closeCode == 1008

    def test_pings(self) -> None:
        """The PING interval is the block's own."""
        broker = WebSocketBroker('ping_interval: "3s"')
        socket = broker.client()
        broker.memory.advance(7)
        assert b"PING\r\n" in socket.ask()


class TestProxied:
    """The header of a proxy comes before the request."""

    @pytest.mark.parametrize("header", [*NAMED, *UNNAMED])
    def test_session(self, header: bytes) -> None:
        """The client has the address that the header names."""
        broker = WebSocketBroker(rest="proxy_protocol: true")
        socket = broker.dial()
        request = header + REQUEST % (b"/", b"")
        assert socket.exchange(request[:20]) == b""
        answer, _, rest = socket.exchange(request[20:]).partition(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101 ")
        socket.reader.feed(rest)
        info = json.loads(socket.ask()[5:])
        assert info["client_ip"] == NAMED.get(header, ("127.0.0.1", 0))[0]

    @pytest.mark.parametrize("header", WRONG)
    def test_malformed(self, header: bytes) -> None:
        """A malformed header of the proxy cuts the connection."""
        broker = WebSocketBroker(rest="proxy_protocol: true")
        socket = broker.dial()
        assert socket.exchange(header + REQUEST % (b"/", b"")) == b""
        assert socket.ending == "aborted"

    def test_late(self) -> None:
        """A silent connection is cut; one that has ended leaves no state."""
        broker = WebSocketBroker(rest="proxy_protocol: true")
        socket, gone = broker.dial(), broker.dial()
        gone.transport.hangUp()
        broker.memory.advance(TIMEOUT + 0.1)
        assert socket.ending == "aborted"

    def test_notAsked(self) -> None:
        """Without the setting, a proxy's header is refused like any malformed request."""
        socket = WebSocketBroker().dial()
        assert socket.exchange(FIRST + REQUEST % (b"/", b"")).startswith(b"HTTP/1.1 400")
