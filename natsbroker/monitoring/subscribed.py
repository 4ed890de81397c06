"""
What a row says of what somebody is subscribed to.

Promises: nats-server's parameter and keys in its order; the list is bounded, however much there is,
and says so where not everything is in it; making it never takes long between two steps.
Must never know: who is subscribed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from natsbroker.monitoring.formats import shown
from natsbroker.monitoring.queries import Query, flag, text

__all__ = ["askedFor", "detailed", "subscribed"]

#: How many bytes of subscriptions are listed: their text is at most six times as long, and an
#: answer must have room for it.
_LISTED = 512 << 10

#: How many subscriptions are gone through in one step.
_STEP = 256


def askedFor(query: Query) -> tuple[bool, bool]:
    """
    Whether subjects are listed, and whether all is instead that is known of subscriptions.

    @raise BadQuery: if the parameter makes no sense.
    """
    isDetailed = text(query, "subs").lower() == "detail"
    return not isDetailed and flag(query, "subs"), isDetailed


def detailed(
    pattern: bytes, queue: bytes, sid: bytes, delivered: int, cid: int, maximum: int = 0
) -> dict[str, Any]:
    """
    All that is known of one subscription.

    @param queue: empty for none.
    @param delivered: how many messages it has had.
    @param cid: of its connection; 0 for none.
    @param maximum: after how many messages it ends; 0 for never.
    """
    row: dict[str, Any] = {"subject": shown(pattern)}
    if queue:
        row["qgroup"] = shown(queue)
    row["sid"] = shown(sid)
    row["msgs"] = delivered
    if maximum:
        row["max"] = maximum
    row["cid"] = cid
    return row


def subscribed(
    sized: Iterable[tuple[int, Any]], total: int, isDetailed: bool = False
) -> Generator[None, None, dict[str, Any]]:
    """
    The members of a row that list subscriptions, in steps.

    @param sized: how many bytes each counts, and what is shown of it.
    @param total: how many there are.
    @param isDetailed: whether all is shown that is known of each, and not its subject alone.
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
    key = "subscriptions_list_detail" if isDetailed else "subscriptions_list"
    row: dict[str, Any] = {key: listed}
    return row if len(listed) >= total else row | {"truncated": True}
