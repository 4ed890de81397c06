"""
The S2 stream format. Bytes that are flushed together become one stream, and streams become bytes
again.

A stream is an identifier and chunks, each with its type, its length and, where it holds bytes,
their checksum. Blocks are compressed as Snappy does, by a library: every reader of S2 takes them.
(The format is described in the S2 package of klauspost/compress; the limits are nats-server's.)

Input may be split anywhere, and gives the same bytes. A chunk is checked by its header before the
rest of it is awaited or gets memory. The number of chunks without content is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from google_crc32c import value as crc32c

from natsbroker import hot
from natsbroker.wire.compression import UNCOMPRESSED

#: The most bytes that the content of a chunk may be.
LARGEST = 4 << 20

#: The same limit for chunks that follow an identifier of Snappy instead of S2.
_LARGEST_SNAPPY = 1 << 16

#: The bytes that an encoder puts into one chunk.
_CHUNK = 1 << 20

#: Shorter content is not worth an attempt to compress it.
_SHORTEST = 32

_COMPRESSED, _PLAIN, _IDENTIFIER, _FIRST_SKIPPED = 0x00, 0x01, 0xFF, 0x80

_S2, _SNAPPY = b"S2sTwO", b"sNaPpY"

_BEGIN = b"\xff\x06\x00\x00" + _S2

_HEADER = 4
_CHECKSUM = 4

#: The most bytes by which a block of incompressible content exceeds the content.
_BLOCK_OVERHEAD = 8

_HEAD = struct.Struct("<II")

#: The limit on input without any content, as a multiple of the largest chunk.
_IDLE_FACTOR = 8

#: The least bytes that a chunk counts towards that limit, so that empty chunks are not free.
_CHUNK_COST = 64


class S2Error(Exception):
    """Input that is not an S2 stream, or exceeds a limit."""


@cache
def _compressor() -> Callable[[bytes], Any]:
    # Loaded by the first link that compresses: most brokers have none.
    compress: Callable[[bytes], Any] = import_module("cramjam").snappy.compress_raw
    return compress


def _masked(plain: bytes) -> int:
    crc: int = crc32c(plain)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def snappyStream(data: bytes) -> bytes:
    """Compress data into a stream of Snappy's own format."""
    pieces = [_BEGIN[:_HEADER] + _SNAPPY]
    for start in range(0, len(data), _LARGEST_SNAPPY):
        plain = data[start : start + _LARGEST_SNAPPY]
        block = bytes(_compressor()(plain))
        pieces.append(_HEAD.pack(_COMPRESSED | len(block) + _CHECKSUM << 8, _masked(plain)))
        pieces.append(block)
    return b"".join(pieces)


class S2Encoder:
    """C{level} is one of L{natsbroker.wire.compression.LEVELS}, which all compress alike."""

    __slots__ = ("level",)

    def __init__(self, level: str) -> None:
        self.level = level

    def encode(self, data: bytes) -> bytes:
        pieces: list[Any] = [_BEGIN]
        for start in range(0, len(data), _CHUNK):
            plain = data[start : start + _CHUNK]
            kind, body = _PLAIN, plain
            if self.level != UNCOMPRESSED and len(plain) >= _SHORTEST:
                block = _compressor()(plain)
                if len(block) < len(plain) - len(plain) // 32 - 5:
                    kind, body = _COMPRESSED, block
            pieces.append(_HEAD.pack(kind | len(body) + _CHECKSUM << 8, _masked(plain)))
            pieces.append(body)
        return b"".join(pieces)


