"""
Single records of blocks.
"""

from __future__ import annotations

from random import Random

from natsbroker.storage.blocks import build, chunks, placeIn, readBlock
from natsbroker.storage.records import encodeBatch


def test_placeOfOne() -> None:
    """
    A single record is found at the place that the whole block gives it, with gaps and without.
    """
    chance = Random(7)
    for gap in (1, 3):
        sequences = range(5, 5 + 40 * gap, gap)
        blobs = [
            encodeBatch(9, number, [(b"s", b"", bytes(chance.randrange(9)), 1)], 1, 0, b"s").blobs[
                0
            ]
            for number in sequences
        ]
        raw = build(b"mark-abc", 9, 1, next(chunks(sequences, blobs)))
        block = readBlock(raw, 9, 5)
        assert block is not None
        for sequence in range(5 + 40 * gap + 2):
            place = placeIn(raw, sequence)
            if sequence in sequences:
                index = block.indexOf(sequence)
                assert place == block.place(index)
            else:
                assert place is None
        assert placeIn(memoryview(raw), 5) == placeIn(raw, 5)
        for length in range(0, len(raw), 7):
            place = placeIn(raw[:length], sequences[-1])
            assert place is None or place[1] <= length


def test_livingOfSome() -> None:
    """Of some sequences those are found that are in the block and not deleted, with their size."""
    for gap in (1, 3):
        sequences = range(5, 5 + 10 * gap, gap)
        entries = [(b"s", b"", b"x" * count, 1) for count in range(10)]
        blobs = [
            encodeBatch(9, number, [entry], 1, 0, b"s").blobs[0]
            for number, entry in zip(sequences, entries, strict=True)
        ]
        raw = build(b"mark-abc", 9, 1, next(chunks(sequences, blobs)))
        block = readBlock(raw, 9, 5, frozenset((sequences[2], sequences[7])))
        assert block is not None
        indexes = block.livingOf(range(sequences[-1] + 5))
        assert indexes == [0, 1, 3, 4, 5, 6, 8, 9]
        assert block.lengths(indexes) == sum(map(block.length, indexes)) == 36 + 8
        assert block.livingOf([4, sequences[2], sequences[3], sequences[9] + 1]) == [3]
