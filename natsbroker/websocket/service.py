"""The listener for WebSocket connections of clients and leafnodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from email.utils import formatdate
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from natsbroker.clients.context import AuthorizerSource
from natsbroker.clients.protocol import ClientProtocol
from natsbroker.config.addresses import joined
from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.config.settings.listeners import advertised
from natsbroker.config.settings.websocket import Websocket
from natsbroker.config.tls import TLSSettings
from natsbroker.connections.hostaddresses import addressesOf
from natsbroker.connections.tlscontext import contextFrom
from natsbroker.interfaces import IAuthorizer, IBrokerHost, ILinks
from natsbroker.links.context import LinkContext, LinkDependencies
from natsbroker.links.listener import LinkPort
from natsbroker.links.service import ConnectionService
from natsbroker.links.tls import LinkTLS
from natsbroker.monitoring.formats import nanoseconds, number
from natsbroker.runtime.reload import Step
from natsbroker.websocket.context import WebSocketClients
from natsbroker.websocket.origins import OriginCheck
from natsbroker.websocket.protocol import AcceptedWebSocket
from natsbroker.websocket.upgrade import HandshakeTerms, Upgrade

_log = Logger(namespace="natsbroker")

#: By the key of the block that names a cookie: the member of CONNECT that the cookie stands for.
_COOKIES = {
    "jwt_cookie": "jwt",
    "user_cookie": "user",
    "pass_cookie": "pass",
    "token_cookie": "auth_token",
}


def termsFrom(block: Websocket, hasMQTT: bool) -> HandshakeTerms:
    cookies = {getattr(block, key): member for key, member in _COOKIES.items()}
    return HandshakeTerms(
        OriginCheck.fromSettings(block.same_origin, block.allowed_origins),
        block.compression,
        block.headers,
        {name: member for name, member in cookies.items() if name},
        hasMQTT,
    )


def tlsFrom(block: Websocket) -> LinkTLS | None:
    """
    The terms of TLS. L{natsbroker.connections.tlscontext.TLSSettingsError} for wrong files or
    names.
    """
    if block.tls is None:
        return None
    context = contextFrom(block.tls)
    return LinkTLS(context, context, block.tls)


def loginSettings(settings: Settings, block: Websocket) -> Settings:
    settings = replace(settings, tls=block.tls)
    if not block.asksItself:
        return settings
    return replace(
        settings,
        no_auth_user=block.no_auth_user,
        authorization=replace(
            settings.authorization, user=block.user, password=block.password, token=block.token
        ),
    )


def mapsCertificates(tls: TLSSettings | None) -> bool:
    return tls is not None and tls.verify_and_map


class WebSocketFactory(Factory):
    noisy = False

    def __init__(self, service: WebSocketService, tls: LinkTLS | None) -> None:
        self.tls = tls
        self._service = service

    def buildProtocol(self, addr: IAddress | None) -> AcceptedWebSocket:
        protocol = AcceptedWebSocket(self._service, self._service.context, self.tls)
        protocol.factory = self
        return protocol


class WebSocketService(ConnectionService):
    """
    C{handshakes} are connections that are not yet WebSockets. C{isProxied} expects proxies'
    headers.
    """

    def __init__(self, dependencies: LinkDependencies, host: IBrokerHost, links: ILinks) -> None:
        """C{ValueError} if the settings contradict each other, or a certificate cannot be used."""
        settings, clients = dependencies.settings, dependencies.clients
        block = self.block = settings.websocket or Websocket()
        self.terms = termsFrom(block, settings.mqtt is not None and settings.mqtt.isOn)
        self.isProxied = settings.proxy_protocol
        self.handshakes: set[AcceptedWebSocket] = set()
        self._dependencies = dependencies
        self._host: Any = host
        self._links = links
        self.context = LinkContext(
            dependencies.reactor, clients.batch, clients.wheel, dependencies.random
        )
        self.context.fastLane = settings.fast_lane
        self._authorizerFor(settings)
        self.clients = WebSocketClients(
            clients, block, lambda: self._authorizerFor(self._host.settings)
        )
        self._factory = WebSocketFactory(self, tlsFrom(block))
        self._port = LinkPort(
            dependencies.reactor,
            block.host,
            block.port,
            self._factory,
            "websocket",
            block.scheme,
            dependencies.sockets.pop("websocket", None),
        )

    def _authorizerFor(self, settings: Settings) -> IAuthorizer | None:
        """
        An authorizer for WebSocket; C{None} for that of all clients.

        @raise ValueError: if the settings leave open who may connect.
        """
        block = self.block
        if not block.asksItself and mapsCertificates(block.tls) == mapsCertificates(settings.tls):
            return None
        return self._dependencies.authorizerFor(loginSettings(settings, block))

    def _leafAuthorizer(self) -> IAuthorizer | None:
        """
        The authorizer of leafnodes. They log in as at their own port, but this block names the user
        of those without a login.
        """
        guest, settings = self.block.no_auth_user, self._host.settings
        if not guest or guest == settings.no_auth_user:
            return None
        return self._dependencies.authorizerFor(replace(settings, no_auth_user=guest))

    def date(self) -> str:
        return formatdate(self._dependencies.reactor.seconds(), usegmt=True)

    def usePoller(self, poller: Any) -> None:
        self.context.poller = poller

    async def open(self, settings: Settings) -> None:
        await self._port.open()
        self.clients.port = self._port.number
        route: Any = self._links.find("route")
        if route is not None:
            route.cluster.webSocketUrls = self._urlsToTell()
        leafs: Any = self._links.find("leaf")
        if leafs is not None:
            clients = self._dependencies.clients
            leafs.leafs.webSocketAuthorizer = AuthorizerSource(clients, self._leafAuthorizer)

    def _urlsToTell(self) -> tuple[str, ...]:
        block, port = self.block, self._port.number
        if block.advertise:
            return (joined(*advertised(block.advertise, port)),)
        return tuple(joined(address, port) for address in addressesOf(block.host))

    def announce(self) -> None:
        block = self.block
        _log.info(
            "Listening for websocket clients on {scheme}://{where}",
            scheme=block.scheme,
            where=str(self._port),
        )
        if block.tls is None:
            _log.warn("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")

    def urls(self) -> Sequence[str]:
        return self._port.urls()

    def leave(self) -> None:
        ensureDeferred(self._port.close())

    async def stopListening(self) -> None:
        await self._port.close()
        for handshake in list(self.handshakes):
            handshake.abort()

    def protocolFor(self, below: AcceptedWebSocket, upgrade: Upgrade) -> Any:
        """A protocol for the kind of the peer; C{None} if such peers are not expected."""
        if upgrade.isLeafnode:
            if below.adoption is not None:
                # Its acceptor counts it as a client until it has ended.
                self.clients.context.connections.left(below.adoption.cid, "")
            leafs: Any = self._links.find("leaf")
            return None if leafs is None else leafs.protocolOver(below)
        above = self._clientOver(upgrade)
        above.adoption = below.adoption
        above.credentials = upgrade.credentials
        above.forwardedFor = upgrade.forwardedFor
        above.certificate = below.certificate
        above.tls = below.tls
        above.isSecured = above.tls is not None
        return above

    def _clientOver(self, upgrade: Upgrade) -> ClientProtocol:
        if upgrade.isMQTT:
            clients: Any = self._links.find("mqtt")
            ofMQTT: ClientProtocol = clients.protocolOverWebSocket()
            return ofMQTT
        context: Any = self.clients.context
        above = ClientProtocol(context)
        above.connectionType = "WEBSOCKET"
        return above

    def plan(self, settings: Settings, changes: Sequence[Change]) -> Step:
        before, block = self.block, settings.websocket or Websocket()
        if block.port < 0:
            block = replace(block, port=before.port)
        for field in fields(Websocket):
            if field.name != "tls" and getattr(before, field.name) != getattr(block, field.name):
                raise ValueError("config reload not supported for Websocket")
        if (before.tls is None) != (block.tls is None):
            raise ValueError("config reload not supported for Websocket: TLS on or off")
        tls = tlsFrom(block)
        self._authorizerFor(settings)

        def apply() -> None:
            self.block = self.clients.block = block
            self._factory.tls = tls

        return apply

    def varz(self) -> Mapping[str, Any]:
        block = self.block
        tls, isOwn = block.tls, block.handshake_timeout != Websocket().handshake_timeout
        told = {
            "host": block.host,
            "port": self._port.number,
            "advertise": block.advertise,
            "no_auth_user": block.no_auth_user,
            "jwt_cookie": block.jwt_cookie,
            # As in nats-server, which shows what was configured.
            "handshake_timeout": nanoseconds(block.handshake_timeout) if isOwn else 0,
            "auth_timeout": number(block.timeout),
            "no_tls": block.no_tls,
            "tls_map": mapsCertificates(tls),
            "tls_pinned_certs": [] if tls is None else sorted(tls.pinned_certs),
            "same_origin": block.same_origin,
            "allowed_origins": list(block.allowed_origins),
            "compression": block.compression,
            "tls_cert_not_after": self._port.expiry,
        }
        return {key: value for key, value in told.items() if value}