class S2Decoder:
    """C{largest} limits the content of a chunk; C{isStarved} holds until more input comes."""

    def __init__(self, largest: int = LARGEST) -> None:
        self.largest = largest
        self.isStarved = True
        self._pieces: list[bytes] = []
        self._have = 0
        self._need = _HEADER
        self._offset = 0
        self._plain = b""
        self._given = 0
        self._skipping = 0
        self._idle = 0
        self._isStarted = False
        self._isSnappy = False

    @property
    def isMidway(self) -> bool:
        return self._have > 0 or self._skipping > 0

    def feed(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
            self._have += len(data)
            self.isStarved = False

    def read(self, most: int) -> bytes:
        """
        Get bytes of one chunk.

        @return: at most C{most} bytes; empty if none have come, see L{isStarved}. An empty chunk
            counts as if it had content.
        @raise S2Error: for input that is wrong.
        """
        spent = 0
        while not self._plain:
            if spent >= most or not self._next():
                return b""
            spent += _CHUNK_COST
        plain, start = self._plain, self._given
        if len(plain) - start > most:
            self._given += most
            return plain[start : start + most]
        self._plain, self._given = b"", 0
        return plain[start:]

    def _next(self) -> bool:
        """Begin the next chunk, or skip a part of one. Return whether there was any."""
        if self._skipping:
            self._skip()
        if self._have < self._need:
            self.isStarved = True
            return False
        data, start = self._joined(), self._offset
        kind, length = data[start], int.from_bytes(data[start + 1 : start + _HEADER], "little")
        if kind >= _FIRST_SKIPPED and kind != _IDENTIFIER:
            self._take(_HEADER)
            self._skipping = length
            self._idled(length)
            return True
        self._check(kind, length)
        self._need = _HEADER + length
        if self._have < self._need:
            self.isStarved = True
            return False
        start += _HEADER
        if kind == _IDENTIFIER:
            self._identified(data[start : start + length])
        else:
            self._plain = self._content(kind, data, start, start + length)
        self._take(_HEADER + length)
        self._need = _HEADER
        if self._plain:
            self._idle = 0
        else:
            self._idled(0)
        return True

    def _check(self, kind: int, length: int) -> None:
        largest = min(self.largest, _LARGEST_SNAPPY) if self._isSnappy else self.largest
        if kind == _IDENTIFIER:
            isRight = length == len(_S2)
        elif kind == _PLAIN:
            isRight = _CHECKSUM <= length <= largest + _CHECKSUM
        else:
            isRight = kind == _COMPRESSED and length <= largest + _CHECKSUM + _BLOCK_OVERHEAD
            isRight = isRight and length >= _CHECKSUM
        if not isRight:
            raise S2Error(f"chunk of type {kind:#04x} and {length} bytes")
        if kind != _IDENTIFIER and not self._isStarted:
            raise S2Error("no identifier")

    def _identified(self, text: bytes) -> None:
        if text not in (_S2, _SNAPPY):
            raise S2Error("identifier of another format")
        self._isStarted = True
        self._isSnappy = text == _SNAPPY

    def _content(self, kind: int, data: bytes, start: int, stop: int) -> bytes:
        checksum = int.from_bytes(data[start : start + _CHECKSUM], "little")
        start += _CHECKSUM
        if kind == _PLAIN:
            plain = data[start:stop]
        else:
            largest = min(self.largest, _LARGEST_SNAPPY) if self._isSnappy else self.largest
            try:
                plain = hot.decodeBlock(data, start, stop, largest)
            except ValueError as error:
                raise S2Error(f"block: {error}") from None
        if _masked(plain) != checksum:
            raise S2Error("checksum")
        return plain

    def _idled(self, length: int) -> None:
        self._idle += length + _CHUNK_COST
        if self._idle > _IDLE_FACTOR * self.largest:
            raise S2Error("chunks without content")

    def _joined(self) -> bytes:
        """The input as one piece. It begins with bytes that were taken already."""
        if len(self._pieces) > 1:
            self._pieces[0] = self._pieces[0][self._offset :]
            self._offset = 0
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0]

    def _take(self, count: int) -> None:
        """Drop bytes at the beginning of the only piece."""
        self._offset += count
        self._have -= count
        if not self._have:
            self._pieces.clear()
            self._offset = 0

    def _skip(self) -> None:
        """Throw away input without joining it."""
        while self._skipping and self._pieces:
            count = min(self._skipping, len(self._pieces[0]) - self._offset)
            self._skipping -= count
            self._have -= count
            self._offset += count
            if self._offset == len(self._pieces[0]):
                del self._pieces[0]
                self._offset = 0
