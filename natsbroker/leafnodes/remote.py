"""
The addresses of a dialled leafnode remote, and when it is dialled.

Each address has its turn, those of the settings and those that the peer announces.
"""

from __future__ import annotations

from random import Random

from natsbroker.leafnodes.terms import LeafRemoteTerms, LeafURL
from natsbroker.links.tls import isAddress


class LeafRemote:
    """
    @ivar current: the address that was dialled last.
    @ivar delay: further seconds before it is dialled after the next loss.
    @ivar isWanted: it is dialled at all.
    """

    def __init__(self, terms: LeafRemoteTerms, random: Random) -> None:
        self.terms = terms
        self.delay = 0.0
        self.isWanted = not terms.isDisabled
        self._urls = list(terms.urls)
        if terms.isShuffled:
            random.shuffle(self._urls)
        self.current = self._urls[-1]
        self._name = next((each.host for each in terms.urls if not isAddress(each.host)), "")
        self._login = next((each for each in terms.urls if each.user), None)

    @property
    def urls(self) -> list[LeafURL]:
        """
        The addresses, the next one first.
        """
        return list(self._urls)

    def next(self) -> LeafURL:
        """
        The address to dial next.
        """
        urls = self._urls
        if urls[0] == self.current and len(urls) > 1:
            urls.append(urls.pop(0))
        self.current = urls[0]
        return self.current

    def login(self) -> LeafURL:
        """
        The address that was dialled, with the login of the settings if it has none.
        """
        url, login = self.current, self._login
        if url.user or login is None:
            return url
        return LeafURL(url.host, url.port, login.user, login.password)

    @property
    def name(self) -> str:
        """
        The name that the peer's certificate must have.
        """
        host = self.current.host
        return self._name or host if isAddress(host) else host

    def learn(self, urls: list[LeafURL]) -> None:
        """
        Replace the addresses that the peer announced.
        """
        configured = {(each.host, each.port) for each in self.terms.urls}
        told = [each for each in urls if (each.host, each.port) not in configured]
        self._urls = [*told, *self.terms.urls]
        if not self._name:
            self._name = next((each.host for each in told if not isAddress(each.host)), "")

    def takeDelay(self) -> float:
        """
        Read the delay, and reset it.
        """
        delay, self.delay = self.delay, 0.0
        return delay
