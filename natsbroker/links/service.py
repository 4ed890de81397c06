"""
The part of a broker in one kind of link, as far as the kind makes no difference: a listener, whom
it dials, and what all its links share.

It listens before it dials; what the settings limit, and what is traced, holds for links
that there are as for those to come; once it has ended there is no link, and none comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from twisted.logger import Logger

from natsbroker.config.model import Settings
from natsbroker.links.context import LinkContext, LinkLimits
from natsbroker.links.dependencies import LinkDependencies
from natsbroker.links.diallers import Diallers
from natsbroker.links.listener import LinkPort, ended
from natsbroker.links.registry import LinkRegistry

__all__ = ["LinkService"]

_log = Logger(namespace="natsbroker")

Key = TypeVar("Key", bound=Hashable)


class LinkService(ABC, Generic[Key]):
    """
    The parameter is what tells those apart that are dialled.

    @ivar context: what the links share.
    @ivar _port: where they are listened for. Each kind makes its own, since only it knows what is
        to be made of a connection.
    """

    _port: LinkPort

    def __init__(self, dependencies: LinkDependencies, limits: LinkLimits) -> None:
        self._reactor = reactor = dependencies.reactor
        self._settings = dependencies.settings
        self._clients = clients = dependencies.clients
        self._serverId = dependencies.serverId
        self._random = random = dependencies.random
        self._diallers: Diallers[Key] = Diallers(reactor, random)
        self.context = LinkContext(reactor, clients.turn, clients.wheel, random, limits)
        self.context.fastLane = dependencies.settings.fast_lane
        self.tracingChanged()

    @property
    @abstractmethod
    def links(self) -> LinkRegistry[Any]:
        """
        The links that there are.
        """

    @abstractmethod
    def _identify(self) -> None:
        """
        Say where we are listening now.
        """

    # Beginning and end.

    async def _listen(self) -> None:
        """
        Listen, say where, and from now on dial.

        @raise StartError: if the place is taken.
        """
        await self._port.open()
        self._identify()
        self._diallers.open()

    @abstractmethod
    def announce(self) -> None:
        """
        Say where others can connect.
        """

    def _warnOfUnverified(self, whom: str) -> None:
        """
        Say that we take anybody for those whom we dial.
        """
        _log.warn(
            "TLS certificate chain and hostname of solicited {whom} will not be verified. "
            "DO NOT USE IN PRODUCTION!",
            whom=whom,
        )

    async def stopListening(self) -> None:
        """
        Let nobody connect any more, and dial nobody.
        """
        self._diallers.close()
        await self._port.close()

    async def close(self) -> None:
        """
        End everything.
        """
        await self.stopListening()
        await ended(self.links.close)

    @property
    def port(self) -> int:
        """
        Where it listens; 0 while it does not.
        """
        return self._port.number

    def urls(self) -> list[str]:
        """
        Where it listens, as URLs.
        """
        return self._port.urls()

    # Changing.

    def tracingChanged(self) -> None:
        """
        How much is traced has changed.
        """
        self.context.useTracing(self._clients.tracing)

    def _use(self, settings: Settings, limits: LinkLimits) -> None:
        """
        Other settings are in force: hold the links that there are to their limits.
        """
        self._settings = settings
        self.context.limits = limits
        for link in self.links.everyone():
            link.limitsChanged()
        self.tracingChanged()
