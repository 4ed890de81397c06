"""
The common parts of rows: a peer, its traffic, its subscriptions, with nats-server's keys and order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from natsbroker.monitoring.formats import instant, roundTrip, uptime
from natsbroker.monitoring.queries import Query, flag, text
from natsbroker.wire.text import decoded

Row = dict[str, Any]

#: The most bytes of subscriptions in a row. As JSON they are at most six times as long, and an
#: answer must have room for them.
_LISTED = 512 << 10

#: The subscriptions that one step takes.
_STEP = 256


def peerMembers(facts: Any) -> Row:
    """
    The members about a peer: L{natsbroker.connections.facts.ConnectionFacts}, or a link with the
    same attributes.
    """
    return {
        "ip": facts.host,
        "port": facts.port,
        "start": instant(facts.started),
        "last_activity": instant(facts.lastActivity),
    }


def durations(facts: Any, until: float) -> Row:
    """Durations until a time in seconds since the epoch."""
    return {
        "rtt": roundTrip(facts.roundTrip),
        "uptime": uptime(until - facts.started),
        "idle": uptime(until - facts.lastActivity),
    }


def trafficMembers(traffic: tuple[int, int, int, int], subscriptions: int) -> Row:
    inMessages, inBytes, outMessages, outBytes = traffic
    return {
        "in_msgs": inMessages,
        "out_msgs": outMessages,
        "in_bytes": inBytes,
        "out_bytes": outBytes,
        "subscriptions": subscriptions,
    }


def askedFor(query: Query) -> tuple[bool, bool]:
    isDetailed = text(query, "subs").lower() == "detail"
    return not isDetailed and flag(query, "subs"), isDetailed


def subscriptionRow(
    pattern: bytes,
    queue: bytes,
    sid: bytes,
    delivered: int,
    cid: int,
    maximum: int = 0,
    account: str = "",
) -> Row:
    row: Row = {"account": account, "account_tag": account} if account else {}
    row["subject"] = decoded(pattern)
    if queue:
        row["qgroup"] = decoded(queue)
    row |= {"sid": decoded(sid), "msgs": delivered}
    if maximum:
        row["max"] = maximum
    row["cid"] = cid
    return row


def subscriptionMembers(
    sized: Iterable[tuple[int, Any]], total: int, isDetailed: bool = False
) -> Generator[None, None, Row]:
    """A connection's subscriptions in steps, bounded in bytes as C{truncated} says."""
    listed: list[Any] = []
    room = _LISTED
    for place, (size, subscription) in enumerate(sized):
        room -= size
        if room < 0:
            break
        if place % _STEP == _STEP - 1:
            yield
        listed.append(subscription)
    row = {"subscriptions_list_detail" if isDetailed else "subscriptions_list": listed}
    return row if len(listed) >= total else row | {"truncated": True}
