"""
The one place that chooses between compiled and pure code of the same meaning. C{NATSBROKER_PURE=1}
in the environment forces the pure code; L{COMPILED} tells the choice and L{REASON} why.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

__all__ = [
    "COMPILED",
    "REASON",
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
    "decodeBlock",
    "decodeRecords",
    "encodeRecords",
    "gatherBlocks",
    "readAcks",
    "readPublishes",
    "writeMessages",
    "writePubAcks",
]

COMPILED = False
REASON = ""

#: The compiled buffers of plain TCP connections; C{None} where they do not exist.
Connection: Any = None
Poller: Any = None

#: What reads and writes TLS records in bulk; C{None} where it is not compiled.
Seal: Any = None

#: A thread that writes without the interpreter; C{None} where it is not compiled.
SyncedWriter: Any = None

#: The lane of messages that come over routes; C{None} where it is not compiled.
LinkLane: Any = None

#: Steps in front of what L{natsbroker.storage.records} does, for many records at once; C{None}
#: where they are not compiled.
decodeRecords: Any = None
encodeRecords: Any = None

#: What L{natsbroker.storage.gathering} does with whole blocks of records; C{None} where it is not
#: compiled.
gatherBlocks: Any = None

#: Steps in front of Google's protobuf library, for the messages of NATS Streaming that come in
#: bulk; C{None} where they are not compiled.
readAcks: Any = None
readPublishes: Any = None
writeMessages: Any = None
writePubAcks: Any = None

if TYPE_CHECKING or os.environ.get("NATSBROKER_PURE", "") not in ("", "0"):
    REASON = "NATSBROKER_PURE is set"
else:
    try:
        from natsbroker import _accel

        COMPILED = True
    except ImportError as error:
        REASON = f"the compiled fast lane is not installed ({error})"

if TYPE_CHECKING or not COMPILED:
    from natsbroker.clients.lane import InternalPublisher, Lane
    from natsbroker.connections.collector import Collector
    from natsbroker.connections.outbox import FlushBatch, Outbox
    from natsbroker.links.s2block import decodeBlock
    from natsbroker.subjects.index import SubjectIndex
    from natsbroker.subjects.matcher import Matcher, Matches, TrafficCounter
    from natsbroker.subjects.subscription import Shadow, SidTable, Subscription, closeAll
    from natsbroker.wire.decoder import Decoder
else:
    Collector = _accel.Collector
    Lane = _accel.Lane
    LinkLane = _accel.LinkLane
    Connection = _accel.Connection
    Poller = _accel.Poller
    InternalPublisher = _accel.InternalPublisher
    Decoder = _accel.Decoder
    Matcher = _accel.Matcher
    Matches = _accel.Matches
    Outbox = _accel.Outbox
    Seal = _accel.Seal
    Shadow = _accel.Shadow
    SidTable = _accel.SidTable
    SubjectIndex = _accel.SubjectIndex
    Subscription = _accel.Subscription
    SyncedWriter = _accel.SyncedWriter
    TrafficCounter = _accel.TrafficCounter
    FlushBatch = _accel.FlushBatch
    closeAll = _accel.closeAll
    decodeBlock = _accel.decodeBlock
    decodeRecords = _accel.decodeRecords
    encodeRecords = _accel.encodeRecords
    gatherBlocks = _accel.gatherBlocks
    readAcks = _accel.readAcks
    readPublishes = _accel.readPublishes
    writeMessages = _accel.writeMessages
    writePubAcks = _accel.writePubAcks
