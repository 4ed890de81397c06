"""
Valid and invalid chunks of S2 streams for tests.
"""

from __future__ import annotations

from google_crc32c import value as crc32c

__all__ = ["BEGIN", "SNAPPY", "checksum", "chunk", "compressed", "literal", "plain", "varint"]

#: The identifiers of an S2 stream, and of a Snappy stream.
BEGIN = b"\xff\x06\x00\x00S2sTwO"
SNAPPY = b"\xff\x06\x00\x00sNaPpY"


def chunk(kind: int, body: bytes) -> bytes:
    """A chunk of any type."""
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


def checksum(content: bytes) -> bytes:
    """The masked CRC-32C of a chunk's content."""
    crc: int = crc32c(content)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def plain(content: bytes) -> bytes:
    """A chunk that is not compressed."""
    return chunk(1, checksum(content) + content)


def compressed(block: bytes, content: bytes) -> bytes:
    """A chunk with a block that should decompress to the content."""
    return chunk(0, checksum(content) + block)


def varint(number: int) -> bytes:
    """The length at the beginning of a block."""
    content = bytearray()
    while number >= 0x80:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])


def literal(content: bytes) -> bytes:
    """A literal element."""
    length = len(content) - 1
    if length < 60:
        return bytes([length << 2]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([59 + size << 2]) + length.to_bytes(size, "little") + content
