"""
Everybody whom one kind of link dials.

Whoever is dialled is dialled by one at a time; before this is opened, and after it is
closed, nobody is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from random import Random
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory

from natsbroker.links.dialling import Dialler, DialTerms, peerEndpoint

__all__ = ["Diallers"]

Key = TypeVar("Key", bound=Hashable)


def _nothing(isReached: bool) -> None:
    """
    What is done when it is over, unless somebody wants to know.
    """


class Diallers(Generic[Key]):
    """
    Those that are being dialled, by what tells them apart; iterating gives that.
    """

    def __init__(self, reactor: Any, random: Random) -> None:
        self._reactor = reactor
        self._random = random
        self._diallers: dict[Key, Dialler] = {}
        self._isOpen = False

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._diallers))

    def open(self) -> None:
        """
        From now on, dial.
        """
        self._isOpen = True

    def close(self) -> None:
        """
        Dial nobody any more.
        """
        self._isOpen = False
        for key in self:
            self.stop(key)

    def dial(
        self,
        key: Key,
        what: str,
        terms: DialTerms,
        connect: Callable[[], Deferred[Any]],
        after: float,
        over: Callable[[bool], None] = _nothing,
    ) -> None:
        """
        Dial somebody, unless that is going on already.

        @param what: names the peer in the log.
        @param connect: makes one attempt.
        @param after: how many seconds from now it begins.
        @param over: called once with whether it was reached; not if it was stopped.
        """
        if not self._isOpen or key in self._diallers:
            return

        def dialled(isReached: bool) -> None:
            del self._diallers[key]
            over(isReached)

        dialler = Dialler(self._reactor, self._random, terms, connect, what, dialled)
        self._diallers[key] = dialler
        dialler.start(after)

    def stop(self, key: Key) -> None:
        """
        Dial somebody no more, if that is going on.
        """
        dialler = self._diallers.pop(key, None)
        if dialler is not None:
            dialler.stop()

    def connect(self, host: str, port: int, timeout: float, factory: Factory) -> Deferred[Any]:
        """
        Connect once.

        @param timeout: how long that may take, in seconds.
        @param factory: makes the protocol of the connection.
        """
        endpoint = peerEndpoint(self._reactor, host, port, timeout)
        connecting: Deferred[Any] = endpoint.connect(factory)
        return connecting
