"""
WebSocket frames without a transport. They convert bytes of the connection into bytes of the NATS
protocol, and back.

The bytes of NATS may be cut into messages and frames anywhere. wsproto reads the frames. In front
of it, the compiled lane takes most of the traffic: data frames that are neither compressed nor
parts of a message. Text is taken as bytes, as nats-server does, except where the protocol above
forbids it.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any

from wsproto.frame_protocol import FrameProtocol, Opcode, ParseFailed

from natsbroker import hot
from natsbroker.websocket.deflate import THRESHOLD, Inflation, deflated

#: The bytes of a frame that are decoded at once, and that are compressed in one message. Peers
#: refuse a message that is longer than their C{max_payload}.
_PIECE = 1 << 16

#: The length of frames for browsers, as in nats-server.
FOR_BROWSERS = 4096

_FIN = 0x80
_COMPRESSED = 0x40
_MASKED = 0x80
_MOST_CONTROL = 125
_TWO, _EIGHT = 126, 127
_WIDTHS = {_TWO: 2, _EIGHT: 8}


class FramingError(Exception):
    """Input that is not a WebSocket, with the code for the close frame."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class ControlFrame:
    """A control frame: a PING's or PONG's C{payload}, or a close frame's C{code}, if any."""

    opcode: Opcode
    payload: bytes = b""
    code: int | None = None


class FrameReader:
    def __init__(
        self, isMasked: bool, inflation: Inflation | None = None, takesText: bool = True
    ) -> None:
        """
        C{isMasked} is required of frames or refused; C{inflation} is for agreed compression;
        C{takesText} is false where text ends the connection.
        """
        self.isMasked = isMasked
        self._takesText = takesText
        self._frames = FrameProtocol(not isMasked, [] if inflation is None else [inflation])
        self._input = bytearray()
        self._isWhole = True
        # Of the frame that is being read: how much of it is still to come, and the mask of the rest
        # where the lane reads it.
        self._rest = 0
        self._key: int | None = None

    @property
    def isIdle(self) -> bool:
        """Whether a new message begins next."""
        return self._isWhole and not (self._rest or self._input)

    def feed(self, data: bytes) -> None:
        self._input += data

    def next(self) -> bytes | ControlFrame | None:
        """
        A payload or a control frame; C{None} if more input is needed. L{FramingError} at the end.
        """
        while self._input:
            plain = self._plain()
            if plain:
                return plain
            piece = self._piece()
            if not piece:
                break
            message = self._decoded(piece)
            if message:
                return message
        return None

    def _plain(self) -> bytes:
        if hot.readFrames is None or not self._isWhole or (self._rest and self._key is None):
            return b""
        plain: bytes
        plain, used, self._rest, key = hot.readFrames(
            self._input, self.isMasked, self._rest, self._key or 0, self._takesText
        )
        self._key = key if self._rest else None
        del self._input[:used]
        return plain

    def _piece(self) -> bytearray:
        """The beginning of the next frame, or the continuation of this one."""
        size = 0
        if not self._rest:
            size = self._header()
            if not size:
                return bytearray()
        taken = min(self._rest, _PIECE, len(self._input) - size)
        self._rest -= taken
        piece = self._input[: size + taken]
        del self._input[: size + taken]
        return piece

    def _header(self) -> int:
        """The length of the next frame's header; 0 while the header is incomplete."""
        data = self._input
        if len(data) < 2:
            return 0
        length = data[1] & ~_MASKED
        width = _WIDTHS.get(length, 0)
        size = 2 + width + (4 if data[1] & _MASKED else 0)
        if len(data) < size:
            return 0
        self._rest = int.from_bytes(data[2 : 2 + width], "big") if width else length
        opcode = data[0] & 0x0F
        if opcode == Opcode.TEXT:
            if not self._takesText:
                raise FramingError(_UNSUPPORTED, "text in place of bytes")
            data[0] += Opcode.BINARY - Opcode.TEXT
        if opcode < Opcode.CLOSE:
            self._isWhole = bool(data[0] & _FIN)
        return size

    def _decoded(self, piece: bytearray) -> bytes | ControlFrame | None:
        try:
            self._frames.receive_bytes(bytes(piece))
            for frame in self._frames.received_frames():
                return _found(frame.opcode, frame.payload)
        except ParseFailed as error:
            raise FramingError(int(error.code), str(error)) from error
        return None


