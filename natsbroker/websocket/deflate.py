"""
The extension C{permessage-deflate} of RFC 7692 without context takeover, as in nats-server: each
message is compressed by itself, and limited once it is decompressed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol, Opcode, RsvBits

#: The offer, and the answer to it.
NAME = "permessage-deflate"
OFFER = f"{NAME}; server_no_context_takeover; client_no_context_takeover"

#: The end of a compressed message, which is not sent.
_TAIL = b"\x00\x00\xff\xff"

#: Messages up to this size in bytes are not compressed.
THRESHOLD = 64

_FASTEST = 1
_RAW = -zlib.MAX_WBITS


def deflated(data: bytes) -> bytes:
    compressor = zlib.compressobj(_FASTEST, zlib.DEFLATED, _RAW)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[: -len(_TAIL)]


class Inflation(Extension):
    """Decompresses messages up to C{limit} bytes; a longer one ends the connection."""

    name = NAME

    def __init__(self, limit: Callable[[], int]) -> None:
        self.limit = limit
        self._left = 0
        self._isControl = False
        self._inflater: Any = None

    def enabled(self) -> bool:
        return True

    def offer(self) -> bool | str:
        return OFFER

    def frame_inbound_header(
        self,
        proto: FrameDecoder | FrameProtocol,
        opcode: Opcode,
        rsv: RsvBits,
        payload_length: int,
    ) -> CloseReason | RsvBits:
        self._isControl = opcode.iscontrol()
        isFirst = opcode in (Opcode.TEXT, Opcode.BINARY)
        if rsv.rsv1 and not isFirst:
            return CloseReason.PROTOCOL_ERROR
        if isFirst:
            self._inflater = zlib.decompressobj(_RAW) if rsv.rsv1 else None
            self._left = self.limit()
        return RsvBits(True, False, False)

    def frame_inbound_payload_data(
        self, proto: FrameDecoder | FrameProtocol, data: bytes
    ) -> bytes | CloseReason:
        if self._isControl or self._inflater is None:
            return data
        return self._inflated(data)

    def frame_inbound_complete(
        self, proto: FrameDecoder | FrameProtocol, fin: bool
    ) -> bytes | CloseReason | None:
        if self._isControl or not fin or self._inflater is None:
            return None
        last = self._inflated(_TAIL)
        self._inflater = None
        return last

    def _inflated(self, data: bytes) -> bytes | CloseReason:
        try:
            plain: bytes = self._inflater.decompress(data, self._left + 1)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        self._left -= len(plain)
        return plain if self._left >= 0 else CloseReason.MESSAGE_TOO_BIG
