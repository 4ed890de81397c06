"""
The one place that chooses between the compiled and the pure names.

Promises: the same names with the same meaning either way; C{NATSBROKER_PURE=1} in the environment
forces the pure ones; L{COMPILED} tells which they are and L{REASON} why.
Must never know: anything but the two implementations.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

__all__ = [
    "COMPILED",
    "REASON",
    "Connection",
    "Decoder",
    "Lane",
    "LinkLane",
    "Matcher",
    "Matches",
    "Outbox",
    "Poller",
    "Poster",
    "Shadow",
    "SidTable",
    "SubjectIndex",
    "Subscription",
    "Turn",
]

COMPILED = False
REASON = ""

#: The compiled buffers of plain TCP connections; C{None} where they do not exist.
Connection: Any = None
Poller: Any = None

#: The lane of messages that come over routes; C{None} where it is not compiled.
LinkLane: Any = None

if TYPE_CHECKING or os.environ.get("NATSBROKER_PURE", "") not in ("", "0"):
    REASON = "NATSBROKER_PURE is set"
else:
    try:
        from natsbroker import _accel

        COMPILED = True
    except ImportError as error:
        REASON = f"the compiled fast lane is not installed ({error})"

if TYPE_CHECKING or not COMPILED:
    from natsbroker.subjects.index import SubjectIndex
    from natsbroker.subjects.matcher import Matcher, Matches
    from natsbroker.subjects.subscription import Shadow, SidTable, Subscription
    from natsbroker.wire.decoder import Decoder
    from natsbroker.wire.lane import Lane, Poster
    from natsbroker.wire.outbox import Outbox, Turn
else:
    Lane = _accel.Lane
    LinkLane = _accel.LinkLane
    Connection = _accel.Connection
    Poller = _accel.Poller
    Poster = _accel.Poster
    Decoder = _accel.Decoder
    Matcher = _accel.Matcher
    Matches = _accel.Matches
    Outbox = _accel.Outbox
    Shadow = _accel.Shadow
    SidTable = _accel.SidTable
    SubjectIndex = _accel.SubjectIndex
    Subscription = _accel.Subscription
    Turn = _accel.Turn
