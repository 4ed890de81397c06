"""
Events as a broker makes them, for the tests of jobs that read them.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["BEGIN", "event", "interest", "moment", "traffic"]

#: The second when the first event of a test is made: 2026-11-20T16:00:00Z.
BEGIN = 1_795_190_400


def moment(seconds: float) -> str:
    """A time some seconds after the beginning, in RFC 3339."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"2026-11-20T{16 + hours:02d}:{minute:02d}:{second:02d}Z"


def event(kind: str, seconds: float, rows: list[dict[str, Any]], **more: Any) -> bytes:
    """An event that is made some seconds after the beginning."""
    document = {
        "type": f"io.natsbroker.event.v1.{kind}",
        "timestamp": moment(seconds),
        "seconds": more.get("lasted", 10.0),
        "server": {"id": more.get("server", "N1"), "name": "n1"},
        "cluster": more.get("cluster", ""),
        "part": 0,
        "parts": 1,
        "rows": rows,
    }
    return json.dumps(document).encode()


def traffic(
    account: str, prefix: str, kind: str = "client", peer: str = "", **counts: int
) -> dict[str, Any]:
    """A row of traffic."""
    names = {"account": account, "peer_kind": kind, "peer": peer, "subject_prefix": prefix}
    return {**names, **counts}


def interest(account: str, prefix: str, patterns: int = 1) -> dict[str, Any]:
    """A row of what is subscribed to at the broker itself."""
    return {**traffic(account, prefix), "patterns": patterns}
