"""
Tests for L{natsbroker.websocket.frames}: each with the compiled lane, if there is one, and without.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol, Opcode

from natsbroker import hot
from natsbroker.websocket.deflate import Inflation, deflated
from natsbroker.websocket.frames import (
    ControlFrame,
    FrameReader,
    FrameWriter,
    FramingError,
    masked,
)

KEY = b"\x01\x80\xff\x10"


@pytest.fixture(autouse=True, params=["lane", "pure"])
def lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.setattr(hot, "readFrames", None)
        monkeypatch.setattr(hot, "maskBytes", None)
    elif hot.readFrames is None:
        pytest.skip("the lane is not compiled")


def frame(first: int, payload: bytes, key: bytes = KEY) -> bytes:
    """
    A frame with a mask; without one if the key is empty.
    """
    bit = 0x80 if key else 0
    length = len(payload)
    if length < 126:
        header = bytes((first, bit | length))
    elif length < 65536:
        header = struct.pack("!BBH", first, bit | 126, length)
    else:
        header = struct.pack("!BBQ", first, bit | 127, length)
    if not key:
        return header + payload
    return header + key + bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))


def readAll(reader: FrameReader, data: bytes, size: int = 0) -> tuple[bytes, list[ControlFrame]]:
    """
    @param size: of the pieces in which the data comes; 0 for all at once.
    """
    plain, controls = b"", []
    for start in range(0, len(data), size or len(data)):
        reader.feed(data[start : start + (size or len(data))])
        while (item := reader.next()) is not None:
            if isinstance(item, bytes):
                plain += item
            else:
                controls.append(item)
    return plain, controls


class TestReader:
    @pytest.mark.parametrize("size", [0, 1, 3, 5])
    @pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 1000, 65535, 65536])
    def test_lengths(self, length: int, size: int) -> None:
        """A frame of any length is read correctly, whatever pieces it arrives in."""
        if size and length > 1000:
            size *= 1000
        payload = bytes(i % 251 for i in range(length))
        data = frame(0x82, payload) + frame(0x82, b"PING\r\n")
        assert readAll(FrameReader(True), data, size) == (payload + b"PING\r\n", [])

    def test_text(self) -> None:
        """A text message is accepted as bytes, even if they are not UTF-8."""
        assert readAll(FrameReader(True), frame(0x81, b"\xff\xfe")) == (b"\xff\xfe", [])

    @pytest.mark.parametrize("first", [0x81, 0x01, 0xC1])
    def test_noText(self, first: int) -> None:
        """
        Where the protocol above forbids text, a text message ends the connection behind the bytes
        before it.
        """
        reader = FrameReader(True, takesText=False)
        reader.feed(frame(0x82, b"ab") + frame(0x02, b"c") + frame(0x80, b"d") + frame(first, b"x"))
        came = b""
        with pytest.raises(FramingError) as caught:
            while isinstance(plain := reader.next(), bytes):
                came += plain
        assert (came, caught.value.code) == (b"abcd", 1003)

    @pytest.mark.parametrize("size", [0, 1])
    def test_fragments(self, size: int) -> None:
        """A message in several frames, with control frames between, is one stream of bytes."""
        data = (
            frame(0x02, b"ab")
            + frame(0x89, b"ping")
            + frame(0x00, b"")
            + frame(0x8A, b"")
            + frame(0x80, b"cd")
            + frame(0x82, b"ef")
        )
        plain, controls = readAll(FrameReader(True), data, size)
        assert plain == b"abcdef"
        assert controls == [ControlFrame(Opcode.PING, b"ping"), ControlFrame(Opcode.PONG)]

    def test_unmasked(self) -> None:
        """Unmasked frames are accepted if both sides agreed on it."""
        data = frame(0x82, b"abc", b"") + frame(0x89, b"x", b"")
        assert readAll(FrameReader(False), data) == (b"abc", [ControlFrame(Opcode.PING, b"x")])

    @pytest.mark.parametrize(
        ("payload", "control"),
        [
            (b"", ControlFrame(Opcode.CLOSE)),
            (b"\x03\xe8", ControlFrame(Opcode.CLOSE, b"", 1000)),
            (b"\x0f\xa0bye", ControlFrame(Opcode.CLOSE, b"bye", 4000)),
        ],
    )
    def test_close(self, payload: bytes, control: ControlFrame) -> None:
        """A close frame may have a code, followed by a reason."""
        assert readAll(FrameReader(True), frame(0x88, payload)) == (b"", [control])

    @pytest.mark.parametrize(
        ("data", "code"),
        [
            (frame(0x82, b"abc", b""), 1002),
            (frame(0x83, b"abc"), 1002),
            (frame(0x92, b"abc"), 1002),
            (frame(0xA2, b"abc"), 1002),
            (frame(0xC2, b"abc"), 1002),
            (frame(0x09, b"abc"), 1002),
            (frame(0x89, b"x" * 126), 1002),
            (frame(0x80, b"abc"), 1002),
            (frame(0x02, b"abc") + frame(0x82, b"abc"), 1002),
            (frame(0x88, b"\x03"), 1002),
            (frame(0x88, b"\x03\xed"), 1002),
            (frame(0x88, b"\x07\xd0"), 1002),
            (frame(0x88, b"\x03\xe8\xff"), 1007),
            (b"\x82\xff" + b"\x80" + b"\0" * 7 + KEY, 1002),
            (b"\x82\xfe\x00\x05" + KEY + b"abcde", 1002),
        ],
    )
    def test_violations(self, data: bytes, code: int) -> None:
        """A frame that RFC 6455 forbids ends the connection with the right code."""
        with pytest.raises(FramingError) as caught:
            readAll(FrameReader(True), data)
        assert caught.value.code == code

    def test_compressed(self) -> None:
        """Compressed messages, in one frame or several, are read among others."""
        data = deflated(b"x" * 5000)
        stream = (
            frame(0xC2, data) + frame(0x82, b"abc") + frame(0x42, data[:5]) + frame(0x80, data[5:])
        )
        plain, _ = readAll(FrameReader(True, Inflation(lambda: 5000)), stream)
        assert plain == b"x" * 5000 + b"abc" + b"x" * 5000

    def test_tooMuch(self) -> None:
        """A compressed message beyond the limit ends the connection."""
        reader = FrameReader(True, Inflation(lambda: 4999))
        with pytest.raises(FramingError) as caught:
            readAll(reader, frame(0xC2, deflated(b"x" * 5000)))
        assert caught.value.code == 1009

    @given(
        st.lists(st.tuples(st.binary(max_size=300), st.booleans()), max_size=6),
        st.integers(1, 400),
    )
    def test_cuts(self, messages: list[tuple[bytes, bool]], size: int) -> None:
        """The bytes are the same, however messages are divided into frames and reads."""
        data = b""
        for payload, isCut in messages:
            if isCut:
                half = len(payload) // 2
                data += frame(0x02, payload[:half]) + frame(0x80, payload[half:])
            else:
                data += frame(0x82, payload)
        whole = b"".join(payload for payload, _ in messages)
        assert readAll(FrameReader(True), data, size) == (whole, [])


def received(data: bytes, isClient: bool) -> list[tuple[bool, bytes]]:
    """
    The frames that wsproto finds, as it reads them: whether the message ends, and the payload.
    """
    protocol = FrameProtocol(isClient, [])
    protocol.receive_bytes(data)
    return [
        (part.message_finished, bytes(part.payload))
        for part in protocol.received_frames()
        if isinstance(part.payload, (bytes, bytearray))
    ]


class TestWriter:
    @pytest.mark.parametrize("length", [1, 125, 126, 65535, 65536])
    def test_lengths(self, length: int) -> None:
        """All data that is flushed at once is one frame."""
        data = b"x" * length
        assert received(FrameWriter().frames(data), True) == [(True, data)]

    def test_masks(self) -> None:
        """Frames to a server are masked, each with its own key."""
        writer = FrameWriter(isMasked=True)
        first, second = writer.frames(b"abcdef"), writer.frames(b"abcdef")
        assert first != second
        assert received(first + second, False) == [(True, b"abcdef"), (True, b"abcdef")]

    def test_browsers(self) -> None:
        """Messages to browsers have a limited length."""
        messages = received(FrameWriter(longest=10).frames(b"x" * 25), True)
        assert messages == [(True, b"x" * 10), (True, b"x" * 10), (True, b"x" * 5)]

    def test_short(self) -> None:
        """A short message is not compressed."""
        data = FrameWriter(isCompressed=True).frames(b"x" * 64)
        assert data[0] == 0x82

    @pytest.mark.parametrize(("longest", "isWhole"), [(0, False), (30, False), (30, True)])
    def test_compresses(self, longest: int, isWhole: bool) -> None:
        """A peer decompresses what was written; only the first frame of a message is marked."""
        data = bytes(i * 7 % 251 for i in range(300)) * 300
        written = FrameWriter(
            isMasked=True, isCompressed=True, longest=longest, isWhole=isWhole
        ).frames(data)
        plain, _ = readAll(FrameReader(True, Inflation(lambda: 1 << 16)), written)
        assert plain == data
        isCut = bool(longest) and not isWhole
        assert (written[0] == 0x42) is isCut
        assert len(written) < len(data)

    @pytest.mark.parametrize(
        ("code", "reason", "payload"),
        [
            (None, b"ignored", b""),
            (1008, b"why", b"\x03\xf0why"),
            (1011, b"x" * 200, b"\x03\xf3" + b"x" * 120 + b"..."),
        ],
    )
    def test_close(self, code: int | None, reason: bytes, payload: bytes) -> None:
        """A close frame has a code and a reason that fits, or neither."""
        assert FrameWriter().close(code, reason) == bytes((0x88, len(payload))) + payload

    def test_control(self) -> None:
        """A PONG carries the payload of its PING."""
        assert FrameWriter().control(Opcode.PONG, b"ab") == b"\x8a\x02ab"


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 64, 1001])
def test_masked(length: int) -> None:
    """A mask repeats every four bytes; applying it again removes it."""
    data = bytes(i % 256 for i in range(length))
    assert masked(data, KEY) == bytes(byte ^ KEY[i % 4] for i, byte in enumerate(data))
    assert masked(masked(data, KEY), KEY) == data
