"""
Sessions over real sockets in a poller, without a reactor.
"""

from __future__ import annotations

import socket
from typing import Any

from natsbroker import hot
from natsbroker.net.session import ClientSession
from natsbroker.wire.grants import Security
from tests.support import World

__all__ = ["SocketPeer"]


class SocketPeer:
    """
    A session's transport over one end of a socket pair in a poller.
    """

    host, port, connectionType, certificate = "127.0.0.1", 1, "STANDARD", None
    tls: Security | None = None
    isSecured = False

    def __init__(self, world: World, poller: Any, end: socket.socket) -> None:
        self._socket = end
        self.isOpen = True
        self.session = ClientSession(world.context, self)
        self.connection = hot.Connection(
            poller,
            end.fileno(),
            self.session.decoder,
            self.session.outbox,
            self.session.proceed,
            self.session.writeBlocked,
            self._unblocked,
            self._ended,
            self._gone,
        )
        self._closing = False
        self.connection.watch()
        self.session.opened()

    def write(self, data: bytes) -> None:
        """Never called: the outbox has a socket."""
        raise RuntimeError("the outbox is attached")

    def finish(self) -> None:
        """Close when all was sent."""
        self._closing = True
        self.connection.setReading(False)
        if not self.session.outbox.pending:
            self._lost(True)

    def abort(self) -> None:
        """Close."""
        self._lost(False)

    def pauseReading(self) -> None:
        """Take no input."""
        self.connection.setReading(False)

    def resumeReading(self) -> None:
        """Take input."""
        self.connection.setReading(not self._closing)

    def useLane(self, lane: Any) -> None:
        """Let the poller take the lane."""
        if hasattr(self, "connection"):
            self.connection.lane = lane

    def _unblocked(self) -> None:
        self.session.writeProgressed()
        if self._closing:
            self._lost(True)

    def _ended(self) -> None:
        self.connection.setReading(False)
        self.session.inputEnded()

    def _gone(self) -> None:
        self._lost(False)

    def _lost(self, orderly: bool) -> None:
        if self.isOpen:
            self.isOpen = False
            self.connection.forget()
            self._socket.close()
            self.session.lost()
