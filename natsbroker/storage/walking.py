"""
Reading blocks that may be damaged.

Reading a damaged block gives every record in it that is still whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from natsbroker.storage.blocks import HEAD_LENGTH, NONE, Block, Head, numbersIn, parseHead
from natsbroker.storage.records import (
    HEAD_SIZE,
    IDENTITY,
    IDENTITY_OFFSET,
    Damaged,
    crc32c,
    decode,
    lengthAt,
)


def walk(raw: bytes, start: int, identity: int) -> Iterator[tuple[int, int, int]]:
    """
    @return: the sequence, the start and the end of each whole record of a log among any bytes.
    """
    needle = IDENTITY.pack(identity)
    position = start
    while position >= start:
        length = lengthAt(raw, position)
        if length and position + length <= len(raw):
            try:
                record = decode(raw, position, position + length, identity)
            except Damaged:
                pass
            else:
                yield record.sequence, position, position + length
                position += length
                continue
        found = raw.find(needle, position + IDENTITY_OFFSET + 1)
        position = found - IDENTITY_OFFSET if found >= 0 else -1


def _byTable(raw: bytes, head: Head, dead: frozenset[int]) -> Block:
    width = 8 if head.gaps else 4
    region = HEAD_LENGTH + width * head.records
    if head.length != len(raw) or region > len(raw):
        raise Damaged("a block does not have the length that it should")
    table = raw[HEAD_LENGTH:region]
    if crc32c(table) != head.tableChecksum:
        raise Damaged("the table of a block does not match its checksum")
    ends = numbersIn(table[: 4 * head.records])
    starts = [region, *map(region.__add__, ends)]
    sequences: Sequence[int] = range(head.first, head.last + 1)
    if head.gaps:
        sequences = [head.first + each for each in numbersIn(table[4 * head.records :])]
    return Block(raw, head.identity, sequences, starts, dead)


def _byWalking(raw: bytes, identity: int, head: Head | None, dead: frozenset[int]) -> Block | None:
    """
    What can be found in a damaged block; C{head} if that is whole.
    """
    found = {sequence: raw[start:end] for sequence, start, end in walk(raw, 0, identity)}
    if not found:
        return None
    sequences = sorted(found)
    blobs = [found[each] for each in sequences]
    starts = list(accumulate(map(len, blobs), initial=0))
    block = Block(b"".join(blobs), identity, sequences, starts, dead)
    if head is not None and not head.gaps:
        expected = range(head.first, head.last + 1)
        block.missing = [each for each in expected if each not in found and each not in dead]
        block.missingSize = head.size - starts[-1] + HEAD_SIZE * len(sequences)
    return block


def readBlock(raw: bytes, identity: int, first: int, dead: frozenset[int] = NONE) -> Block | None:
    """
    @return: C{None} if there is not one whole record in it.
    """
    head: Head | None = None
    try:
        head = parseHead(raw)
        if head.identity != identity or head.first != first:
            head = None
            raise Damaged("a block stands in the place of another")
        return _byTable(raw, head, dead)
    except Damaged:
        return _byWalking(raw, identity, head, dead)
