"""
Records as the lane has them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from natsbroker import hot
from natsbroker.interfaces.records import Record
from natsbroker.storage.blocks import Block
from natsbroker.storage.records import encodeBatch

IDENTITY = 0xFEDCBA9876543210


def encodedBlock(records: Sequence[Record], skipped: int = 0) -> Block:
    """
    A block.

    @param skipped: the bytes that precede each header block.
    """
    blobs = [
        encodeBatch(
            IDENTITY,
            record.sequence,
            [
                (
                    record.subject,
                    bytes(skipped if record.headers else 0) + record.headers,
                    record.payload,
                    0,
                )
            ],
            record.timestamp,
            0,
            b"",
        ).blobs[0]
        for record in records
    ]
    sequences = [record.sequence for record in records]
    starts = array("I", accumulate(map(len, blobs), initial=0))
    return Block(b"".join(blobs), IDENTITY, sequences, starts)


def encodedRecords(records: Sequence[Record], skipped: int = 0) -> Any:
    """
    Records that are decoded when they are asked for, without the bytes that are skipped.
    """
    kept = hot.EncodedRecords(Record, skipped)
    block, count = encodedBlock(records, skipped), len(records)
    assert block.select(kept, 0, count, None, count, 1 << 40)[0] == count
    return kept
