"""
Requests that begin a WebSocket, or are refused, and the ends of connections: both have the same
bytes as with nats-server.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from natsbroker.websocket.deflate import Inflation
from natsbroker.websocket.frames import ControlFrame, FrameReader, FrameWriter
from tests.interop.servers import OURS_FAST, PATIENCE, REAL
from tests.interop.websocket.listeners import PLAIN, WebSocketServer
from tests.websocket.test_upgrade import asking

_BLOCK = f"""
    {PLAIN}, compression: true, origins: ["http://good"], headers {{ X-One: "1" }}
    advertise: "a:1", handshake_timeout: "3s", user_cookie: x, authorization {{ timeout: 0.3 }}
"""
_REST = "max_payload: 1000, authorization { users: [ {user: u, password: p} ], timeout: 1 }"

REQUESTS: dict[str, bytes] = {
    "accepted": asking(),
    "no upgrade": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST": asking(line="POST / HTTP/1.1"),
    "POST with a body": asking({"Content-Length": "3"}, "POST / HTTP/1.1") + b"abc",
    "HEAD": asking(line="HEAD / HTTP/1.1"),
    "MQTT": asking(line="GET /mqtt HTTP/1.1"),
    "Upgrade": asking({"Upgrade": None}),
    "Connection": asking({"Connection": None}),
    "Connection: close": asking({"Connection": "close"}),
    "no key": asking({"Sec-WebSocket-Key": None}),
    "wrong key": asking({"Sec-WebSocket-Key": "abc="}),
    "version": asking({"Sec-WebSocket-Version": "12"}),
    "origin": asking({"Origin": "http://evil"}),
    "good origin": asking({"Origin": "http://good"}),
    "no host": asking({"Host": None}),
    "empty host": asking({"Host": ""}),
    "two hosts": asking({"host": "b"}),
    "TLS": b"\x16\x03\x01\x00\r\n\r\n",
    "NATS": b"CONNECT {}\r\nPING\r\n\r\n",
    "HTTP/1.0": asking(line="GET / HTTP/1.0"),
    "HTTP/0.9": asking(line="GET / HTTP/0.9"),
    "no slash": asking(line="GET foo HTTP/1.1"),
    "absolute": asking(line="GET http://localhost/ HTTP/1.1"),
    "no header": b"GET / HTTP/1.1\r\nHost: x\r\nfoo bar\r\n\r\n",
    "control byte": asking({"X": "a\x01b"}),
    "no masking": asking({"Nats-No-Masking": "true"}),
    "compression": asking({"Sec-WebSocket-Extensions": "permessage-deflate"}),
    "early": asking() + b"\x81\x80\0\0\0\0",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[WebSocketServer]]:
    directory = tmp_path_factory.mktemp("websocket")
    made = [
        WebSocketServer(flavour, directory, flavour.name, _BLOCK, rest=_REST)
        for flavour in (REAL, OURS_FAST)
    ]
    try:
        yield [server.start() for server in made]
    finally:
        for server in made:
            server.stop()


def _connect(server: WebSocketServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.webSocketPort), PATIENCE)


def _head(server: WebSocketServer, request: bytes) -> bytes:
    """The answer up to the end of its headers, without the time, and its body if there is one."""
    with _connect(server) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer and (data := connection.recv(65536)):
            answer += data
        head, end, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        isBodyless = request.startswith(b"HEAD")
        while not isBodyless and length and len(body) < int(length[1]):
            body += connection.recv(65536)
        if not length and b" 101 " not in head:
            while data := connection.recv(65536):
                body += data
    shown = body if b" 101 " not in head else b""
    return re.sub(rb"Date: [^\r]*", b"Date:", head) + end + shown


def test_answers(servers: list[WebSocketServer]) -> None:
    """Each HTTP request has the same answer, byte for byte except for the time."""
    for name, request in REQUESTS.items():
        real, ours = (_head(server, request) for server in servers)
        assert ours == real, name


LOGIN = b'CONNECT {"user":"u","pass":"p","verbose":false}\r\n'

_WRITER = FrameWriter(isMasked=True)

ENDS: dict[str, bytes] = {
    "wrong login": _WRITER.frames(b'CONNECT {"user":"u","pass":"x"}\r\n'),
    "no login": b"",
    "payload": _WRITER.frames(LOGIN + b"PUB a 2000\r\n"),
    "closed": _WRITER.frames(LOGIN) + _WRITER.close(1000, b"bye"),
    "closed without a code": _WRITER.frames(LOGIN) + _WRITER.close(None),
}

VIOLATIONS: dict[str, bytes] = {
    "no operation": _WRITER.frames(LOGIN + b"BOGUS\r\n"),
    "no mask": FrameWriter().frames(LOGIN),
    "reserved": b"\xa2\x80\0\0\0\0",
    "no opcode": b"\x83\x80\0\0\0\0",
    "long control frame": b"\x89\xfe\x00\x7e" + bytes(4 + 126),
    "control frame in parts": b"\x09\x80\0\0\0\0",
    "continuation of nothing": b"\x80\x80\0\0\0\0",
    "message in a message": b"\x02\x80\0\0\0\0\x82\x80\0\0\0\0",
    "wrong close code": _WRITER.close(1005),
}


def _end(server: WebSocketServer, data: bytes) -> tuple[list[bytes], int | None]:
    """The lines before the end, except INFO, and the code of the close frame."""
    with _connect(server) as connection:
        connection.sendall(asking())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(65536)
        if data:
            connection.sendall(data)
        reader = FrameReader(False, Inflation(lambda: 1 << 20))
        reader.feed(answer.partition(b"\r\n\r\n")[2])
        while more := connection.recv(65536):
            reader.feed(more)
    plain, code = b"", None
    while (item := reader.next()) is not None:
        if isinstance(item, ControlFrame):
            code = item.code
        else:
            plain += item
    return [line for line in plain.splitlines() if not line.startswith(b"INFO")], code


def test_ends(servers: list[WebSocketServer]) -> None:
    """Each end of a connection has the same last lines and the same close code."""
    for name, data in ENDS.items():
        real, ours = (_end(server, data) for server in servers)
        assert ours == real, name


def test_violations(servers: list[WebSocketServer]) -> None:
    """Input that is not WebSocket, or not the NATS protocol, ends with the right close code."""
    for name, data in VIOLATIONS.items():
        (_, real), (_, ours) = (_end(server, data) for server in servers)
        assert (ours, real in (ours, None)) == (1002, True), name


def test_page(servers: list[WebSocketServer]) -> None:
    """/varz shows the websocket block as nats-server does."""
    pages = []
    for server in servers:
        page = server.monitor("/varz")["websocket"]
        assert isinstance(page, dict)
        assert page.pop("port") == server.webSocketPort
        pages.append(page)
    assert pages[0] == pages[1]
