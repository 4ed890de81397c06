"""
The stage on which transcripts are replayed against a server process: sockets and real time.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

from tests.interop.servers import PATIENCE, Server

__all__ = ["ServerStage", "SocketPeer"]


class SocketPeer:
    """
    A client's end on a socket.
    """

    def __init__(self, connection: socket.socket, patience: Callable[[], float]) -> None:
        """
        @param patience: returns the longest wait for output, in seconds.
        """
        self.connection = connection
        self._patience = patience

    def send(self, data: bytes) -> None:
        """Send bytes. A connection that the server has closed is detected by reading."""
        self.connection.settimeout(self._patience())
        try:
            self.connection.sendall(data)
        except ConnectionError:
            pass  # what it wrote before it closed can still be read

    def read(self) -> bytes:
        """
        Wait for output.
        """
        self.connection.settimeout(self._patience())
        try:
            return self.connection.recv(65536)
        except (ConnectionError, ssl.SSLError):
            return b""

    def secure(self, context: ssl.SSLContext) -> SocketPeer:
        """
        @return: the peer after a TLS handshake on this connection.
        """
        self.connection.settimeout(self._patience())
        secured = context.wrap_socket(self.connection, server_hostname="localhost")
        return SocketPeer(secured, self._patience)

    def finish(self) -> None:
        """
        Close the sending side.
        """
        try:
            self.connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other end has closed already

    def close(self) -> None:
        """
        Close.
        """
        self.connection.close()


class ServerStage:
    """
    A running server and real time.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._due = 0.0

    def dial(self) -> SocketPeer:
        """
        Connect to the server's client port.
        """
        connection = socket.create_connection(("127.0.0.1", self.server.port), PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return SocketPeer(connection, self._patience)

    def wait(self, seconds: float) -> None:
        """Wait longer for output by that many seconds from now on."""
        self._due = max(self._due, time.monotonic()) + seconds

    def sleep(self, seconds: float) -> None:
        """
        Let time pass.
        """
        time.sleep(seconds)

    def settle(self, subscriptions: object) -> None:
        """
        Wait until the server has forgotten the connections of a row.

        @param subscriptions: the number of subscriptions of an idle server.
        @raise TimeoutError: if that does not happen in time.
        """
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            page = self.server.monitor("/varz")
            if page["connections"] == 0 and page["subscriptions"] == subscriptions:
                return
            time.sleep(0.002)
        raise TimeoutError("the server still counts connections or subscriptions of clients gone")

    def _patience(self) -> float:
        return PATIENCE / 3 + max(0.0, self._due - time.monotonic())