def _found(opcode: Opcode, payload: Any) -> bytes | ControlFrame:
    if opcode is Opcode.CLOSE:
        code, reason = payload
        isThere = code != _NO_CODE
        return ControlFrame(opcode, reason.encode(), int(code) if isThere else None)
    return ControlFrame(opcode, bytes(payload)) if opcode.iscontrol() else bytes(payload)


#: Stands for a close frame without a code.
_NO_CODE = 1005

#: The code for data of a type that the receiver does not take.
_UNSUPPORTED = 1003


class FrameWriter:
    def __init__(
        self,
        isMasked: bool = False,
        isCompressed: bool = False,
        longest: int = 0,
        isWhole: bool = False,
    ) -> None:
        """
        Frames have C{longest} bytes, or any number with 0. C{isWhole} is for peers that do not
        understand fragments.
        """
        self._isMasked = isMasked
        self._isCompressed = isCompressed
        self._longest = longest
        self._isWhole = isWhole

    @property
    def isPlain(self) -> bool:
        """Whether each output is one frame, with the same bytes behind its header."""
        return not (self._isMasked or self._isCompressed or self._longest)

    def frames(self, data: bytes) -> bytes:
        if not self._isCompressed:
            return b"".join(self._cut(data, self._longest))
        return b"".join(
            frame
            for start in range(0, len(data), _PIECE)
            for frame in self._message(data[start : start + _PIECE])
        )

    def _message(self, data: bytes) -> list[bytes]:
        if len(data) <= THRESHOLD:
            return self._cut(data, self._longest)
        longest = 0 if self._isWhole else self._longest
        pieces = _pieces(deflated(data), longest)
        last = len(pieces) - 1
        frames: list[bytes] = []
        for number, piece in enumerate(pieces):
            first = Opcode.CONTINUATION if number else Opcode.BINARY | _COMPRESSED
            frames += self._frame(first | (_FIN if number == last else 0), piece)
        return frames

    def _cut(self, data: bytes, longest: int) -> list[bytes]:
        first = _FIN | Opcode.BINARY
        return [part for piece in _pieces(data, longest) for part in self._frame(first, piece)]

    def control(self, opcode: Opcode, payload: bytes = b"") -> bytes:
        return b"".join(self._frame(_FIN | opcode, payload))

    def close(self, code: int | None, reason: bytes = b"") -> bytes:
        """A close frame; C{reason} is UTF-8 and is shortened."""
        if code is None:
            return self.control(Opcode.CLOSE)
        if len(reason) > _MOST_CONTROL - 2:
            reason = reason[: _MOST_CONTROL - 5].decode("utf-8", "ignore").encode() + b"..."
        return self.control(Opcode.CLOSE, struct.pack("!H", code) + reason)

    def _frame(self, first: int, payload: bytes) -> tuple[bytes, ...]:
        mask = _MASKED if self._isMasked else 0
        length = len(payload)
        if length < _TWO:
            header = bytes((first, mask | length))
        elif length < 1 << 16:
            header = struct.pack("!BBH", first, mask | _TWO, length)
        else:
            header = struct.pack("!BBQ", first, mask | _EIGHT, length)
        if not mask:
            return header, payload
        key = os.urandom(4)
        return header, key, masked(payload, key)


def _pieces(data: bytes, longest: int) -> list[bytes]:
    if not 0 < longest < len(data):
        return [data]
    return [data[start : start + longest] for start in range(0, len(data), longest)]


def masked(data: bytes, key: bytes) -> bytes:
    """Data under a mask of four bytes. The same key removes the mask."""
    if hot.maskBytes is not None:
        done: bytes = hot.maskBytes(data, int.from_bytes(key, "little"))
        return done
    count = len(data)
    whole = (key * (count // 4 + 1))[:count]
    number = int.from_bytes(data, "little") ^ int.from_bytes(whole, "little")
    return number.to_bytes(count, "little")
