"""
The statistics of one kind of link: those that there are, and what those were that are gone.

What is counted only grows; a link is in the statistics from its beginning to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from natsbroker import errors

if TYPE_CHECKING:
    from natsbroker.links.link import Link

__all__ = ["LinkStatistics", "Traffic", "linkTraffic"]

_SLOW = (errors.SLOW_PENDING.reason, errors.SLOW_DEADLINE.reason)

#: Messages in, bytes in, messages out, bytes out.
Traffic = tuple[int, int, int, int]


def linkTraffic(link: Link) -> Traffic:
    """
    What has passed over a link.
    """
    decoder, outbox = link.decoder, link.outbox
    return decoder.messages, decoder.messageBytes, outbox.messages, outbox.messageBytes


class LinkStatistics:
    """
    @ivar ended: how many links ended for which reason.
    """

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self._links: dict[int, Link] = {}
        self._gone = (0, 0, 0, 0)

    def begins(self, link: Link) -> None:
        """
        There is one more link.
        """
        self._links[link.number] = link

    def ends(self, link: Link) -> None:
        """
        There is one less, for its C{reason}.
        """
        if self._links.pop(link.number, None) is not None:
            self.ended[link.reason] += 1
            self._gone = _sum(self._gone, linkTraffic(link))

    @property
    def traffic(self) -> Traffic:
        """
        What has passed over all links that there are and were.
        """
        total = self._gone
        for link in self._links.values():
            total = _sum(total, linkTraffic(link))
        return total

    @property
    def slow(self) -> int:
        """
        How many links were cut because they took too little.
        """
        return sum(self.ended[reason] for reason in _SLOW)

    @property
    def stale(self) -> int:
        """
        How many links were given up because they did not answer.
        """
        return self.ended[errors.STALE.reason]

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self._links.values()))

    def __len__(self) -> int:
        return len(self._links)


def _sum(one: Traffic, other: Traffic) -> Traffic:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
