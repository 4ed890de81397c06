"""
The keys of the database, and its values other than blocks. docs/reference/store-format.md describes
them all. The letters C{S} and C{T} mark keys of which there may be many: no other letter becomes
one of these when one bit flips.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct, error, pack, unpack_from

from natsbroker.storage.jobs import StoredRow
from natsbroker.storage.records import Damaged

FORMAT_VERSION, SEALED_VERSION = 1, 2
"""The format of a plain store, and that of an encrypted one."""

CHANGING_VERSION = 3
"""
The format of a plain store whose journal may have changes. Only the file that names the format has
it.
"""

FORMAT_KEY = b"F"
FORMAT_TEXT = b"natsbroker store, format "

TWICE = (b"F", b"G", b"H", b"L", b"X")

LONGEST_SUBJECT_KEY = 440
"""
Subjects up to this length are keys as they are. The key of a longer subject is its beginning of
this length, and a digest.
"""

_IDENTITY = Struct(">cQ")
_SEQUENCE = Struct(">cQQ")
_PAIR = Struct("<QQ")
_TEXT = Struct("<H")


def isTwice(key: bytes) -> bool:
    return key[:1] in TWICE


def rowKey(identity: int) -> bytes:
    return _IDENTITY.pack(b"L", identity)


def blockKey(identity: int, sequence: int) -> bytes:
    return _SEQUENCE.pack(b"B", identity, sequence)


def deadKey(identity: int, sequence: int) -> bytes:
    return _SEQUENCE.pack(b"G", identity, sequence)


def holdsKey(identity: int) -> bytes:
    return _IDENTITY.pack(b"H", identity)


def lostKey(identity: int) -> bytes:
    return _IDENTITY.pack(b"X", identity)


def tallyPrefix(identity: int) -> bytes:
    return _IDENTITY.pack(b"T", identity)


def tallyKey(identity: int, subject: bytes) -> bytes:
    if len(subject) > LONGEST_SUBJECT_KEY:
        digest = hashlib.sha256(subject).digest()
        subject = subject[:LONGEST_SUBJECT_KEY] + b"\xff" + digest
    return _IDENTITY.pack(b"T", identity) + subject


def subjectOrder(subject: bytes) -> bytes:
    return tallyKey(0, subject)


def subjectIn(key: bytes) -> bytes:
    """The subject in the key of a tally; empty if the key does not have all of it."""
    return b"" if len(key) > _IDENTITY.size + LONGEST_SUBJECT_KEY else key[_IDENTITY.size :]


def statePrefix(space: str) -> bytes:
    name = space.encode("utf-8")
    return b"S" + bytes((len(name),)) + name


def stateKey(space: str, key: bytes) -> bytes:
    return statePrefix(space) + key


def spaceAndKey(key: bytes) -> tuple[str, bytes]:
    end = 2 + key[1]
    return key[2:end].decode("utf-8", "replace"), key[end:]


def identityOf(key: bytes) -> int:
    return int.from_bytes(key[1:9], "big")


def sequenceOf(key: bytes) -> int:
    return int.from_bytes(key[9:17], "big")


def packFormat(base: int, version: int) -> bytes:
    """Pack the format. C{base} is added to the numbers of transactions to get generations."""
    return FORMAT_TEXT + b"%d, generations from %d\n" % (version, base)


def unpackFormat(value: bytes) -> tuple[int, int]:
    """The version and the base. L{Damaged} if this is not the value of a format."""
    text = value.removeprefix(FORMAT_TEXT)
    version, separator, base = text.partition(b", generations from ")
    if text == value or not version.isdigit():
        raise Damaged("the value that identifies the file is not that of a store")
    return int(version), int(base) if separator and base.strip().isdigit() else 0


@dataclass(slots=True)
class LogRow(StoredRow):
    """
    A log as it is stored. The commit thread keeps its changed copy when the commit succeeded.

    @ivar sole: the subject of all records, while there are no tallies.
    @ivar indexed: whether there are tallies.
    @ivar quarantined: whether it may only be read.
    @ivar tail: not stored: first sequence and length of the small blocks at the end.
    @ivar tallies: not stored: the number of tallies in the database.
    """

    sole: bytes = b""
    indexed: bool = False
    quarantined: bool = False
    tail: list[tuple[int, int]] = field(default_factory=list)
    tallies: int = 0

    def copy(self) -> LogRow:
        return LogRow(
            self.identity,
            self.name,
            self.first,
            self.last,
            self.count,
            self.size,
            self.lastTime,
            self.dropped,
            self.sole,
            self.indexed,
            self.quarantined,
            list(self.tail),
            self.tallies,
        )

    def pack(self) -> bytes:
        name = self.name.encode("utf-8")
        flags = self.indexed | self.dropped << 1 | self.quarantined << 2
        numbers = (self.first, self.last, self.count, self.size, self.lastTime)
        return _ROW.pack(*numbers, flags, len(self.sole), len(name)) + self.sole + name

    @classmethod
    def unpack(cls, identity: int, value: bytes) -> LogRow:
        try:
            *numbers, flags, soleLength, nameLength = _ROW.unpack_from(value)
            sole = value[_ROW.size : _ROW.size + soleLength]
            name = value[_ROW.size + soleLength :].decode("utf-8")
        except (error, UnicodeDecodeError) as failure:
            raise Damaged(f"a log cannot be read: {failure}") from failure
        if len(name.encode("utf-8")) != nameLength:
            raise Damaged("a log cannot be read: its name is cut off")
        row = cls(identity, name, *numbers)
        row.sole = sole
        row.indexed, row.dropped, row.quarantined = (bool(flags & bit) for bit in (1, 2, 4))
        return row


_ROW = Struct("<QQQQqIIH")

LISTED = 64
"""The least number of a subject's sequences that its tally lists."""


