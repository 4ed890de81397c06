"""
The framing of nats-streaming-server's file store: file versions, record headers and checksums; and
what is found when it is read.

The format is that of nats-streaming-server 0.2 to 0.25 (C{stores/filestore.go} there). All integers
are little-endian. A file begins with its version; a record has a header of eight bytes, its payload
size (with a type in the top eight bits in C{clients.dat} and C{subs.dat}) and the CRC-32 of its
payload. A header of zeros ends a file: some file systems extend a file with zeros after a power
cut.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

Checksum = Callable[[bytes], int]
"""The CRC-32 of some bytes, by one polynomial."""

HEADER = Struct("<II")
"""Payload size and CRC."""

VERSION_SIZE = 4

_VERSION = b"\x01\0\0\0"

_IEEE = 0xEDB88320

POLYNOMIALS = (_IEEE, 0x82F63B78, 0xEB31D82E)
"""
The reversed polynomials that Go's C{hash/crc32} names: IEEE, which is the server's default,
Castagnoli and Koopman. The store does not record which one its server used.
"""


class SourceError(Exception):
    """A directory or file that cannot be read; the operator is shown the text."""


@dataclass(slots=True)
class Report:
    """
    @ivar notes: about missing data that was never acknowledged, or was no longer stored.
    @ivar damaged: about lost data.
    """

    show: Callable[[str], object] | None = None
    notes: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self._add(self.notes, text)

    def damage(self, text: str) -> None:
        self._add(self.damaged, text)

    def _add(self, texts: list[str], text: str) -> None:
        texts.append(text)
        if self.show is not None:
            self.show(text)


def checksumFor(polynomial: int) -> Checksum:
    """A reflected CRC-32, initial value and final xor C{0xFFFFFFFF}; C{polynomial} is reversed."""
    if polynomial == _IEEE:
        return zlib.crc32
    table = [_tableEntry(byte, polynomial) for byte in range(256)]

    def checksum(data: bytes) -> int:
        value = 0xFFFFFFFF
        for byte in data:
            value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
        return value ^ 0xFFFFFFFF

    return checksum


def _tableEntry(value: int, polynomial: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (polynomial if value & 1 else 0)
    return value


def checkVersion(name: str, data: bytes) -> None:
    """Raise L{SourceError} if the file does not begin with the only known version."""
    if data[:VERSION_SIZE] != _VERSION:
        raise SourceError(f"{name} does not begin with file version 1")


class TypedRecord(NamedTuple):
    kind: int
    payload: bytes
    offset: int


def typedRecords(
    name: str, data: bytes, checksum: Checksum, torn: Callable[[str], object]
) -> Iterator[TypedRecord]:
    """
    The records of a typed file, to its end or to a header of zeros.

    @param torn: called with a text about an incomplete last record, which is left out.
    @raise SourceError: for another version, or a record that does not match its checksum.
    """
    checkVersion(name, data)
    offset = VERSION_SIZE
    while offset < len(data):
        start = offset + HEADER.size
        if not any(data[offset:start]):
            return
        size, crc = HEADER.unpack_from(data, offset) if start <= len(data) else (0, 0)
        kind, size = size >> 24, size & 0xFFFFFF
        payload = data[start : start + size]
        if start > len(data) or len(payload) < size:
            torn(f"{name}: the last record, at {offset}, is incomplete and left out")
            return
        if checksum(payload) != crc:
            raise SourceError(f"{name}: the record at {offset} does not match its checksum")
        yield TypedRecord(kind, payload, offset)
        offset = start + size
