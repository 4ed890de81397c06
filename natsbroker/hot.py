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
    "AckCollector",
    "Alarm",
    "Collector",
    "Connection",
    "Decoder",
    "DirectGetStep",
    "EncodedRecords",
    "FlushBatch",
    "FrameLane",
    "InternalPublisher",
    "Lane",
    "LinkLane",
    "Matcher",
    "Matches",
    "Outbox",
    "Poller",
    "PublishStep",
    "Seal",
    "ServiceSubscription",
    "Shadow",
    "SidTable",
    "SubjectIndex",
    "Subscription",
    "SyncedWriter",
    "TrafficCounter",
    "closeAll",
    "decodeBlock",
    "encodeRecords",
    "findLast",
    "findRecord",
    "gatherBlocks",
    "maskBytes",
    "packFrame",
    "readAcks",
    "readFrames",
    "readPublishes",
    "selectRecords",
    "storedRecords",
    "useShortSlices",
    "writeMessages",
    "writePubAcks",
]

COMPILED = False
REASON = ""

#: C{None} where they are not compiled: the buffers of plain TCP connections, what reads and writes
#: TLS records in bulk, a thread that writes without the interpreter, a timer of microseconds, and
#: the lane of messages that come over routes.
Alarm: Any = None
Connection: Any = None
Poller: Any = None
Seal: Any = None
SyncedWriter: Any = None
LinkLane: Any = None

#: Asks Linux for short slices of processor time for the calling thread. C{None} where it is not
#: compiled.
useShortSlices: Any = None

#: Collects what clients send to a consumer, acknowledgements in runs. Where it is C{None},
#: L{natsbroker.accounts.batches.Batcher} collects them as messages.
AckCollector: Any = None

#: Steps in front of L{natsbroker.websocket.frames}; C{None} where they are not compiled.
FrameLane: Any = None
maskBytes: Any = None
readFrames: Any = None

#: Steps in front of L{natsbroker.storage.records}, of L{natsbroker.storage.exports}, of
#: L{natsbroker.storage.lmdb.fetching}, of L{natsbroker.jetstream.streams.publish}, of
#: L{natsbroker.jetstream.streams.directget} and of Google's protobuf library, for what comes in
#: bulk or often; C{None} where they are not compiled.
DirectGetStep: Any = None
EncodedRecords: Any = None
PublishStep: Any = None
encodeRecords: Any = None
findLast: Any = None
findRecord: Any = None
gatherBlocks: Any = None
packFrame: Any = None
readAcks: Any = None
readPublishes: Any = None
selectRecords: Any = None
storedRecords: Any = None
writeMessages: Any = None
writePubAcks: Any = None

if TYPE_CHECKING or os.environ.get("NATSBROKER_PURE", "") not in ("", "0"):
    REASON = "NATSBROKER_PURE is set"
else:
    try:
        from natsbroker._accel import lane

        COMPILED = True
    except ImportError as error:
        REASON = f"the compiled lane is not installed ({error})"

if TYPE_CHECKING or not COMPILED:
    from natsbroker.pure.collector import Collector
    from natsbroker.pure.lane import InternalPublisher, Lane
    from natsbroker.pure.outbox import FlushBatch, Outbox
    from natsbroker.pure.s2block import decodeBlock
    from natsbroker.subjects.index import SubjectIndex
    from natsbroker.subjects.matcher import Matcher, Matches, TrafficCounter
    from natsbroker.subjects.subscription import (
        ServiceSubscription,
        Shadow,
        SidTable,
        Subscription,
        closeAll,
    )
    from natsbroker.wire.decoder import Decoder
else:
    globals().update({name: getattr(lane, name) for name in __all__[2:]})