@dataclass(slots=True)
class Tally:
    """
    The records of one subject in a log.

    @ivar first: the oldest, or a sequence before it if C{loose}.
    @ivar listed: the newest sequences, rising; all of them if there are C{count}.
    """

    subject: bytes
    count: int = 0
    first: int = 0
    last: int = 0
    listed: array[int] = field(default_factory=lambda: array("Q"))
    loose: bool = False

    @property
    def complete(self) -> bool:
        return len(self.listed) == self.count

    def add(self, sequences: Iterable[int], keep: int) -> None:
        before = len(self.listed)
        self.listed.extend(sequences)
        added = len(self.listed) - before
        if not self.count and added:
            self.first, self.loose = self.listed[before], False
        self.count += added
        self.last = self.listed[-1]
        if len(self.listed) > keep:
            self.listed = self.listed[-keep:]

    def remove(self, sequence: int) -> None:
        """
        Stop counting a record. If C{listed} does not have it, C{last} is not known afterwards.
        """
        self.count -= 1
        if sequence in self.listed:
            self.listed.remove(sequence)
        if self.listed:
            self.last = self.listed[-1]
        if self.complete and self.listed:
            self.first, self.loose = self.listed[0], False
        elif sequence == self.first:
            self.first, self.loose = sequence + 1, True

    def pack(self) -> bytes:
        listed = self.listed
        head = _TALLY.pack(self.count, self.first, self.last, len(listed), self.loose)
        return head + pack(f"<{len(listed)}Q", *listed) + self.subject

    @classmethod
    def unpack(cls, value: bytes) -> Tally:
        try:
            count, first, last, length, loose = _TALLY.unpack_from(value)
            listed = array("Q", unpack_from(f"<{length}Q", value, _TALLY.size))
        except error as failure:
            raise Damaged(f"a tally cannot be read: {failure}") from failure
        return cls(value[_TALLY.size + 8 * length :], count, first, last, listed, bool(loose))


_TALLY = Struct("<QQQIB")


def lastOfTally(value: bytes) -> int:
    """L{Tally.last} of a packed tally; L{Damaged} if it is too short."""
    if len(value) < _TALLY.size:
        raise Damaged("a tally cannot be read: it is cut off")
    return int(_TALLY.unpack_from(value)[2])


def packHolds(holds: Mapping[str, int]) -> bytes:
    pieces = []
    for name, floor in holds.items():
        text = name.encode("utf-8")
        pieces.append(_TEXT.pack(len(text)) + text + floor.to_bytes(8, "little"))
    return b"".join(pieces)


def unpackHolds(value: bytes) -> dict[str, int]:
    holds = {}
    position = 0
    try:
        while position < len(value):
            end = position + 2 + int(_TEXT.unpack_from(value, position)[0])
            name = value[position + 2 : end].decode("utf-8")
            holds[name] = int.from_bytes(value[end : end + 8], "little")
            position = end + 8
    except (error, UnicodeDecodeError) as failure:
        raise Damaged(f"holds cannot be read: {failure}") from failure
    return holds


def packRanges(ranges: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(_PAIR.pack(start, stop) for start, stop in ranges)


def unpackRanges(value: bytes) -> list[tuple[int, int]]:
    whole = len(value) - len(value) % _PAIR.size
    return [(start, stop) for start, stop in _PAIR.iter_unpack(value[:whole])]
