"""
The row of a connection to another server.

Promises: the keys of nats-server's pages in its order, absent where they are absent there.
Must never know: which page shows it.
"""

from __future__ import annotations

from typing import Any

from natsbroker.stats.formats import instant, roundTrip, uptime
from natsbroker.stats.views import TrafficView

__all__ = ["linkRow"]


def linkRow(facts: TrafficView, kind: str, now: float) -> dict[str, Any]:
    """
    @param kind: what the real server calls the connection.
    @param now: seconds since the epoch.
    """
    row = {
        "cid": facts.cid,
        "kind": kind,
        "ip": facts.host,
        "port": facts.port,
        "start": instant(facts.started),
        "last_activity": instant(facts.lastActivity),
        "rtt": roundTrip(facts.roundTrip),
        "uptime": uptime(now - facts.started),
        "idle": uptime(now - facts.lastActivity),
        "pending_bytes": facts.pending,
        "in_msgs": facts.inMessages,
        "out_msgs": facts.outMessages,
        "in_bytes": facts.inBytes,
        "out_bytes": facts.outBytes,
        "subscriptions": facts.subscriptions,
    }
    return {**row, "name": facts.name} if facts.name else row
