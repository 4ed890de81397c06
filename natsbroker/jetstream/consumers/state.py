"""
The durable state of a consumer: a value of the account's state in a compact binary form.

A header has the version of the form and the positions; columns of numbers follow. A column begins
with its number of values, their width in bytes, and their minimum, to which all are relative.
The store checks values for damage, so this form has no checksum.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

VERSION = 2

#: The number of columns by version.
_COLUMNS = {1: 5, VERSION: 6}

_HEADER = struct.Struct("<BQQQQQQ")
_COLUMN = struct.Struct("<IBq")
_EMPTY = _COLUMN.pack(0, 4, 0)
_NARROW = 1 << 32

#: Pending messages that a value has room for; a store takes values of up to 16 MiB.
MOST_PENDING = 600_000


class DamagedState(ValueError):
    """The error of a value that is not the state of a consumer."""


def stateKey(stream: str, consumer: str) -> bytes:
    """The key of a consumer's state: a digest, because names may be longer than a key."""
    path = f"{stream}/{consumer}".encode("utf-8", "surrogateescape")
    return b"position/" + sha256(path).hexdigest().encode()


@dataclass(slots=True)
class ConsumerState:
    """
    The position of a consumer.

    @ivar delivered: the consumer sequence of the last delivery.
    @ivar deliveredStream: the stream sequence of the newest message that was delivered.
    @ivar floor: the acknowledgement floor, as a consumer sequence.
    @ivar floorStream: the same as a stream sequence.
    @ivar start: the stream sequence before the first message of the consumer, from its deliver
        policy or its last reset. The stream may end below it.
    @ivar resume: for C{last_per_subject}: up to this sequence only the last message of each subject
        is delivered; 0 if all are.
    @ivar sequences: the stream sequence of each pending message; they rise.
    @ivar firsts: the consumer sequence of its first delivery.
    @ivar dues: the time at which it is due, in milliseconds since 1970.
    @ivar counts: redeliveries by stream sequence.
    @ivar unsent: the pending messages that perhaps no delivery has sent.
    """

    delivered: int = 0
    deliveredStream: int = 0
    floor: int = 0
    floorStream: int = 0
    start: int = 0
    resume: int = 0
    sequences: Sequence[int] = ()
    firsts: Sequence[int] = ()
    dues: Sequence[int] = ()
    counts: dict[int, int] = field(default_factory=dict)
    unsent: Sequence[int] = ()

    def encode(self) -> bytes:
        """
        The value for the store. If too many messages are pending, the newest are left out and count
        as undelivered, so none is lost.
        """
        pending = [self.sequences, self.firsts, self.dues]
        last, counts = self.deliveredStream, self.counts
        if len(self.sequences) > MOST_PENDING:
            pending = [column[:MOST_PENDING] for column in pending]
            last = pending[0][-1]
            counts = {sequence: count for sequence, count in counts.items() if sequence <= last}
        columns = [*pending, list(counts), list(counts.values()), self.unsent]
        header = _HEADER.pack(
            VERSION,
            self.delivered,
            last,
            self.floor,
            min(self.floorStream, last),
            self.start,
            self.resume,
        )
        return header + b"".join(map(_encoded, columns))

    @classmethod
    def decode(cls, value: bytes) -> ConsumerState:
        """Read a value; L{DamagedState} if it has another form."""
        try:
            version, delivered, last, floor, floorStream, start, resume = _HEADER.unpack_from(value)
            if version not in _COLUMNS:
                raise DamagedState(f"version {version} of a consumer's state is not known")
            columns: list[list[int]] = []
            offset = _HEADER.size
            for _ in range(_COLUMNS[version]):
                column, offset = _decoded(value, offset)
                columns.append(column)
            sequences, firsts, dues, counted, counts = columns[:5]
            if not len(sequences) == len(firsts) == len(dues):
                raise ValueError("columns differ in length")
            state = cls(delivered, last, floor, floorStream, start, resume, sequences, firsts, dues)
            state.counts.update(zip(counted, counts, strict=True))
            state.unsent = columns[5] if version == VERSION else ()
            return state
        except (struct.error, ValueError) as error:
            raise DamagedState(f"a consumer's state is damaged: {error}") from error


def _encoded(column: Sequence[int]) -> bytes:
    if not column:
        return _EMPTY
    lowest = 0
    try:
        values = array("I", column)
    except OverflowError:  # Small numbers are common, and need one pass only.
        lowest = min(column)
        isNarrow = max(column) - lowest < _NARROW
        values = array("I" if isNarrow else "Q", [number - lowest for number in column])
    return _COLUMN.pack(len(column), values.itemsize, lowest) + _littleEndian(values).tobytes()


def _decoded(value: bytes, offset: int) -> tuple[list[int], int]:
    count, width, lowest = _COLUMN.unpack_from(value, offset)
    offset += _COLUMN.size
    end = offset + count * width
    if width not in (4, 8) or end > len(value):
        raise ValueError("a column is cut off")
    values = array("I" if width == 4 else "Q")
    values.frombytes(value[offset:end])
    return [number + lowest for number in _littleEndian(values)], end


def _littleEndian(values: array[int]) -> array[int]:
    if sys.byteorder == "big":
        values.byteswap()
    return values
