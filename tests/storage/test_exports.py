"""
Blocks as columns: what the compiled step gives is what reading record by record gives, or nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.interfaces.records import Columns, Record
from natsbroker.storage.blocks import Contents, build, readBlock
from natsbroker.storage.exports import canGather, columnsOf, gather, sizeIn
from natsbroker.storage.records import encodeBatch
from tests.support import COMPILED, PURE, needsCompiled, using

IDENTITY = 0xFEDCBA9876543210
MARK = b"a mark.."

VALUES: Any = st.tuples(
    st.sampled_from([b"foo", b"foo", b"bar", b""]),
    st.sampled_from([b"", b"", b"headers"]),
    st.binary(max_size=20) | st.sampled_from([b"x" * 1000]),
)

#: Blocks: of each, how far the sequence of each record is from the one before, and the record.
BLOCKS: Any = st.lists(
    st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 1000]), VALUES), min_size=1, max_size=5),
    max_size=4,
)


def built(blocks: Any) -> list[bytes]:
    """The bytes of some blocks."""
    raws, sequence = [], 6
    for block in blocks:
        sequences, blobs = [], []
        for distance, (subject, headers, payload) in block:
            sequence += distance
            sequences.append(sequence)
            entry = (subject, headers, payload, 5)
            blobs += encodeBatch(IDENTITY, sequence, [entry], 6, sequence, b"foo").blobs
        contents = Contents(sequences, list(map(len, blobs)), blobs)
        raws.append(build(MARK, IDENTITY, 3, contents))
    return raws


def recordsIn(raws: list[bytes]) -> list[Record]:
    """The records in some blocks, read one by one."""
    records = []
    for raw in raws:
        first = int.from_bytes(raw[36:44], "little")
        block = readBlock(raw, IDENTITY, first)
        assert block is not None
        records += [block.record(number) for number in range(len(block.sequences))]
    return records


def expected(raws: list[bytes], start: int, stop: int, maxBytes: int) -> Columns:
    """The expected result of gathering."""
    rows: list[Record] = []
    for record in recordsIn(raws):
        if record.sequence >= stop:
            return columnsOf(rows, stop, ())
        if record.sequence >= start:
            rows.append(record)
            maxBytes -= sum(map(len, record[2:]))
            if maxBytes <= 0:
                return columnsOf(rows, record.sequence + 1, ())
    return columnsOf(rows, stop, ())


@needsCompiled
@given(BLOCKS, st.integers(1, 30), st.integers(0, 3000), st.integers(1, 3000))
def test_same(blocks: Any, start: int, length: int, maxBytes: int) -> None:
    """All columns are as they are made of records that were read one by one."""
    raws, stop = built(blocks), start + length
    wanted = expected(raws, start, stop, maxBytes)
    columns = gather(raws, IDENTITY, start, stop, maxBytes, stop)
    assert columns == wanted


@needsCompiled
@given(BLOCKS.filter(bool), st.data())
def test_damage(blocks: Any, data: Any) -> None:
    """A flipped bit anywhere is detected, unless it is in an unwanted part."""
    raws = built(blocks)
    place = data.draw(st.integers(0, len(raws) - 1))
    raw = bytearray(raws[place])
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    broken = [*raws[:place], bytes(raw), *raws[place + 1 :]]
    assert gather(broken, IDENTITY, 1, 1 << 40, 1 << 30, 1 << 40) is None
    start, length = data.draw(st.integers(1, 30)), data.draw(st.integers(0, 30))
    columns = gather(broken, IDENTITY, start, start + length, 1 << 30, start + length)
    assert columns in (None, expected(raws, start, start + length, 1 << 30))


@needsCompiled
@given(st.binary(max_size=300))
def test_anything(data: bytes) -> None:
    """A text that is no block is not gathered."""
    assert gather([data], IDENTITY, 1, 10, 100, 10) is None


@needsCompiled
def test_strangers() -> None:
    """Blocks of another log, blocks out of order and incomplete blocks are not gathered."""
    first, second = built([[(1, (b"foo", b"", b"abc"))] * 3, [(1, (b"foo", b"", b"abc"))] * 3])
    assert gather([first, second], IDENTITY + 1, 1, 50, 1000, 50) is None
    assert gather([second, first], IDENTITY, 1, 50, 1000, 50) is None
    assert gather([first[:-1]], IDENTITY, 1, 50, 1000, 50) is None
    columns = gather([first, second], IDENTITY, 1, 50, 1000, 50)
    assert columns is not None
    assert list(columns.sequences) == [7, 8, 9, 10, 11, 12]


@needsCompiled
def test_goesOn() -> None:
    """The next sequence is where the blocks end, or where the limit of records was reached."""
    raws = built([[(1, (b"foo", b"", b"abc"))] * 3])
    all_ = gather(raws, IDENTITY, 1, 5000, 1000, 4000)
    part = gather(raws, IDENTITY, 1, 5000, 7, 4000)
    assert all_ is not None and part is not None
    assert (all_.next, list(all_.sequences)) == (4000, [7, 8, 9])
    assert (part.next, list(part.sequences)) == (9, [7, 8])
    assert replace(part, next=0) == replace(expected(raws, 1, 5000, 7), next=0)


@needsCompiled
def test_noBytes() -> None:
    """A block of another type than bytes raises TypeError."""
    assert COMPILED is not None
    with pytest.raises(TypeError):
        COMPILED.gatherBlocks(["text"], 1, 1, 1, 1)


@given(BLOCKS)
def test_sizeIn(blocks: Any) -> None:
    """The size in the head of a block is that of subjects, headers and payloads."""
    for raw in built(blocks):
        assert sizeIn(raw) == sum(sum(map(len, record[2:])) for record in recordsIn([raw]))


def test_canGather() -> None:
    """Without the compiled step no blocks can be gathered."""
    with using(PURE):
        assert not canGather()
