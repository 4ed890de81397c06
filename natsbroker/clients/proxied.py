"""
Clients behind a proxy whose header comes before their first byte. INFO is sent before the header,
so that direct clients are served as well.
"""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.clients.context import ClientContext
from natsbroker.clients.session import ClientSession
from natsbroker.connections.proxyheader import HeaderStage, ProxiedPeer

_log = Logger(namespace="natsbroker")


class ProxiedSession(ClientSession):
    __slots__ = ("_stage",)

    peer: Any

    def __init__(self, context: ClientContext, peer: Any) -> None:
        super().__init__(context, peer)
        peer.isUnnamed = True
        self._stage: HeaderStage | None = HeaderStage(
            context.reactor, self._headerRead, self._headerRefused
        )

    def proceed(self) -> None:
        # The decoder must not see a byte of the header.
        if self._stage is None:
            super().proceed()
        elif not self.reason:
            self._stage.received(self.decoder.take())

    def _headerRead(self, client: ProxiedPeer | None, rest: bytes) -> None:
        self._stage = None
        self.peer.named(client)
        if rest:
            self.decoder.append(rest)
            super().proceed()

    def _headerRefused(self, problem: str) -> None:
        self._stage = None
        refuseHeader(self, problem)

    def _closing(self, error: errors.WireError) -> None:
        self._stop()
        super()._closing(error)

    def lost(self, reason: str = "Client Closed") -> None:
        self._stop()
        super().lost(reason)

    def _stop(self) -> None:
        stage, self._stage = self._stage, None
        if stage is not None:
            stage.stop()


def refuseHeader(session: ClientSession, problem: str) -> None:
    _log.warn("{client} - {problem}", client=str(session), problem=problem)
    session.close(errors.BAD_ARGUMENTS)
