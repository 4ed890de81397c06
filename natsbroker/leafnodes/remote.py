"""
One of those whom we dial as a leafnode: which of its addresses comes next, and when.

Every address has its turn, configured ones and those that the peer told of; the name in
a certificate is that of the address that was dialled, or of the settings where that is no name.
"""

from __future__ import annotations

from random import Random

from natsbroker.leafnodes.terms import LeafRemoteTerms, LeafURL
from natsbroker.links.tls import isAddress

__all__ = ["LeafRemote"]


class LeafRemote:
    """
    @ivar terms: how it is dialled.
    @ivar current: the address that was dialled last.
    @ivar delay: for how many seconds more it is not dialled after the next loss.
    @ivar isWanted: whether it is dialled at all.
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
        The address that was dialled, with a user: the settings' where it has none of its own.
        """
        url, login = self.current, self._login
        if url.user or login is None:
            return url
        return LeafURL(url.host, url.port, login.user, login.password)

    @property
    def name(self) -> str:
        """
        Whom the certificate of the address that was dialled must be for.
        """
        host = self.current.host
        return self._name or host if isAddress(host) else host

    def learn(self, urls: list[LeafURL]) -> None:
        """
        The peer says where it and the other members of its cluster are.
        """
        configured = {(each.host, each.port) for each in self.terms.urls}
        told = [each for each in urls if (each.host, each.port) not in configured]
        self._urls = [*told, *self.terms.urls]
        if not self._name:
            self._name = next((each.host for each in told if not isAddress(each.host)), "")

    def takeDelay(self) -> float:
        """
        For how many seconds more it is not dialled, once.
        """
        delay, self.delay = self.delay, 0.0
        return delay
