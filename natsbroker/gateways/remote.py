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

__all__ = ["Remote"]

_log = Logger(namespace="natsbroker")

#: How long after a connection was lost a cluster is dialled again, in seconds: one that the
#: settings name, and one that others told of.
_REDIAL = 1.0
_SOON = 0.05

#: The longest pause when nobody there lets us in.
_LONGEST = 30.0


class Remote:
    """
    Another cluster.

    @ivar name: of its gateway.
    @ivar terms: what the settings say of it; C{None} for one that others told of.
    @ivar failures: how often in a row a connection ended before it was agreed on.
    """

    def __init__(self, name: str, terms: RemoteClusterTerms | None) -> None:
        self.name = name
        self.terms = terms
        self.failures = 0
        self._told: dict[str, GatewayTarget] = {}

    @property
    def isImplicit(self) -> bool:
        """
        Whether others told of it, and not the settings.
        """
        return self.terms is None

    @property
    def targets(self) -> list[GatewayTarget]:
        """
        Whom to dial, each once.
        """
        known = {} if self.terms is None else {each.place: each for each in self.terms.targets}
        return list({**self._told, **known}.values())

    @property
    def places(self) -> list[str]:
        """
        The same as C{host:port}.
        """
        return [target.place for target in self.targets]

    def shuffled(self, random: Random) -> list[GatewayTarget]:
        """
        The same in any order.
        """
        targets = self.targets
        random.shuffle(targets)
        return targets

    def learn(self, urls: Iterable[str]) -> None:
        """
        Members are there, too.
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
        Members are there, and where the settings say, if they are anywhere.
        """
        if urls:
            self._told.clear()
            self.learn(urls)

    def tls(self, terms: GatewayTerms) -> LinkTLS | None:
        """
        How it is dialled.
        """
        own = None if self.terms is None else self.terms.tls
        return own or terms.tls

    def certified(self, target: GatewayTarget) -> str:
        """
        Whom the certificate of somebody there must be for.
        """
        return certifiedName(target, self.targets)

    @property
    def pause(self) -> float:
        """
        How long to wait before it is dialled again, in seconds.
        """
        if not self.failures:
            return _SOON if self.isImplicit else _REDIAL
        return min(_REDIAL * 2.0 ** min(self.failures - 1, 10), _LONGEST)
