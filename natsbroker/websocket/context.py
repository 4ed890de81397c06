"""The context of WebSocket clients. Its limits and logins are those of the block C{websocket}."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from natsbroker.clients.context import AuthorizerSource, ClientContext, ListenerContext
from natsbroker.clients.info import ServerInfo
from natsbroker.config.model import Settings
from natsbroker.config.settings.websocket import Websocket
from natsbroker.interfaces import IAuthorizer


class WebSocketClients:
    """
    @ivar block: the settings.
    @ivar port: the port on which the broker listens.
    @ivar context: of the clients.
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
        self.block = block
        self._laidOver: tuple[object, object, Settings] = None, None, everyone.settings
        # The same object for each client: it remembers the lines that it has written.
        self._shown: tuple[object, object, int, ServerInfo] = None, None, 0, everyone.info
        self.port = max(block.port, 0)
        authorizer = AuthorizerSource(everyone, makeAuthorizer)
        self.context = ListenerContext(everyone, self._settings, self._info, authorizer)

    def _settings(self, general: Settings) -> Settings:
        block = self.block
        if self._laidOver[0] is not general or self._laidOver[1] is not block:
            authorization = general.authorization
            timeout = block.timeout or authorization.timeout
            settings = replace(
                general,
                authorization=replace(authorization, timeout=timeout),
                ping_interval=block.ping_interval or general.ping_interval,
            )
            self._laidOver = general, block, settings
        return self._laidOver[2]

    def _info(self, info: ServerInfo) -> ServerInfo:
        block = self.block
        if self._shown[:3] != (info, block, self.port):
            self._shown = info, block, self.port, self._infoWith(info, block)
        return self._shown[3]

    def _infoWith(self, info: ServerInfo, block: Websocket) -> ServerInfo:
        isTLS = block.tls is not None
        return info.changed(
            host=block.host,
            port=self.port,
            auth_required=info.auth_required or block.asksItself,
            tls_required=isTLS,
            tls_available=isTLS,
            connect_urls=info.ws_connect_urls,
        )
