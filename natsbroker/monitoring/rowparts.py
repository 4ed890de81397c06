"""
What the rows of all connections have in common, of clients and of other servers.

Promises: the keys of nats-server's pages, those that stand together there in its order.
Must never know: which page shows them, or what stands between them.
"""

from __future__ import annotations

from typing import Any

from natsbroker.monitoring.formats import instant, roundTrip, uptime
from natsbroker.monitoring.views import MomentView

__all__ = ["ages", "passed", "whereabouts"]


def whereabouts(facts: MomentView) -> dict[str, Any]:
    """
    Where a connection comes from, and since when.
    """
    return {
        "ip": facts.host,
        "port": facts.port,
        "start": instant(facts.started),
        "last_activity": instant(facts.lastActivity),
    }


def ages(facts: MomentView, until: float) -> dict[str, Any]:
    """
    How long everything takes and took.

    @param until: the time to which the connection has lasted.
    """
    return {
        "rtt": roundTrip(facts.roundTrip),
        "uptime": uptime(until - facts.started),
        "idle": uptime(until - facts.lastActivity),
    }


def passed(traffic: tuple[int, int, int, int], subscriptions: int) -> dict[str, Any]:
    """
    What has passed over a connection, and what its peer is subscribed to.

    @param traffic: messages in, bytes in, messages out, bytes out.
    @param subscriptions: how many there are.
    """
    inMessages, inBytes, outMessages, outBytes = traffic
    return {
        "in_msgs": inMessages,
        "out_msgs": outMessages,
        "in_bytes": inBytes,
        "out_bytes": outBytes,
        "subscriptions": subscriptions,
    }
