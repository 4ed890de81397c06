"""
The archive format.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.snapshots.archive import (
    END,
    LONGEST_NAME,
    MAGIC,
    ArchiveReader,
    EntryHeader,
    InvalidArchive,
    encodeEntry,
)

_ENTRY = encodeEntry(b"s.a", -3, 300, b"NATS/1.0\r\n\r\n", b"body")


def test_bytes() -> None:
    """An entry is five varints, a name, a header block and a payload."""
    assert _ENTRY == b"\x03\x05\xac\x02\x0c\x04s.aNATS/1.0\r\n\r\nbody"
    assert bytes(5) == END


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_split(size: int) -> None:
    """An archive may be read in pieces of any size."""
    data = MAGIC + _ENTRY + END
    reader = ArchiveReader()
    headers: list[EntryHeader] = []
    bodies: list[tuple[bytes, bytes]] = []
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        while True:
            if len(headers) == len(bodies):
                header = reader.header()
                if header is None:
                    break
                headers.append(header)
            body = reader.body()
            if body is None:
                break
            bodies.append(body)
    assert headers == [EntryHeader(b"s.a", -3, 300, 12, 4), EntryHeader(b"", 0, 0, 0, 0)]
    assert bodies == [(b"NATS/1.0\r\n\r\n", b"body"), (b"", b"")]
    assert [entry.isEnd for entry in headers] == [False, True]
    assert reader.isBetweenEntries


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x" * 50, "unexpected EOF"),
        (b"x" * 512, "archive/tar: invalid tar header"),
        (MAGIC + b"\xff" * 11, "archive: invalid archive stream"),
        (MAGIC + b"\xff" * 9 + b"\x02" + bytes(4), "archive: invalid archive stream"),
        (
            MAGIC + encodeEntry(b"x" * (LONGEST_NAME + 1), 0, 1, b"", b""),
            "archive: invalid archive stream",
        ),
    ],
)
def test_invalid(data: bytes, text: str) -> None:
    """Data that is no archive is refused with nats-server's text."""
    reader = ArchiveReader()
    reader.feed(data)
    with pytest.raises(InvalidArchive, match=text):
        reader.header()
