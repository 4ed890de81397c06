"""
Records as bytes: what was written comes back, damage is seen, and the compiled steps do nothing
else than what they stand in front of.
"""

from __future__ import annotations

import gc
import sys
from array import array
from collections.abc import Collection
from importlib import import_module
from itertools import accumulate
from typing import Any

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.interfaces.records import Entry, Record
from natsbroker.storage.blocks import Block
from natsbroker.storage.records import (
    HEAD_SIZE,
    LARGEST_SUBJECT,
    Damaged,
    decode,
    encodeBatch,
)
from natsbroker.subjects.verdicts import SubjectVerdicts
from tests.storage.encodings import encodedBlock, encodedRecords
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


def selected(
    names: Names,
    raw: bytes,
    starts: list[int],
    wanted: SubjectVerdicts | None = None,
    identity: int = IDENTITY,
    first: int = 7,
    limit: int = 100,
    maxBytes: int = 1000,
    step: int = 1,
    dead: Collection[int] = (),
    collector: Any = None,
) -> tuple[Any, int, int]:
    """The wanted records of a block, whose sequences follow each other unless they have gaps."""
    numbers = range(first, first + step * (len(starts) - 1), step)
    sequences = numbers if step == 1 else list(numbers)
    block = Block(raw, identity, sequences, array("I", starts), frozenset(dead))
    collector = [] if collector is None else collector
    with using(names):
        return collector, *block.select(collector, 0, len(sequences), wanted, limit, maxBytes)


@needsCompiled
@given(
    st.lists(st.text("a.*>", max_size=5).map(str.encode), max_size=6),
    st.lists(st.text("a.*>", min_size=1, max_size=5).map(str.encode), max_size=3) | st.none(),
    st.sets(st.integers(1, 12)),
    st.integers(1, 2),
    st.integers(0, 4),
    st.integers(0, 30),
    st.integers(0, 400),
)
def test_selected(
    subjects: list[bytes],
    patterns: list[bytes] | None,
    dead: set[int],
    step: int,
    limit: int,
    maxBytes: int,
    damaged: int,
) -> None:
    """The implementations choose the same records, also among deleted and damaged ones."""
    assert COMPILED is not None
    blobs = [
        encodeBatch(IDENTITY, 1 + step * place, [(subject, b"h", b"abc", 9)], 1, 0, b"").blobs[0]
        for place, subject in enumerate(subjects)
    ]
    starts = list(accumulate(map(len, blobs), initial=0))
    raw = bytearray(b"".join(blobs))
    if damaged < len(raw):
        raw[damaged] ^= 1
    wanted = None if patterns is None else SubjectVerdicts(patterns)
    results = [
        selected(names, bytes(raw), starts, wanted, IDENTITY, 1, limit, maxBytes, step, dead)
        for names in (COMPILED, PURE)
    ]
    assert results[0] == results[1]
    kept = COMPILED.EncodedRecords(Record)
    result = selected(
        COMPILED, bytes(raw), starts, wanted, IDENTITY, 1, limit, maxBytes, step, dead, kept
    )
    assert (list(result[0]), *result[1:]) == results[0]
    assert kept.sequences() == [record.sequence for record in results[0][0]]


@needsCompiled
@given(ENTRIES)
def test_sameBytes(batch: list[Entry]) -> None:
    """The implementations encode a batch to the same bytes."""
    assert COMPILED is not None
    assert encoded(COMPILED, batch) == encoded(PURE, batch)


@onEach
@given(batch=ENTRIES, maxBytes=st.integers(1, 100))
def test_comesBack(names: Names, batch: list[Entry], maxBytes: int) -> None:
    """An encoded record is decoded unchanged, alone and with others, as far as requested."""
    blobs = encoded(names, batch).blobs
    starts = list(accumulate(map(len, blobs), initial=0))
    raw = b"".join(blobs)
    expected = [
        decode(raw, starts[index], starts[index + 1], IDENTITY) for index in range(len(blobs))
    ]
    assert [pair[2:] for pair in expected] == [entry[:3] for entry in batch]
    assert [pair.sequence for pair in expected] == list(range(7, 7 + len(batch)))
    times = [pair.timestamp for pair in expected]
    assert times == list(accumulate((entry[3] or 6 for entry in batch), max, initial=5))[1:]
    records, index, left = selected(names, raw, starts, maxBytes=maxBytes)
    assert records == expected[:index]
    assert all(type(record) is Record for record in records)
    assert left == maxBytes - (starts[index] - HEAD_SIZE * index)
    assert index == len(expected) or left <= 0
    if index > 1:
        assert starts[index - 1] - HEAD_SIZE * (index - 1) < maxBytes


