"""
Entries of the journal that are not records: deleted sequences, and values of state. They look like
records whose third number is not 0. An encrypted store has none, because its records have their
key's number there.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from natsbroker.storage.records import HEAD, HEAD_SIZE, Damaged, crc32c

_DELETED, _STATE, _NO_STATE = 1, 2, 3

_BODY = Struct("<HHIIQQq")
_CRC = Struct("<I")

States = Mapping[tuple[str, bytes], bytes | None]


class Changes(NamedTuple):
    """
    @ivar deleted: sequences by log.
    @ivar states: values by space and key; C{None} for a deleted one.
    """

    deleted: dict[int, list[int]]
    states: dict[tuple[str, bytes], bytes | None]

    @property
    def weight(self) -> int:
        """The approximate number of bytes that they add."""
        values = sum(len(key) + len(value or b"") for (_, key), value in self.states.items())
        return values + 100 * (len(self.states) + sum(map(len, self.deleted.values())))


def packChanges(deleted: Mapping[int, Collection[int]], states: States) -> list[bytes]:
    entries = [
        _entry(_DELETED, identity, b"", b"", array("Q", sequences).tobytes())
        for identity, sequences in deleted.items()
        if sequences
    ]
    for (space, key), value in states.items():
        kind = _NO_STATE if value is None else _STATE
        entries.append(_entry(kind, 0, space.encode("utf-8"), key, value or b""))
    return entries


def _entry(kind: int, identity: int, name: bytes, key: bytes, value: bytes) -> bytes:
    head = _BODY.pack(len(name), kind, len(key), len(value), identity, 0, 0)
    body = b"".join((head, name, key, value))
    return _CRC.pack(crc32c(body)) + body


def isChange(entry: bytes) -> bool:
    return bool(HEAD.unpack_from(entry)[2])


def unpackChanges(entries: Iterable[bytes]) -> Changes:
    """
    Unpack entries. The last one for each key counts. L{Damaged} for an entry that another version
    wrote.
    """
    changes = Changes({}, {})
    for entry in entries:
        _, nameLength, kind, keyLength, _, identity, _, _ = HEAD.unpack_from(entry)
        key = HEAD_SIZE + nameLength
        value = entry[key + keyLength :]
        if kind == _DELETED:
            changes.deleted.setdefault(identity, []).extend(array("Q", value))
        elif kind in (_STATE, _NO_STATE):
            space = entry[HEAD_SIZE:key].decode("utf-8")
            kept = value if kind == _STATE else None
            changes.states[space, entry[key : key + keyLength]] = kept
        else:
            raise Damaged(f"the journal has an entry of kind {kind}, which is not known")
    return changes
