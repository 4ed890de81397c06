"""INFO, and the addresses at which the broker listens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from natsbroker import NATS_VERSION, __version__
from natsbroker.clients.context import ClientContext
from natsbroker.clients.finding import sessionsOf
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.listeners import Listeners
from natsbroker.config.model import Monitoring, Settings
from natsbroker.connections.listener import urlOf
from natsbroker.links.services import Links
from natsbroker.server.identity import ServerKeys
from natsbroker.wire.columnar import VERSION as FRAMES

if TYPE_CHECKING:
    from natsbroker.monitoring.service import MonitoringService


def infoFrom(
    settings: Settings, serverId: str, host: str, port: int, authRequired: bool, xkey: str = ""
) -> ServerInfo:
    tls = settings.tls
    advertised, advertisedPort = _advertised(settings.client_advertise)
    return ServerInfo(
        server_id=serverId,
        server_name=settings.server_name or serverId,
        version=NATS_VERSION,
        natsbroker=__version__,
        host=advertised or host,
        port=advertisedPort or port,
        headers=not settings.no_header_support,
        # As in nats-server: otherwise clients would not send the login of a system user.
        auth_required=authRequired or settings.isOpenBesideSystem,
        tls_required=tls is not None and not settings.allow_non_tls,
        tls_verify=tls is not None and tls.verify,
        tls_available=tls is not None and settings.allow_non_tls,
        max_payload=settings.max_payload,
        xkey=xkey,
        jetstream=settings.jetstream.enabled,
        cluster=settings.clusterName,
        nb_export=FRAMES if settings.streaming or settings.jetstream.enabled else 0,
    )


def _advertised(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]") or not port.isdigit():
        return text.strip("[]"), 0
    return host.strip("[]"), int(port)


def listeningAt(monitoring: Monitoring, pages: MonitoringService | None) -> Monitoring:
    """The block with the actual port of the pages, which the kernel may have chosen."""
    if pages is None or pages.address is None:
        return monitoring
    if pages.scheme == "https":
        return replace(monitoring, https_port=pages.address.port)
    return replace(monitoring, http_port=pages.address.port)


@dataclass
class ServerInfoPublisher:
    _keys: ServerKeys
    _context: ClientContext
    _listeners: Listeners
    _pages: MonitoringService | None
    _links: Links

    def inUse(self, settings: Settings) -> Settings:
        port = self._listeners.firstAddress()[1] if self._listeners.isOpen else 0
        return replace(
            settings,
            port=port or settings.port,
            monitoring=listeningAt(settings.monitoring, self._pages),
        )

    def addresses(self) -> dict[str, list[str]]:
        pages = self._pages
        isThere = pages is not None and pages.address is not None
        monitoring = [urlOf(pages.scheme, pages.address)] if pages is not None and isThere else []
        return {"nats": self._listeners.urls(), "monitoring": monitoring, **self._links.addresses()}

    def refresh(self, settings: Settings, isLameDuck: bool) -> None:
        context = self._context
        host, port = settings.host, settings.port
        if self._listeners.isOpen:
            host, port = self._listeners.firstAddress()
        isAsked = context.authorizer.required
        info = infoFrom(settings, self._keys.id, host, port, isAsked, self._keys.xkey)
        context.info = info.changed(ldm=isLameDuck, **self._links.clientInfo())

    def clusterChanged(self) -> None:
        context = self._context
        before, context.info = context.info, context.info.changed(**self._links.clientInfo())
        if context.info != before:
            for session in sessionsOf(context.connections):
                session.infoChanged()
