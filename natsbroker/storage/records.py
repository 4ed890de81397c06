"""
Records as bytes; docs/reference/store-format.md has their layout. Each contains the identity of its
log. So a record in the wrong log is noticed, and records can be found when everything around them
is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import google_crc32c

from natsbroker import hot
from natsbroker.interfaces.records import Entry, Record

crc32c = google_crc32c.value

HEAD = Struct("<IHHIIQQq")
HEAD_SIZE = HEAD.size

LARGEST_SUBJECT = 65535
LARGEST_RECORD = 1 << 30
"""The largest size of subject, headers and payload together."""

_BODY = Struct("<HHIIQQq")
_CRC = Struct("<I")
_new = tuple.__new__


class Damaged(Exception):
    """Bytes that should be a record, but are not."""


class Encoded(NamedTuple):
    """
    @ivar uniform: whether every record has the subject C{sole}.
    """

    blobs: list[bytes]
    size: int
    lastTime: int
    uniform: bool


def encodeBatch(
    identity: int, sequence: int, batch: Sequence[Entry], now: int, lastTime: int, sole: bytes
) -> Encoded:
    """
    Encode an append; this is the hot path of writing.

    @param sequence: the sequence of the first record.
    @param now: the timestamp of entries that bring none.
    @param lastTime: the timestamp of the record before; none is given a smaller one.
    @param sole: a subject. The result states whether all records have it.
    @raise ValueError: for a record that is too large.
    """
    if hot.encodeRecords is not None:
        encoded = hot.encodeRecords(identity, sequence, batch, now, lastTime, sole)
        if encoded is not None:
            return _new(Encoded, encoded)
    blobs: list[bytes] = []
    add, join, pack, crc = blobs.append, b"".join, _BODY.pack, _CRC.pack
    size = 0
    uniform = True
    for subject, headers, payload, timestamp in batch:
        lastTime = max(timestamp or now, lastTime)
        length = len(subject)
        if length > LARGEST_SUBJECT:
            raise ValueError(f"a subject of {length} bytes is too long")
        length += len(headers) + len(payload)
        if length > LARGEST_RECORD:
            raise ValueError(f"a record of {length} bytes is too large")
        size += length
        if uniform and subject != sole:
            uniform = False
        head = pack(len(subject), 0, len(headers), len(payload), identity, sequence, lastTime)
        body = join((head, subject, headers, payload))
        add(crc(crc32c(body)) + body)
        sequence += 1
    return Encoded(blobs, size, lastTime, uniform)


def decode(blob: bytes, start: int, end: int, identity: int) -> Record:
    """Decode a record. L{Damaged} if it is not whole or belongs to another log."""
    if end - start < HEAD_SIZE:
        raise Damaged(f"{end - start} bytes are not a record")
    crc, subjectLength, _, headersLength, payloadLength, owner, sequence, timestamp = (
        HEAD.unpack_from(blob, start)
    )
    body = start + HEAD_SIZE
    headers = body + subjectLength
    payload = headers + headersLength
    if payload + payloadLength != end or crc32c(blob[start + 4 : end]) != crc:
        raise Damaged("a record does not match its checksum")
    if owner != identity:
        raise Damaged(f"a record belongs to log {owner:016x}")
    return _new(
        Record,
        (sequence, timestamp, blob[body:headers], blob[headers:payload], blob[payload:end]),
    )


def lengthAt(blob: bytes, start: int) -> int:
    """
    The length, with head, of the record at C{start}, according to its head; 0 without room for a
    head.
    """
    if len(blob) - start < HEAD_SIZE:
        return 0
    _, subjectLength, _, headersLength, payloadLength, _, _, _ = HEAD.unpack_from(blob, start)
    return int(HEAD_SIZE + subjectLength + headersLength + payloadLength)


IDENTITY = Struct("<Q")
IDENTITY_OFFSET = 16
SEQUENCE_OFFSET = 24
TIMESTAMP_OFFSET = 32
SEQUENCE = Struct("<Q")
TIMESTAMP = Struct("<q")


def sequenceOf(blob: bytes, start: int) -> int:
    """The sequence in the head of the record at C{start}, unverified."""
    sequence: int = SEQUENCE.unpack_from(blob, start + SEQUENCE_OFFSET)[0]
    return sequence


def identityOf(blob: bytes, start: int) -> int:
    identity: int = IDENTITY.unpack_from(blob, start + IDENTITY_OFFSET)[0]
    return identity


def timestampOf(blob: bytes, start: int) -> int:
    timestamp: int = TIMESTAMP.unpack_from(blob, start + TIMESTAMP_OFFSET)[0]
    return timestamp


def subjectOf(blob: bytes, start: int) -> bytes:
    body = start + HEAD_SIZE
    return blob[body : body + int.from_bytes(blob[start + 4 : start + 6], "little")]
