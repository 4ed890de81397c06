"""
The context of clients that come over WebSocket: that of all clients, with the limits, logins and
address of the C{websocket} block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from natsbroker.clients.context import ClientContext
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.limits import ClientLimits
from natsbroker.config.model import Logging
from natsbroker.config.settings.websocket import Websocket
from natsbroker.interfaces import IAuthorizer


class AuthorizerSource:
    """Gives the authorizer of some clients, made from the settings in force."""

    def __init__(self, everyone: ClientContext, make: Callable[[], IAuthorizer | None]) -> None:
        """
        @param make: makes it, or gives C{None} for the authorizer of all clients. It is called
            again whenever that is another one.
        """
        self._everyone = everyone
        self._make = make
        self._known: tuple[IAuthorizer, IAuthorizer] | None = None

    def __call__(self) -> IAuthorizer:
        general, known = self._everyone.authorizer, self._known
        if known is None or known[0] is not general:
            known = self._known = (general, self._make() or general)
        return known[1]


class WebSocketContext(ClientContext):
    """
    What a reload replaces is read from the context of all clients each time.

    @ivar block: the settings.
    @ivar port: where the broker listens.
    """

    def __init__(
        self,
        everyone: ClientContext,
        block: Websocket,
        makeAuthorizer: Callable[[], IAuthorizer | None],
    ) -> None:
        """
        @param makeAuthorizer: as for L{AuthorizerSource}.
        """
        vars(self).update(vars(everyone))
        self.block = block
        self.port = max(block.port, 0)
        self._everyone = everyone
        self._authorizer = AuthorizerSource(everyone, makeAuthorizer)

    @property
    def limits(self) -> ClientLimits:
        limits, block = self._everyone.limits, self.block
        return replace(
            limits,
            auth_timeout=block.timeout or limits.auth_timeout,
            ping_interval=block.ping_interval or limits.ping_interval,
        )

    @limits.setter
    def limits(self, limits: ClientLimits) -> None:
        self._everyone.limits = limits

    @property
    def tracing(self) -> Logging:
        return self._everyone.tracing

    @tracing.setter
    def tracing(self, tracing: Logging) -> None:
        self._everyone.tracing = tracing

    @property
    def authorizer(self) -> IAuthorizer:
        return self._authorizer()

    @authorizer.setter
    def authorizer(self, authorizer: IAuthorizer) -> None:
        self._everyone.authorizer = authorizer

    @property
    def info(self) -> ServerInfo:
        info, block = self._everyone.info, self.block
        isTLS = block.tls is not None
        return info.changed(
            host=block.host,
            port=self.port,
            auth_required=info.auth_required or block.asksItself,
            tls_required=isTLS,
            tls_available=isTLS,
            connect_urls=info.ws_connect_urls,
        )

    @info.setter
    def info(self, info: ServerInfo) -> None:
        self._everyone.info = info
