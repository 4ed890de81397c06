"""
Another cluster: the URLs of its members, from the settings and from gossip.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

from twisted.logger import Logger

from natsbroker.connections.labels import inQuotes
from natsbroker.errors import logText
from natsbroker.gateways.terms import (
    GatewayTarget,
    GatewayTerms,
    RemoteClusterTerms,
    certifiedName,
    placeOf,
)
from natsbroker.links.tls import LinkTLS

_log = Logger(namespace="natsbroker")

#: Seconds before a lost cluster is dialled again: one in the settings, and one known from gossip.
_REDIAL = 1.0
_SOON = 0.05

#: The longest pause while the cluster rejects us.
_LONGEST = 30.0


class Remote:
    """
    Another cluster.

    @ivar name: of its gateway.
    @ivar terms: its settings; C{None} for a cluster known from gossip.
    @ivar failures: the number of connections in a row that ended before they started.
    """

    def __init__(self, name: str, terms: RemoteClusterTerms | None) -> None:
        self.name = name
        self.terms = terms
        self.failures = 0
        self._told: dict[str, GatewayTarget] = {}

    @property
    def isImplicit(self) -> bool:
        """
        Known from gossip only.
        """
        return self.terms is None

    @property
    def targets(self) -> list[GatewayTarget]:
        """
        The members to dial.
        """
        known = {} if self.terms is None else {each.place: each for each in self.terms.targets}
        return list({**self._told, **known}.values())

    @property
    def addresses(self) -> list[str]:
        """
        The members as C{host:port}.
        """
        return [target.place for target in self.targets]

    def shuffled(self, random: Random) -> list[GatewayTarget]:
        """
        The members in random order.
        """
        targets = self.targets
        random.shuffle(targets)
        return targets

    def learn(self, urls: Iterable[str]) -> None:
        """
        Add members.
        """
        for url in urls:
            try:
                target = placeOf(self.name, url)
            except ValueError as error:
                _log.debug(
                    "Gateway {name}: {why}", name=inQuotes(self.name), why=logText(str(error))
                )
                continue
            self._told[target.place] = target

    def update(self, urls: Collection[str]) -> None:
        """
        Replace the members known from gossip, unless there are no URLs.
        """
        if urls:
            self._told.clear()
            self.learn(urls)

    def tls(self, terms: GatewayTerms) -> LinkTLS | None:
        own = None if self.terms is None else self.terms.tls
        return own or terms.tls

    def certified(self, target: GatewayTarget) -> str:
        """
        The name that the certificate of a member must have.
        """
        return certifiedName(target, self.targets)

    @property
    def pause(self) -> float:
        """
        Seconds before the next attempt to dial.
        """
        if not self.failures:
            return _SOON if self.isImplicit else _REDIAL
        return min(_REDIAL * 2.0 ** min(self.failures - 1, 10), _LONGEST)
