"""
Servers that send an INFO like NATS and use any given certificate.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import warnings
from pathlib import Path

from tests.interop.servers import PATIENCE
from tests.interop.tls.authority import Issued

__all__ = ["INFO", "Impostor"]

INFO = b'INFO {"server_id":"S","tls_required":true,"max_payload":1000} \r\n'


class Impostor:
    """
    A server for one connection.

    @ivar port: its port.
    @ivar told: the bytes that it has received.
    @ivar isOver: whether its client has disconnected.
    """

    def __init__(
        self,
        place: Path,
        shown: Issued | None,
        *more: Issued,
        greeting: bytes = INFO,
        newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        inside: bytes = b"",
    ) -> None:
        """
        @param shown: its certificate; C{None} for no TLS.
        @param more: further certificates that it sends.
        @param inside: its bytes after the handshake.
        """
        self.told = b""
        self.isOver = False
        self._greeting = greeting
        self._inside = inside
        self._context = None if shown is None else _contextWith(place, newest, shown, *more)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(PATIENCE)
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the listener, and wait for the end of the connection."""
        # A thread that waits in accept() is not woken by close().
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listening.accept()
            with connection:
                connection.settimeout(PATIENCE)
                connection.sendall(self._greeting)
                self._talk(connection)
        self.isOver = True

    def _talk(self, connection: socket.socket) -> None:
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
            connection.sendall(self._inside)
        while data := connection.recv(65536):
            self.told += data
            if b"PING\r\n" in data:
                connection.sendall(b"PONG\r\n")


def _contextWith(
    place: Path, newest: ssl.TLSVersion, shown: Issued, *more: Issued
) -> ssl.SSLContext:
    shown.write(place, "shown", *more)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with warnings.catch_warnings():
        # The old versions are there to be refused.
        warnings.simplefilter("ignore", DeprecationWarning)
        context.maximum_version = newest
    context.load_cert_chain(str(place / "shown.pem"), str(place / "shown-key.pem"))
    return context
