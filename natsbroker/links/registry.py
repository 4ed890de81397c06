"""
The links of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from natsbroker import errors
from natsbroker.links.context import LinkContext
from natsbroker.links.link import Link

__all__ = ["LinkRegistry"]

AnyLink = TypeVar("AnyLink", bound=Link)


class LinkRegistry(Generic[AnyLink]):
    """
    Open links by number. Iterating gives a snapshot. Each kind of link has a subclass.

    @ivar context: shared by the links.
    @ivar isOver: the registry closes: a link that opens later is closed at once.
    """

    def __init__(self, context: LinkContext) -> None:
        self.context = context
        self.isOver = False
        self._links: dict[int, AnyLink] = {}
        self._waiting: list[Callable[[], None]] = []

    def everyone(self) -> list[AnyLink]:
        """
        All links, agreed on or not.
        """
        return list(self._links.values())

    def __iter__(self) -> Iterator[AnyLink]:
        return iter(self.everyone())

    def __len__(self) -> int:
        return len(self._links)

    def linkOpened(self, link: AnyLink) -> None:
        """
        There is one more.
        """
        self._links[link.number] = link
        if self.isOver:
            link.close(errors.SERVER_SHUTDOWN)

    def linkEnding(self, link: AnyLink) -> None:
        """
        One ends: at once it leads to nobody.
        """

    def linkGone(self, link: AnyLink) -> None:
        """
        One is gone, perhaps one that never came.
        """
        self._links.pop(link.number, None)
        if not self._links:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()

    def close(self, done: Callable[[], None]) -> None:
        """
        End all.

        @param done: called when there is none.
        """
        self.isOver = True
        if not self._links:
            done()
            return
        self._waiting.append(done)
        for link in self.everyone():
            link.close(errors.SERVER_SHUTDOWN)
