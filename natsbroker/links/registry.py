"""The links of one kind, and statistics about those that have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from zope.interface import implementer

from natsbroker import errors
from natsbroker.links.context import LinkContext
from natsbroker.links.link import ILinkOwner, Link, LinkTraffic

AnyLink = TypeVar("AnyLink", bound=Link)

_SLOW = (errors.SLOW_PENDING.reason, errors.SLOW_DEADLINE.reason)


@implementer(ILinkOwner)
class LinkRegistry(Generic[AnyLink]):
    """
    Open links by number. Iterating gives a snapshot. Each kind of link has a subclass.

    @ivar isOver: the registry closes: a link that opens later is closed at once.
    @ivar isLeaving: the broker is a lame duck.
    @ivar ended: the number of links that ended for each reason.
    """

    def __init__(self, context: LinkContext) -> None:
        self.context = context
        self.isOver = False
        self.isLeaving = False
        self.ended: Counter[str] = Counter()
        self._links: dict[int, AnyLink] = {}
        self._waiting: list[Callable[[], None]] = []
        self._endedTraffic = (0, 0, 0, 0)

    def everyone(self) -> list[AnyLink]:
        """All links, also those whose peers are not authenticated yet."""
        return list(self._links.values())

    def __iter__(self) -> Iterator[AnyLink]:
        return iter(self.everyone())

    def __len__(self) -> int:
        return len(self._links)

    def linkOpened(self, link: AnyLink) -> None:
        self._links[link.number] = link
        if self.isOver:
            link.close(errors.SERVER_SHUTDOWN)

    def linkEnding(self, link: AnyLink) -> None:
        pass

    def linkGone(self, link: AnyLink) -> None:
        if self._links.pop(link.number, None) is not None:
            self.ended[link.reason] += 1
            self._endedTraffic = _sum(self._endedTraffic, link.counts)
        if not self._links:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()

    def leave(self) -> None:
        self.isLeaving = True

    def close(self, done: Callable[[], None]) -> None:
        self.isOver = True
        if not self._links:
            done()
            return
        self._waiting.append(done)
        for link in self.everyone():
            link.close(errors.SERVER_SHUTDOWN)

    @property
    def traffic(self) -> LinkTraffic:
        """The traffic of all links, including those that have ended."""
        total = self._endedTraffic
        for link in self._links.values():
            total = _sum(total, link.counts)
        return total

    @property
    def slow(self) -> int:
        return sum(self.ended[reason] for reason in _SLOW)

    @property
    def stale(self) -> int:
        return self.ended[errors.STALE.reason]


def _sum(one: LinkTraffic, other: LinkTraffic) -> LinkTraffic:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
