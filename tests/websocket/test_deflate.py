"""
Tests for L{natsbroker.websocket.deflate}.
"""

from __future__ import annotations

import zlib

import pytest
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, RsvBits

from natsbroker.websocket.deflate import Inflation, deflated

_COMPRESSED = RsvBits(True, False, False)
_PLAIN = RsvBits(False, False, False)


def inflate(inflation: Inflation, data: bytes, size: int = 0) -> bytes | CloseReason:
    """
    @param size: of the pieces that the data comes in; 0 for all at once.
    """
    proto = FrameProtocol(False, [])
    assert inflation.frame_inbound_header(proto, Opcode.BINARY, _COMPRESSED, 0) == _COMPRESSED
    whole = b""
    for start in range(0, len(data), size or len(data)):
        piece = data[start : start + (size or len(data))]
        refusal = inflation.frame_inbound_payload_data(proto, piece)
        if isinstance(refusal, CloseReason):
            return refusal
        whole += refusal
    last = inflation.frame_inbound_complete(proto, True)
    if isinstance(last, CloseReason):
        return last
    return whole + (last or b"")


def test_independent() -> None:
    """
    Each message is compressed independently, so that zlib decompresses it without earlier ones.
    """
    for _ in range(2):
        data = deflated(b"PING\r\n" * 50)
        assert zlib.decompressobj(-15).decompress(data + b"\0\0\xff\xff") == b"PING\r\n" * 50


@pytest.mark.parametrize("size", [0, 1, 7])
def test_inflates(size: int) -> None:
    """A message is decompressed correctly, whatever pieces it arrives in."""
    assert inflate(Inflation(lambda: 1000), deflated(b"x" * 1000), size) == b"x" * 1000


def test_limit() -> None:
    """A message of exactly the limit is accepted; one byte more ends the connection."""
    inflation = Inflation(lambda: 1000)
    assert inflate(inflation, deflated(b"x" * 1001)) is CloseReason.MESSAGE_TOO_BIG
    assert inflate(inflation, deflated(b"x" * 1000)) == b"x" * 1000


def test_bomb() -> None:
    """A message that decompresses to a huge size is decompressed only up to the limit."""
    made: list[int] = []

    class Counting:
        def __init__(self) -> None:
            self.inner = zlib.decompressobj(-15)

        def decompress(self, data: bytes, most: int) -> bytes:
            inflated = self.inner.decompress(data, most)
            made.append(len(inflated))
            return inflated

    inflation = Inflation(lambda: 4096)
    proto = FrameProtocol(False, [])
    inflation.frame_inbound_header(proto, Opcode.BINARY, _COMPRESSED, 0)
    inflation._inflater = Counting()
    bomb = deflated(b"\0" * 10_000_000)
    refusal = inflation.frame_inbound_payload_data(proto, bomb)
    assert refusal is CloseReason.MESSAGE_TOO_BIG
    assert sum(made) == 4097


def test_damaged() -> None:
    """A message that is no deflate stream is an invalid payload."""
    assert inflate(Inflation(lambda: 10), b"\xff" * 20) is CloseReason.INVALID_FRAME_PAYLOAD_DATA


def test_plain() -> None:
    """A message that is not marked as compressed is passed on unchanged."""
    inflation = Inflation(lambda: 1)
    proto = FrameProtocol(False, [])
    inflation.frame_inbound_header(proto, Opcode.BINARY, _PLAIN, 3)
    assert inflation.frame_inbound_payload_data(proto, b"abc") == b"abc"
    assert inflation.frame_inbound_complete(proto, True) is None


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.CONTINUATION])
def test_onlyFirst(opcode: Opcode) -> None:
    """Only the first frame of a message may be marked as compressed."""
    reason = Inflation(lambda: 1).frame_inbound_header(
        FrameProtocol(False, []), opcode, _COMPRESSED, 0
    )
    assert reason is CloseReason.PROTOCOL_ERROR


def test_controlBetween() -> None:
    """A control frame between the frames of a compressed message is passed on unchanged."""
    inflation = Inflation(lambda: 1000)
    proto = FrameProtocol(False, [])
    data = deflated(b"y" * 500)
    inflation.frame_inbound_header(proto, Opcode.BINARY, _COMPRESSED, 0)
    first = inflation.frame_inbound_payload_data(proto, data[:3])
    inflation.frame_inbound_complete(proto, False)
    inflation.frame_inbound_header(proto, Opcode.PING, _PLAIN, 2)
    assert inflation.frame_inbound_payload_data(proto, b"hi") == b"hi"
    assert inflation.frame_inbound_complete(proto, True) is None
    inflation.frame_inbound_header(proto, Opcode.CONTINUATION, _PLAIN, 0)
    second = inflation.frame_inbound_payload_data(proto, data[3:])
    third = inflation.frame_inbound_complete(proto, True)
    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    assert first + second + bytes(third or b"") == b"y" * 500
