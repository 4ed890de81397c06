"""
The parts of rows that several pages share: a peer, its traffic, its subscriptions.

Keys, their order and their absence are those of nats-server's pages.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from natsbroker.monitoring.formats import instant, roundTrip, uptime
from natsbroker.monitoring.queries import Query, flag, text
from natsbroker.wire.text import decoded

Row = dict[str, Any]

#: How many bytes of subscriptions a row lists: as JSON they are at most six times as long, and an
#: answer must have room for them.
_LISTED = 512 << 10

#: How many subscriptions one step takes.
_STEP = 256


def peerMembers(facts: Any) -> Row:
    """
    @param facts: L{natsbroker.connections.facts.ConnectionFacts}, or a link, which has these too.
    """
    return {
        "ip": facts.host,
        "port": facts.port,
        "start": instant(facts.started),
        "last_activity": instant(facts.lastActivity),
    }


def durations(facts: Any, until: float) -> Row:
    """
    @param facts: as in L{peerMembers}.
    @param until: seconds since the epoch.
    """
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
    """
    The parameter C{subs}: whether subjects are listed, and whether subscriptions are in detail.
    """
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
    """
    The list of a connection's subscriptions, made in steps. It is bounded in bytes;
    C{truncated} says that it is not complete.
    """
    listed: list[Any] = []
    room = _LISTED
    for place, (size, each) in enumerate(sized):
        room -= size
        if room < 0:
            break
        if place % _STEP == _STEP - 1:
            yield
        listed.append(each)
    row = {"subscriptions_list_detail" if isDetailed else "subscriptions_list": listed}
    return row if len(listed) >= total else row | {"truncated": True}
