"""
Tests for L{natsbroker.websocket.upgrade}.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.websocket.origins import OriginCheck
from natsbroker.websocket.upgrade import (
    HandshakeTerms,
    ServerHandshake,
    Upgrade,
    acceptKey,
    offersDeflate,
)

DATE = b"Thu, 01 Jan 1970 00:00:00 GMT"

HEADERS = {
    "Host": "localhost:80",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}

AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)


def asking(changes: dict[str, str | None] | None = None, line: str = "GET / HTTP/1.1") -> bytes:
    """A request. A header whose value is C{None} is left out."""
    headers: dict[str, str | None] = {**HEADERS, **(changes or {})}
    lines = [line, *(f"{name}: {value}" for name, value in headers.items() if value is not None)]
    return "".join(f"{header}\r\n" for header in [*lines, ""]).encode()


class Handshake(ServerHandshake):
    def __init__(self, isTLS: bool = False, **terms: Any) -> None:
        self.reports: list[str] = []
        super().__init__(HandshakeTerms(**terms), isTLS, DATE.decode, self.reports.append)


def upgraded(changes: dict[str, str | None], line: str = "GET / HTTP/1.1", **terms: Any) -> Upgrade:
    handshake = Handshake(**terms)
    assert handshake.received(asking(changes, line)).startswith(AGREED)
    assert handshake.upgrade is not None
    return handshake.upgrade


def test_acceptKey() -> None:
    """The example of RFC 6455."""
    assert acceptKey(b"dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


class TestAccepting:
    def test_plain(self) -> None:
        """The answer has the key, and nothing that the request did not ask for."""
        handshake = Handshake(compression=True)
        assert handshake.received(asking()) == AGREED + b"\r\n"
        assert handshake.upgrade == Upgrade()
        assert not handshake.isOver
        assert handshake.reports == []

    def test_pieces(self) -> None:
        """A request may arrive byte by byte."""
        handshake = Handshake()
        answers = [handshake.received(bytes([byte])) for byte in asking()]
        assert b"".join(answers) == AGREED + b"\r\n"
        assert answers[-1]

    def test_everything(self) -> None:
        """Compression, no masking and configured headers are in nats-server's order."""
        handshake = Handshake(compression=True, headers={"X-One": "1"})
        request = asking(
            {
                "Sec-WebSocket-Extensions": "x-other, Permessage-Deflate; client_max_window_bits",
                "Nats-No-Masking": "true",
                "Connection": "keep-alive, Upgrade",
            }
        )
        assert handshake.received(request) == (
            AGREED + b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
            b"client_no_context_takeover\r\nNats-No-Masking: true\r\nX-One: 1\r\n\r\n"
        )
        assert handshake.upgrade == Upgrade(isCompressed=True, isMasked=False)

    def test_noCompression(self) -> None:
        """Compression is not agreed on if the settings do not offer it."""
        assert not upgraded({"Sec-WebSocket-Extensions": "permessage-deflate"}).isCompressed

    @pytest.mark.parametrize(
        ("path", "isLeafnode"),
        [("/", False), ("/leafnode", True), ("/some/leafnode?x=/y", True), ("/leafnodes", False)],
    )
    def test_paths(self, path: str, isLeafnode: bool) -> None:
        """The end of the path distinguishes leafnodes from clients."""
        assert upgraded({}, f"GET {path} HTTP/1.1").isLeafnode is isLeafnode

    def test_mqtt(self) -> None:
        """Clients of MQTT have a path of their own, and the answer names their protocol."""
        handshake = Handshake(hasMQTT=True, compression=True, headers={"X-One": "1"})
        changes: dict[str, str | None] = {
            "Sec-WebSocket-Extensions": "permessage-deflate",
            "Sec-WebSocket-Protocol": "mqttv3.1, mqtt",
        }
        answer = handshake.received(asking(changes, "GET /some/mqtt HTTP/1.1"))
        assert answer.startswith(AGREED + b"Sec-WebSocket-Extensions: ")
        assert answer.endswith(b"\r\nSec-Websocket-Protocol: mqtt\r\nX-One: 1\r\n\r\n")
        assert handshake.upgrade == Upgrade(isCompressed=True, isMQTT=True)

    def test_otherProtocols(self) -> None:
        """The answer to clients of NATS names no protocol, even if one of them asks for it."""
        handshake = Handshake(hasMQTT=True)
        changes: dict[str, str | None] = {"Sec-WebSocket-Protocol": "mqtt"}
        assert handshake.received(asking(changes)) == AGREED + b"\r\n"
        assert handshake.upgrade == Upgrade()

    def test_noCookiesForMQTT(self) -> None:
        """Cookies of clients of MQTT are ignored, as in nats-server."""
        line, known = "GET /mqtt HTTP/1.1", {"user": "user"}
        upgrade = upgraded({"Cookie": "user=x"}, line, cookies=known, hasMQTT=True)
        assert not upgrade.credentials

    def test_cookies(self) -> None:
        """Configured cookies become fields of CONNECT. Other cookies are ignored."""
        cookie = 'a=1; user="bob"; other=x; token=t=t; flag'
        known = {"user": "user", "token": "auth_token", "jwt": "jwt"}
        credentials = upgraded({"Cookie": cookie}, cookies=known).credentials
        assert dict(credentials) == {"user": "bob", "auth_token": "t=t"}

    def test_noCookiesForLeafnodes(self) -> None:
        """Cookies of leafnodes are ignored."""
        line = "GET /leafnode HTTP/1.1"
        assert not upgraded({"Cookie": "user=x"}, line, cookies={"user": "user"}).credentials

    def test_secrets(self) -> None:
        """Credentials are not in the representation of an upgrade."""
        upgrade = upgraded({"Cookie": "t=canary"}, cookies={"t": "auth_token"})
        assert "canary" not in repr(upgrade)

    @pytest.mark.parametrize(
        ("text", "address"), [("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("a, b", ""), ("x", "")]
    )
    def test_forwarded(self, text: str, address: str) -> None:
        """One address from a proxy is accepted; anything else is ignored."""
        assert upgraded({"X-Forwarded-For": text}).forwardedFor == address

    @pytest.mark.parametrize(
        ("agent", "isBrowser", "isSafari"),
        [
            ("Go-http-client/1.1", False, False),
            ("Mozilla/5.0 Chrome/1 Safari/537", True, False),
            ("Mozilla/5.0 Version/17 Safari/605", True, True),
        ],
    )
    def test_browsers(self, agent: str, isBrowser: bool, isSafari: bool) -> None:
        """Browsers are recognized by their user agent."""
        upgrade = upgraded({"User-Agent": agent})
        assert (upgrade.isBrowser, upgrade.isSafari) == (isBrowser, isSafari)

    def test_early(self) -> None:
        """Frames that arrive with the request, before the answer, end the connection."""
        handshake = Handshake()
        assert handshake.received(asking() + b"\x82") == b""
        assert handshake.isOver
        assert handshake.upgrade is None


def refusal(status: str, extra: bytes = b"") -> bytes:
    body = status.partition(" ")[2].encode() + b"\n"
    return (
        b"HTTP/1.1 %b\r\nContent-Type: text/plain; charset=utf-8\r\nSec-Websocket-Version: 13\r\n"
        b"X-Content-Type-Options: nosniff\r\nDate: %b\r\nContent-Length: %d\r\n%b\r\n%b"
        % (status.encode(), DATE, len(body), extra, body)
    )


class TestRefusing:
    @pytest.mark.parametrize("path", ["/", "/mqtt"])
    def test_origins(self, path: str) -> None:
        """The rules for origins hold on all paths."""
        handshake = Handshake(
            hasMQTT=True, origins=OriginCheck.fromSettings(False, ["http://good"])
        )
        request = asking({"Origin": "http://evil"}, f"GET {path} HTTP/1.1")
        assert handshake.received(request) == refusal("403 Forbidden")

    @pytest.mark.parametrize(
        ("changes", "line", "status", "reason"),
        [
            ({}, "POST / HTTP/1.1", "405 Method Not Allowed", "request method must be GET"),
            ({}, "GET /mqtt HTTP/1.1", "404 Not Found", "mqtt websocket endpoint not enabled"),
            ({"Upgrade": None}, "", "400 Bad Request", "invalid value for header 'Upgrade'"),
            ({"Connection": "x"}, "", "400 Bad Request", "invalid value for header 'Connection'"),
            ({"Sec-WebSocket-Key": None}, "", "400 Bad Request", "key missing"),
            ({"Sec-WebSocket-Key": "abc="}, "", "400 Bad Request", "invalid websocket key"),
            ({"Sec-WebSocket-Key": "YWJj"}, "", "400 Bad Request", "invalid websocket key"),
            ({"Sec-WebSocket-Version": "12"}, "", "400 Bad Request", "invalid version"),
            (
                {"Origin": "http://evil"},
                "",
                "403 Forbidden",
                "origin not allowed: not in the allowed list",
            ),
            (
                {"Sec-WebSocket-Origin": "http://evil"},
                "",
                "403 Forbidden",
                "origin not allowed: not in the allowed list",
            ),
        ],
    )
    def test_reasons(
        self, changes: dict[str, str | None], line: str, status: str, reason: str
    ) -> None:
        """Each fault has its status; the reason is only logged."""
        handshake = Handshake(origins=OriginCheck.fromSettings(False, ["http://good"]))
        assert handshake.received(asking(changes, line or "GET / HTTP/1.1")) == refusal(status)
        assert handshake.reports == [f"websocket handshake error: {reason}"]
        assert handshake.upgrade is None

    @pytest.mark.parametrize(
        ("header", "value"),
        [("Content-Length", "2"), ("Content-Length", "002"), ("Transfer-Encoding", "Chunked")],
    )
    def test_body(self, header: str, value: str) -> None:
        """
        A request with a body is refused before the body arrives, and the body is not taken for a
        request or frames.
        """
        handshake = Handshake()
        assert handshake.received(asking({header: value})) == refusal("400 Bad Request")
        assert handshake.isOver
        assert handshake.received(asking()) == b""
        assert handshake.upgrade is None
        assert handshake.reports == ["websocket handshake error: request with a body"]

    def test_noBody(self) -> None:
        """A request with a content length of 0 has no body."""
        assert upgraded({"Content-Length": "0"}) == Upgrade()

    @pytest.mark.parametrize("more", [1000 - len(HEADERS), 1001 - len(HEADERS)])
    def test_headers(self, more: int) -> None:
        """A request may have a thousand headers, and not one more."""
        handshake = Handshake()
        answer = handshake.received(asking({f"X{number}": "" for number in range(more)}))
        isTooMany = len(HEADERS) + more > 1000
        assert answer.startswith(b"HTTP/1.1 431 " if isTooMany else AGREED)
        assert handshake.isOver is isTooMany

    @pytest.mark.parametrize("value", ["\x01", "a\x1bb", "\x7f", "\x0b", "\x00"])
    def test_control(self, value: str) -> None:
        """Control bytes in a header are refused."""
        handshake = Handshake()
        assert handshake.received(asking({"X": f"a{value}b"})).startswith(b"HTTP/1.1 400 ")
        assert handshake.isOver
        assert handshake.upgrade is None

    @pytest.mark.parametrize(
        "data",
        [
            asking({"Cookie": "token=canary\x01"}),
            asking({"Cookie": "token=canary\x00"}),
            asking({"Cookie\x01": "token=canary"}),
            asking({"Cookie token=canary": ""}),
            asking({"Content-Length": "canary"}),
            asking({"Transfer-Encoding": "canary"}),
            asking({"Origin": "canary"}),
            asking({"Host": "canary:canary", "Origin": "http://good"}),
            asking({"Sec-WebSocket-Key": "canary"}),
            asking(line="GET /?token=canary HTTP/1.1 x"),
            asking(line="canary"),
            b"GET / HTTP/1.1\r\n canary\r\n\r\n",
        ],
    )
    def test_secrets(self, data: bytes) -> None:
        """A secret that a client sent does not reach the log, nor any answer."""
        handshake = Handshake(origins=OriginCheck.fromSettings(True, ["http://good"]))
        answer = handshake.received(data)
        assert answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 501 ")
        assert handshake.reports
        assert "canary" not in f"{answer!r}{handshake.reports}"

    def test_asksAgain(self) -> None:
        """After a refusal, the client may send another request."""
        handshake = Handshake()
        assert handshake.received(asking({"Sec-WebSocket-Version": "1"})).startswith(
            b"HTTP/1.1 400"
        )
        assert handshake.received(asking()) == AGREED + b"\r\n"

    def test_closes(self) -> None:
        """A client that wants to close after its request is closed after the refusal."""
        handshake = Handshake()
        answer = handshake.received(asking({"Connection": "close"}))
        assert answer == refusal("400 Bad Request", b"Connection: close\r\n")
        assert handshake.isOver

    @pytest.mark.parametrize(
        ("data", "status"),
        [
            (b"\x16\x03\x01\x00\r\n\r\n", b"400 Bad Request"),
            (b"CONNECT {}\r\n\r\n", b"400 Bad Request"),
            (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),
            (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70_000, b"431 Request Header"),
        ],
    )
    def test_noRequest(self, data: bytes, status: bytes) -> None:
        """Input that is too long, or not a request, gets one answer, and the connection ends."""
        handshake = Handshake()
        answer = handshake.received(data)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert b"Connection: close\r\n" in answer
        assert handshake.isOver
        assert len(handshake.reports) == 1


@pytest.mark.parametrize(
    ("values", "offered"),
    [
        ([], (False, False)),
        (["x-webkit-deflate-frame"], (False, False)),
        (["permessage-deflate"], (True, False)),
        (
            [
                "a",
                "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
            ],
            (True, True),
        ),
    ],
)
def test_offersDeflate(values: list[str], offered: tuple[bool, bool]) -> None:
    """Compression is offered both with and without context takeover."""
    assert offersDeflate(values) == offered
