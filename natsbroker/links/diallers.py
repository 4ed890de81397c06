"""
The diallers of one kind of link, one for each peer.
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
    pass


class Diallers(Generic[Key]):
    """
    Diallers by the peer's key. Iterating gives the keys.
    """

    def __init__(self, reactor: Any, random: Random) -> None:
        self._reactor = reactor
        self._random = random
        self._diallers: dict[Key, Dialler] = {}
        self._isOpen = False

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._diallers))

    def open(self) -> None:
        self._isOpen = True

    def close(self) -> None:
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
        Dial a peer, unless it is being dialled. Does nothing before L{open} or after L{close}.

        @param what: names the peer in the log.
        @param connect: makes one attempt.
        @param after: seconds until the first attempt.
        @param over: called once with whether the peer answered; not if dialling was stopped.
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
        dialler = self._diallers.pop(key, None)
        if dialler is not None:
            dialler.stop()

    def connect(self, host: str, port: int, timeout: float, factory: Factory) -> Deferred[Any]:
        """
        Connect once.

        @param timeout: in seconds.
        @param factory: makes the protocol of the connection.
        """
        endpoint = peerEndpoint(self._reactor, host, port, timeout)
        connecting: Deferred[Any] = endpoint.connect(factory)
        return connecting