@onEach
@given(place=st.integers(0, 3 * 46 - 1), bit=st.integers(0, 7))
def test_damage(names: Names, place: int, bit: int) -> None:
    """A flipped bit is detected in its record; earlier records are read."""
    blobs = encoded(names, [(b"foo", b"", b"abc", 9)] * 3).blobs
    raw = bytearray(b"".join(blobs))
    raw[place] ^= 1 << bit
    starts, hit = [0, 46, 92, 138], place // 46
    with pytest.raises(Damaged):
        decode(bytes(raw), starts[hit], starts[hit + 1], IDENTITY)
    records, index, _ = selected(names, bytes(raw), starts)
    assert (len(records), index) == (hit, hit)


@onEach
def test_strangers(names: Names) -> None:
    """Records of another log, and records in the place of others, are not read."""
    blobs = encoded(names, [(b"foo", b"", b"abc", 9)] * 2).blobs
    raw, starts = b"".join(blobs), [0, 46, 92]
    assert selected(names, raw, starts, identity=IDENTITY + 1) == ([], 0, 1000)
    assert selected(names, raw, starts, first=8) == ([], 0, 1000)
    assert selected(names, raw, [0, 20, 92]) == ([], 0, 1000)
    with pytest.raises(Damaged, match="belongs"):
        decode(raw, 0, 46, IDENTITY + 1)


@needsCompiled
@pytest.mark.parametrize("first", [-1, 0])
def test_bounds(first: int) -> None:
    """The compiled step does not look behind the end of what it is given."""
    assert COMPILED is not None
    with pytest.raises(IndexError):
        COMPILED.selectRecords(
            [], Record, b"", 0, array("I", (0,)), range(0), (), first, 1, IDENTITY, None, 1, 1
        )


@needsCompiled
def test_sequence() -> None:
    """Encoded records are a sequence; its slices remain valid after it is gone."""
    records = [
        Record(3 * number, number, b"s.%d" % number, b"h" * number, b"p") for number in range(1, 5)
    ]
    kept = encodedRecords(records, skipped=4)
    assert (len(kept), list(kept)) == (4, records)
    assert [kept[0], kept[-1]] == [records[0], records[3]]
    part, whole = kept[1:3], kept[:]
    del kept
    assert (list(part), part.sequences()) == (records[1:3], [6, 9])
    assert list(whole[3:9]) == records[3:] and list(whole[3:1]) == []
    for place in (-5, 4):
        with pytest.raises(IndexError):
            whole[place]
    with pytest.raises(ValueError, match="follow each other"):
        whole[::2]


@needsCompiled
def test_sparse() -> None:
    """A few records of a large block do not keep all of it in memory."""
    records = [Record(number, 1, b"s.%d" % number, b"", bytes(1000)) for number in range(1, 60)]
    block = encodedBlock(records)
    assert COMPILED is not None
    kept, whole = COMPILED.EncodedRecords(Record), COMPILED.EncodedRecords(Record)
    references = sys.getrefcount(block.raw)
    block.select(kept, 0, 59, SubjectVerdicts((b"s.7", b"s.30")), 9, 1 << 20)
    afterFew = sys.getrefcount(block.raw)
    block.select(whole, 0, 59, None, 59, 1 << 20)
    afterAll = sys.getrefcount(block.raw)
    assert (afterFew, afterAll) == (references, references + 1)
    del block
    assert list(kept) == [records[6], records[29]] and list(whole) == records


@needsCompiled
def test_untracked() -> None:
    """The garbage collector does not look at records, of which there are many."""
    assert COMPILED is not None
    raw = encoded(COMPILED, [(b"foo", b"", b"abc", 9)]).blobs[0]
    (record,), _, _ = selected(COMPILED, raw, [0, len(raw)])
    assert not gc.is_tracked(record)


@onEach
def test_tooLong(names: Names) -> None:
    """A record that is too large is refused with the reason."""
    with pytest.raises(ValueError, match="subject of 65536 bytes"):
        encoded(names, [(b"x" * (LARGEST_SUBJECT + 1), b"", b"", 0)])


@needsCompiled
@given(st.binary(max_size=100), st.booleans())
def test_checksum(data: bytes, byMachine: bool) -> None:
    """The compiled checksum is that of the library, with and without the processor's help."""
    lane = import_module("natsbroker._accel.lane")
    assert lane.crc32c(data, byMachine) == crc32c(data)
