"""
What a broker says of itself: INFO, and where it really listens.

Promises: ports are those that the kernel chose, once they are known; clients are told when INFO
changes for them.
Must never know: who asks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from natsbroker.clients.context import ClientContext
from natsbroker.clients.finding import sessionsOf
from natsbroker.clients.listener import urlOf
from natsbroker.clients.listeners import Listeners
from natsbroker.config.model import Monitoring, Settings
from natsbroker.links.services import Links
from natsbroker.server.derived import infoFrom
from natsbroker.server.identity import ServerKeys

if TYPE_CHECKING:
    from natsbroker.monitoring.service import MonitoringService

__all__ = ["ServerInfoPublisher"]


class ServerInfoPublisher:
    """
    The face of one broker.
    """

    def __init__(
        self,
        keys: ServerKeys,
        context: ClientContext,
        listeners: Listeners,
        pages: MonitoringService | None,
        links: Links,
    ) -> None:
        """
        @param context: whose INFO it is.
        @param pages: the monitoring port; C{None} without.
        """
        self._keys = keys
        self._context = context
        self._listeners = listeners
        self._pages = pages
        self._links = links

    def inUse(self, settings: Settings) -> Settings:
        """
        The same settings with the ports that clients and the monitoring pages have.
        """
        port = self._listeners.firstAddress()[1] if self._listeners.isOpen else 0
        return replace(
            settings, port=port or settings.port, monitoring=self._monitoring(settings.monitoring)
        )

    def _monitoring(self, monitoring: Monitoring) -> Monitoring:
        pages = self._pages
        if pages is None or pages.address is None:
            return monitoring
        if pages.scheme == "https":
            return replace(monitoring, https_port=pages.address.port)
        return replace(monitoring, http_port=pages.address.port)

    def addresses(self) -> dict[str, list[str]]:
        """
        See L{natsbroker.broker.Broker.addresses}.
        """
        pages = self._pages
        isThere = pages is not None and pages.address is not None
        monitoring = [urlOf(pages.scheme, pages.address)] if pages is not None and isThere else []
        return {"nats": self._listeners.urls(), "monitoring": monitoring, **self._links.addresses()}

    def refresh(self, settings: Settings, isLameDuck: bool) -> None:
        """
        Have INFO say what is so now.
        """
        context = self._context
        host, port = settings.host, settings.port
        if self._listeners.isOpen:
            host, port = self._listeners.firstAddress()
        isAsked = context.authorizer.required
        info = infoFrom(settings, self._keys.id, host, port, isAsked, self._keys.xkey)
        context.info = info.changed(ldm=isLameDuck, **self._links.clusterInfo())

    def clusterChanged(self) -> None:
        """
        The cluster is another one: tell the clients, if INFO names what has changed.
        """
        context = self._context
        before, context.info = context.info, context.info.changed(**self._links.clusterInfo())
        if context.info != before:
            for session in sessionsOf(context.connections):
                session.infoChanged()
