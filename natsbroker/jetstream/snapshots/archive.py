"""
The archive format of stream snapshots, nats-server's since 2.15: a magic number, then entries. An
entry is five numbers (varints, the timestamp in zigzag form), a name, a header block and a payload.
An entry without content is the last one.
"""

from __future__ import annotations

from typing import NamedTuple

MAGIC = b"NATSARC1"

#: The most bytes of a name.
LONGEST_NAME = 1 << 20

#: The most bytes of headers and payload in one entry, as entries are read as a whole.
LARGEST_ENTRY = 128 << 20

_LONGEST_VARINT = 10

#: Before 2.15, snapshots were tar files of nats-server's own files. They are not read; the error is
#: what nats-server says of input that is no tar file either.
_TAR_BLOCK = 512


class InvalidArchive(Exception):
    """Input that is not an archive. The text is nats-server's."""

    def __init__(self, text: str = "archive: invalid archive stream") -> None:
        super().__init__(text)


class EntryHeader(NamedTuple):
    """
    The beginning of an entry.

    @ivar name: of a document, or the subject of a message.
    @ivar timestamp: nanoseconds since 1970.
    @ivar sequence: of a message; 0 for a document.
    @ivar headers: the length of the header block.
    @ivar payload: the length of the payload.
    """

    name: bytes
    timestamp: int
    sequence: int
    headers: int
    payload: int

    @property
    def isEnd(self) -> bool:
        """Whether this is the last entry."""
        return not (self.sequence or self.timestamp or self.headers or self.payload)


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encodeEntry(
    name: bytes, timestamp: int, sequence: int, headers: bytes, payload: bytes
) -> bytes:
    zigzag = timestamp << 1 if timestamp >= 0 else ~(timestamp << 1)
    return b"".join(
        (
            _uvarint(len(name)),
            _uvarint(zigzag),
            _uvarint(sequence),
            _uvarint(len(headers)),
            _uvarint(len(payload)),
            name,
            headers,
            payload,
        )
    )


END = encodeEntry(b"", 0, 0, b"", b"")


class ArchiveReader:
    """
    Reads entries from input that comes in pieces: L{header} and L{body} in turns, where C{None}
    means that more input is needed.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._place = 0
        self._hasMagic = False
        self._header: EntryHeader | None = None

    @property
    def isBetweenEntries(self) -> bool:
        """Whether the input so far ends with a whole entry."""
        return self._header is None and self._place == len(self._data)

    @property
    def isEmpty(self) -> bool:
        return not self._hasMagic and not self._data

    def feed(self, data: bytes) -> None:
        del self._data[: self._place]
        self._place = 0
        self._data += data

    def header(self) -> EntryHeader | None:
        """The beginning of the next entry; L{InvalidArchive} if the input is no archive."""
        if not self._hasMagic and not self._magic():
            return None
        data, place = self._data, self._place
        numbers: list[int] = []
        for _ in range(5):
            value = shift = 0
            while True:
                if place == len(data):
                    return None
                byte = data[place]
                place += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift >= 7 * _LONGEST_VARINT:
                    raise InvalidArchive()
            numbers.append(value)
        length, zigzag, sequence, headers, payload = numbers
        if max(numbers) >= 1 << 64 or length > LONGEST_NAME or headers + payload >= 1 << 63:
            raise InvalidArchive()
        if place + length > len(data):
            return None
        name = bytes(data[place : place + length])
        self._place = place + length
        timestamp = zigzag >> 1 ^ -(zigzag & 1)
        self._header = EntryHeader(name, timestamp, sequence, headers, payload)
        return self._header

    def body(self) -> tuple[bytes, bytes] | None:
        """The header block and the payload of the entry whose header was read."""
        header = self._header
        if header is None:
            return None
        middle = self._place + header.headers
        end = middle + header.payload
        if end > len(self._data):
            return None
        entry = bytes(self._data[self._place : middle]), bytes(self._data[middle:end])
        self._place, self._header = end, None
        return entry

    def _magic(self) -> bool:
        if not MAGIC.startswith(self._data[: len(MAGIC)]):
            isLong = len(self._data) >= _TAR_BLOCK
            raise InvalidArchive("archive/tar: invalid tar header" if isLong else "unexpected EOF")
        if len(self._data) < len(MAGIC):
            return False
        self._hasMagic = True
        self._place = len(MAGIC)
        return True
