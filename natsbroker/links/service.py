"""
The services of connection kinds: a base class for any, and one for links over TCP and TLS with a
listener, dialled peers and a registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.config.model import Settings
from natsbroker.interfaces import IConnectionService, IPeerService
from natsbroker.links.context import LinkContext, LinkDependencies
from natsbroker.links.dialling import Diallers
from natsbroker.links.listener import LinkPort, ended
from natsbroker.links.registry import LinkRegistry
from natsbroker.runtime.reload import below, nothing

_log = Logger(namespace="natsbroker")

Key = TypeVar("Key", bound=Hashable)


@implementer(IConnectionService, IPeerService)
class ConnectionService:
    """
    A service without connections: every method does nothing. Kinds override what they need.

    @cvar section: of C{services}, which a reload cannot change; empty for none.
    """

    section: ClassVar[str] = ""
    children: Sequence[Any] = ()

    async def open(self, settings: Any) -> None:
        pass

    def connect(self) -> None:
        pass

    def announce(self) -> None:
        pass

    def urls(self) -> Sequence[str]:
        return ()

    def usePoller(self, poller: Any) -> None:
        pass

    def clientInfo(self) -> Mapping[str, Any]:
        return {}

    def location(self) -> tuple[str, Sequence[str]] | None:
        return None

    def neighbours(self) -> float:
        return 0

    def linksChanged(self) -> None:
        pass

    def reauthorize(self, account: str | None) -> None:
        pass

    def plan(self, settings: Any, changes: Sequence[Any]) -> Callable[[], None]:
        paths = f"services.{self.section}", f"plugins.{self.section}"
        if self.section and below(changes, *paths):
            raise ValueError(f"config reload not supported for service {self.section}")
        return nothing

    def leave(self) -> None:
        pass

    async def stopListening(self) -> None:
        pass

    async def close(self) -> None:
        pass


class LinkService(ConnectionService, ABC, Generic[Key]):
    """
    The service of links, by the keys of dialled peers. Each kind makes its own listener C{_port}.
    """

    links: LinkRegistry[Any]
    _port: LinkPort

    def __init__(self, dependencies: LinkDependencies, settings: Settings) -> None:
        """
        @param settings: those of the links, of which L{LinkContext} knows.
        """
        self._reactor = reactor = dependencies.reactor
        self._settings = dependencies.settings
        self._clients = clients = dependencies.clients
        self._serverId = dependencies.serverId
        self._random = random = dependencies.random
        self._diallers: Diallers[Key] = Diallers(reactor, random)
        self.context = LinkContext(reactor, clients.batch, clients.wheel, random, settings)
        self.context.checks = dependencies.checks
        self.context.nextNumber = clients.connections.nextNumber
        self.context.fastLane = dependencies.settings.fast_lane
        self.tracingChanged()

    @abstractmethod
    def _identify(self) -> None:
        """Set the address at which we listen."""

    async def open(self, settings: Any) -> None:
        await self._port.open()
        self._identify()
        self._diallers.open()

    def usePoller(self, poller: Any) -> None:
        self.context.poller = poller

    def _warnOfUnverified(self, peers: str) -> None:
        _log.warn(
            "TLS certificate chain and hostname of solicited {peers} will not be verified. "
            "DO NOT USE IN PRODUCTION!",
            peers=peers,
        )

    def leave(self) -> None:
        self.links.leave()

    async def stopListening(self) -> None:
        self._diallers.close()
        await self._port.close()

    async def close(self) -> None:
        await self.stopListening()
        await ended(self.links.close)

    @property
    def port(self) -> int:
        return self._port.number

    @property
    def expiry(self) -> str:
        return self._port.expiry

    def urls(self) -> list[str]:
        return self._port.urls()

    def tracingChanged(self) -> None:
        self.context.useTracing(self._clients.settings.logging)

    def _use(self, settings: Settings, ofLinks: Settings) -> None:
        """Apply the limits of other settings to the existing links."""
        self._settings = settings
        self.context.settings = ofLinks
        for link in self.links.everyone():
            link.limitsChanged()
        self.tracingChanged()
