"""
What a row says of what somebody is subscribed to.

Promises: nats-server's keys; the list is bounded, however much there is, and says so where not
everything is in it; making it never takes long between two steps.
Must never know: who is subscribed, or how one subscription is shown.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

__all__ = ["subscribed"]

#: How many bytes of subscriptions are listed: their text is at most six times as long, and an
#: answer must have room for it.
_LISTED = 512 << 10

#: How many subscriptions are gone through in one step.
_STEP = 256


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
