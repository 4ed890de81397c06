"""Another cluster: the URLs of its members, from the settings and from gossip."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

from twisted.logger import Logger

from natsbroker.config.addresses import RemoteURL
from natsbroker.config.settings.gateways import RemoteGateway
from natsbroker.config.settings.routes import splitRoute
from natsbroker.connections.labels import inQuotes
from natsbroker.errors import logText
from natsbroker.gateways.terms import GatewayTerms, placeOf
from natsbroker.links.tls import LinkTLS, isAddress

_log = Logger(namespace="natsbroker")

#: Seconds before a lost cluster is dialled again: one from the settings, and one from gossip.
_REDIAL = 1.0
_SOON = 0.05


class Remote:
    """A cluster; C{failures} are connections in a row that ended before they started."""

    def __init__(self, name: str, settings: RemoteGateway | None) -> None:
        self.name = name
        self.settings = settings
        self.failures = 0
        self._told: dict[str, RemoteURL] = {}

    @property
    def isImplicit(self) -> bool:
        return self.settings is None

    @property
    def targets(self) -> list[RemoteURL]:
        urls = () if self.settings is None else self.settings.urls
        known = {str(target): target for target in (splitRoute(url, "gateway") for url in urls)}
        return list({**self._told, **known}.values())

    @property
    def addresses(self) -> list[str]:
        return list(map(str, self.targets))

    def shuffled(self, random: Random) -> list[RemoteURL]:
        targets = self.targets
        random.shuffle(targets)
        return targets

    def learn(self, urls: Iterable[str]) -> None:
        for url in urls:
            try:
                target = placeOf(url)
            except ValueError as error:
                _log.debug(
                    "Gateway {name}: {why}", name=inQuotes(self.name), why=logText(str(error))
                )
                continue
            self._told[str(target)] = target

    def update(self, urls: Collection[str]) -> None:
        """Replace the members known from gossip, unless there are no URLs."""
        if urls:
            self._told.clear()
            self.learn(urls)

    def tls(self, terms: GatewayTerms) -> LinkTLS | None:
        return terms.remoteTLS.get(self.name) or terms.tls

    def certified(self, target: RemoteURL) -> str:
        """The name for a certificate: the host, or for an IP address its cluster's first."""
        if not isAddress(target.host):
            return target.host
        hosts = (other.host for other in self.targets)
        return next((host for host in hosts if not isAddress(host)), target.host)

    @property
    def pause(self) -> float:
        """Seconds before dialling again, always the same as in nats-server."""
        return _SOON if self.isImplicit and not self.failures else _REDIAL
