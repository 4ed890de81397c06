"""
The broker's own events.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from natsbroker.spark.logs.channels import nanoseconds

#: What rows of traffic count.
COUNTS = (
    "msgs_in",
    "bytes_in",
    "msgs_out",
    "bytes_out",
    "no_interest",
    "rs_minus_sent",
    "slow_drops",
)

#: What rows are about.
NAMES = ("account", "peer_kind", "peer", "subject_prefix")

_TYPE = "io.natsbroker.event.v1."
_TEXTS, _NUMBERS = (*NAMES, "mode"), (*COUNTS, "patterns", "refused")

#: Account, kind of peer, peer, and prefix.
Who = tuple[str, str, str, str]


class EventRow(NamedTuple):
    who: Who
    counts: list[int]
    mode: str
    patterns: int


class BrokerEvent(NamedTuple):
    """
    @ivar kind: C{traffic} or C{interest}.
    @ivar seconds: how long what it counts took.
    @ivar cluster: what its cluster is called; empty for none.
    """

    kind: str
    time: int
    seconds: float
    server: str
    cluster: str
    rows: list[EventRow]


def readEvent(data: bytes) -> BrokerEvent:
    try:
        found = json.loads(data)
        event = BrokerEvent(
            found["type"].removeprefix(_TYPE),
            nanoseconds(found["timestamp"]),
            float(found["seconds"]),
            _text(found["server"]["id"]),
            _text(found["cluster"]),
            [_row(each) for each in found["rows"]],
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise ValueError("no event of a broker") from None
    if event.kind not in ("traffic", "interest") or not 0 <= event.seconds < 1e6:
        raise ValueError("no event that is known")
    return event


def _row(row: dict[str, Any]) -> EventRow:
    account, kind, peer, prefix, mode = (_text(row.get(name, "")) for name in _TEXTS)
    *counts, patterns, _ = (_count(row.get(name, 0)) for name in _NUMBERS)
    return EventRow((account, kind, peer, prefix), counts, mode, patterns)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError("a count is expected")
    return value
