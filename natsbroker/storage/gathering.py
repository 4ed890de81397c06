"""
Blocks as columns, for exports.

The columns that L{natsbroker.storage.exports.columnsOf} makes of the same records, each
of which was verified, or none; while they are made, other threads run.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from natsbroker import hot
from natsbroker.interfaces.records import Columns

_SIZE = slice(68, 76)


def canGather() -> bool:
    return hot.gatherBlocks is not None


def sizeIn(raw: bytes) -> int:
    """
    The bytes of subjects, headers and payloads in a block, as its head says, unverified.
    """
    return int.from_bytes(raw[_SIZE], "little")


def gather(
    raws: Sequence[bytes], identity: int, start: int, stop: int, maxBytes: int, following: int
) -> Columns | None:
    """
    Turn blocks that follow each other into columns.

    @param maxBytes: stop after the record with which the sizes reach it.
    @param following: where the log goes on behind the blocks.
    @return: none if a block or a record is damaged, or is not what it should be.
    """
    found = hot.gatherBlocks(raws, identity, start, stop, maxBytes)
    if found is None:
        return None
    columns, reached, isAll = found
    sequences, times, subjectEnds, subjects, headerEnds, headers, payloadEnds, payloads = columns
    return Columns(
        array("Q", sequences),
        array("q", times),
        array("q", subjectEnds),
        subjects,
        array("q", headerEnds),
        headers,
        array("q", payloadEnds),
        payloads,
        max(following, reached) if isAll else reached,
    )
