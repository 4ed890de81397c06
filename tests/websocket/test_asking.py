"""
Tests for L{natsbroker.websocket.asking}.
"""

from __future__ import annotations

import pytest

from natsbroker.websocket.asking import ClientHandshake, HandshakeError
from natsbroker.websocket.deflate import OFFER
from natsbroker.websocket.upgrade import Upgrade

ANSWER = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: {accept}\r\n{more}\r\n"
)

#: For a key of zeros.
ACCEPT = "ICX+Yqv66kxgM0FcWaLWlFLwTAI="


def handshake(compresses: bool = False, masks: bool = True, path: str = "") -> ClientHandshake:
    return ClientHandshake("host:7422", path, compresses, masks, lambda count: bytes(count))


def answer(more: str = "", accept: str = ACCEPT) -> bytes:
    return ANSWER.format(accept=accept, more=more).encode()


class TestRequest:
    def test_plain(self) -> None:
        """The request names the host and asks only for a WebSocket."""
        assert handshake().request == (
            b"GET /leafnode HTTP/1.1\r\nHost: host:7422\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            b"Sec-WebSocket-Version: 13\r\n\r\n"
        )

    def test_options(self) -> None:
        """Headers ask for compression without context takeover, and for no masking."""
        asked = handshake(True, False, "/a/b/").request
        assert asked.startswith(b"GET /a/b/leafnode HTTP/1.1\r\n")
        assert f"Sec-WebSocket-Extensions: {OFFER}\r\n".encode() in asked
        assert b"Nats-No-Masking: true\r\n" in asked


class TestAnswer:
    def test_agrees(self) -> None:
        """The answer may arrive in pieces, followed by frames."""
        shaking = handshake()
        data = answer() + b"\x82\x01"
        shaking.received(data[:50])
        first = shaking.upgrade
        assert first is None
        shaking.received(data[50:])
        assert shaking.upgrade == Upgrade(isLeafnode=True)
        assert shaking.rest == b"\x82\x01"

    def test_options(self) -> None:
        """An extension that the peer agrees to is used."""
        shaking = handshake(True, False)
        shaking.received(answer(f"Sec-WebSocket-Extensions: {OFFER}\r\nNats-No-Masking: true\r\n"))
        assert shaking.upgrade == Upgrade(isLeafnode=True, isCompressed=True, isMasked=False)

    def test_declines(self) -> None:
        """An extension that the peer does not agree to is not used."""
        shaking = handshake(True, False)
        shaking.received(answer())
        assert shaking.upgrade == Upgrade(isLeafnode=True)

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (answer(accept="x"), "invalid websocket connection"),
            (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "invalid websocket"),
            (answer().replace(b"Upgrade: websocket", b"Upgrade: other"), "invalid websocket"),
            (b"INFO {}\r\n\r\n", "^the answer is not HTTP$"),
            (answer("Sec-WebSocket-Extensions: permessage-deflate\r\n"), "compression negotiation"),
        ],
    )
    def test_refuses(self, data: bytes, problem: str) -> None:
        """An unexpected answer is an error."""
        with pytest.raises(HandshakeError, match=problem):
            handshake(True).received(data)

    def test_unasked(self) -> None:
        """Compression that was not asked for is an error."""
        with pytest.raises(HandshakeError, match="compression negotiation"):
            handshake().received(answer(f"Sec-WebSocket-Extensions: {OFFER}\r\n"))
