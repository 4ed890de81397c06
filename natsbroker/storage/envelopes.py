"""
Envelopes: small values with a checksum that also covers their key; their layout is in
docs/reference/store-format.md. As the mark is random, no publisher can make bytes that look like
one, so values can be found anywhere in a damaged file.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from natsbroker.storage.records import Damaged, crc32c

VERSION, SEALED = 1, 2
"""The second one is of values that are encrypted."""

_HEAD = Struct("<8sBBHIQ")
_CRC = Struct("<I")
ENVELOPE_SIZE = _HEAD.size + _CRC.size


class Envelope(NamedTuple):
    kind: bytes
    generation: int
    key: bytes
    value: bytes
    version: int = VERSION


def wrap(
    mark: bytes, kind: bytes, generation: int, key: bytes, value: bytes, version: int = VERSION
) -> bytes:
    head = _HEAD.pack(mark, kind[0], version, len(key), len(value), generation)
    return b"".join((head, _CRC.pack(crc32c(head + key + value)), key, value))


def wrapTwice(
    mark: bytes, kind: bytes, generation: int, key: bytes, value: bytes, version: int = VERSION
) -> bytes:
    return wrap(mark, kind, generation, key, value, version) * 2


def unwrapAt(raw: bytes, start: int) -> tuple[Envelope, int]:
    """The envelope that begins at C{start}, and its end; L{Damaged} if it is not whole."""
    body = start + ENVELOPE_SIZE
    if len(raw) < body:
        raise Damaged(f"{len(raw) - start} bytes are not an envelope")
    _, kind, version, keyLength, valueLength, generation = _HEAD.unpack_from(raw, start)
    end = body + keyLength + valueLength
    if end > len(raw):
        raise Damaged("an envelope is longer than its place")
    checked = raw[start : start + _HEAD.size] + raw[body:end]
    if crc32c(checked) != _CRC.unpack_from(raw, start + _HEAD.size)[0]:
        raise Damaged("a value does not match its checksum")
    middle = body + keyLength
    key, value = raw[body:middle], raw[middle:end]
    return Envelope(bytes((kind,)), generation, key, value, version), end


def unwrapEither(raw: bytes, key: bytes) -> tuple[Envelope, bool]:
    """
    The envelope that L{wrapTwice} made, and whether both copies are whole. L{Damaged} if neither
    is.
    """
    middle = len(raw) // 2
    try:
        return unwrap(raw[:middle], key), raw[:middle] == raw[middle:]
    except Damaged:
        return unwrap(raw[middle:], key), False


def unwrap(raw: bytes, key: bytes) -> Envelope:
    """
    Read an envelope that fills its place. L{Damaged} if it is not whole, or under another key.
    """
    envelope, end = unwrapAt(raw, 0)
    if end != len(raw) or envelope.key != key:
        raise Damaged("a value stands under a key that is not its own")
    return envelope
