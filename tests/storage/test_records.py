"""
Records as bytes: what was written comes back, damage is seen, and the compiled steps do nothing
else than what they stand in front of.
"""

from __future__ import annotations

from importlib import import_module
from itertools import accumulate
from typing import Any

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.interfaces.records import Entry, Record
from natsbroker.storage.records import (
    HEAD_SIZE,
    LARGEST_SUBJECT,
    Damaged,
    decode,
    decodeMany,
    encodeBatch,
)
from tests.support import COMPILED, PURE, Names, needsCompiled, onEach, using

IDENTITY = 0xFEDCBA9876543210
ENTRIES: Any = st.lists(
    st.tuples(
        st.sampled_from([b"foo", b"foo", b"bar", b""]),
        st.sampled_from([b"", b"", b"headers"]),
        st.binary(max_size=20) | st.sampled_from([b"x" * 1000]),
        st.sampled_from([0, 0, 5, 6, 7, -1, 1 << 62]),
    ),
    max_size=6,
)


def encoded(names: Names, batch: list[Entry]) -> Any:
    """A batch, encoded by one implementation."""
    with using(names):
        return encodeBatch(IDENTITY, 7, batch, 6, 5, b"foo")


@needsCompiled
@given(ENTRIES)
def test_sameBytes(batch: list[Entry]) -> None:
    """Both implementations encode alike."""
    assert COMPILED is not None
    assert encoded(COMPILED, batch) == encoded(PURE, batch)


@onEach
@given(batch=ENTRIES, maxBytes=st.integers(1, 100))
def test_comesBack(names: Names, batch: list[Entry], maxBytes: int) -> None:
    """What was encoded is read again, by itself and together, as far as is asked."""
    blobs = encoded(names, batch).blobs
    starts = list(accumulate(map(len, blobs), initial=0))
    raw = b"".join(blobs)
    expected = [
        decode(raw, starts[index], starts[index + 1], IDENTITY) for index in range(len(blobs))
    ]
    assert [each[2:] for each in expected] == [each[:3] for each in batch]
    assert [each.sequence for each in expected] == list(range(7, 7 + len(batch)))
    times = [each.timestamp for each in expected]
    assert times == list(accumulate((each[3] or 6 for each in batch), max, initial=5))[1:]
    with using(names):
        found = decodeMany(raw, starts, 0, len(blobs), IDENTITY, 7, maxBytes)
    if names.decodeRecords is None:
        assert found == []
        return
    assert found == expected[: len(found)]
    assert all(type(each) is Record for each in found)
    size = starts[len(found)] - HEAD_SIZE * len(found)
    assert len(found) == len(expected) or size >= maxBytes
    if len(found) > 1:
        assert starts[len(found) - 1] - HEAD_SIZE * (len(found) - 1) < maxBytes


@onEach
@given(place=st.integers(0, 3 * 46 - 1), bit=st.integers(0, 7))
def test_damage(names: Names, place: int, bit: int) -> None:
    """A flipped bit is seen in the record that it is in; those before it are read."""
    blobs = encoded(names, [(b"foo", b"", b"abc", 9)] * 3).blobs
    raw = bytearray(b"".join(blobs))
    raw[place] ^= 1 << bit
    starts, hit = [0, 46, 92, 138], place // 46
    with pytest.raises(Damaged):
        decode(bytes(raw), starts[hit], starts[hit + 1], IDENTITY)
    with using(names):
        found = decodeMany(bytes(raw), starts, 0, 3, IDENTITY, 7, 1000)
    assert len(found) == (0 if names.decodeRecords is None else hit)


@onEach
def test_strangers(names: Names) -> None:
    """Records of another log, and such as stand in the place of others, are not read."""
    blobs = encoded(names, [(b"foo", b"", b"abc", 9)] * 2).blobs
    raw, starts = b"".join(blobs), [0, 46, 92]
    with using(names):
        assert decodeMany(raw, starts, 0, 2, IDENTITY + 1, 7, 1000) == []
        assert decodeMany(raw, starts, 0, 2, IDENTITY, 8, 1000) == []
        assert decodeMany(raw[:60], starts, 1, 2, IDENTITY, 8, 1000) == []
        assert decodeMany(raw, [0, 20, 92], 0, 2, IDENTITY, 7, 1000) == []
    with pytest.raises(Damaged, match="belongs"):
        decode(raw, 0, 46, IDENTITY + 1)


@needsCompiled
@pytest.mark.parametrize("first", [-1, 0])
def test_bounds(first: int) -> None:
    """The compiled step does not look behind the end of what it is given."""
    assert COMPILED is not None
    with pytest.raises(IndexError):
        COMPILED.decodeRecords(Record, b"", [0], first, 1, IDENTITY, 1, 1)


@onEach
def test_tooLong(names: Names) -> None:
    """What is too large is refused, and the reason said."""
    with pytest.raises(ValueError, match="subject of 65536 bytes"):
        encoded(names, [(b"x" * (LARGEST_SUBJECT + 1), b"", b"", 0)])


@needsCompiled
@given(st.binary(max_size=100), st.booleans())
def test_checksum(data: bytes, byMachine: bool) -> None:
    """The compiled checksum is that of the library, with and without the processor's help."""
    lane = import_module("natsbroker._accel.lane")
    assert lane.crc32c(data, byMachine) == crc32c(data)
