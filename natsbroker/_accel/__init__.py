"""
The compiled twins of the hot names. Importing it fails where they were not compiled.

The names and meanings of the pure modules.
"""

from __future__ import annotations

from natsbroker._accel.lane import (  # type: ignore[import-not-found]
    Collector,
    Connection,
    Decoder,
    FlushBatch,
    InternalPublisher,
    Lane,
    LinkLane,
    Matcher,
    Matches,
    Outbox,
    Poller,
    Seal,
    Shadow,
    SidTable,
    SubjectIndex,
    Subscription,
    SyncedWriter,
    TrafficCounter,
    closeAll,
    crc32c,
    decodeBlock,
    decodeRecords,
    encodeRecords,
    gatherBlocks,
    readAcks,
    readPublishes,
    writeMessages,
    writePubAcks,
)

__all__ = [
    "Collector",
    "Connection",
    "Decoder",
    "FlushBatch",
    "InternalPublisher",
    "Lane",
    "LinkLane",
    "Matcher",
    "Matches",
    "Outbox",
    "Poller",
    "Seal",
    "Shadow",
    "SidTable",
    "SubjectIndex",
    "Subscription",
    "SyncedWriter",
    "TrafficCounter",
    "closeAll",
    "crc32c",
    "decodeBlock",
    "decodeRecords",
    "encodeRecords",
    "gatherBlocks",
    "readAcks",
    "readPublishes",
    "writeMessages",
    "writePubAcks",
]
