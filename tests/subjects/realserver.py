"""
A running nats-server to compare answers with, and the plainest of clients. Without a server the
tests are skipped; after L{Line.ask} the effects of earlier operations have arrived.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.servers import PATIENCE, REAL, Server

__all__ = ["Line", "inQuotes", "realServer"]


class Line:
    """
    One client connection, spoken to in protocol text.
    """

    def __init__(self, port: int, user: str) -> None:
        """
        Connect and log in; the password is C{x}.
        """
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._received = b""
        login = b'CONNECT {"verbose":false,"pedantic":false,"user":"%s","pass":"x"}\r\n'
        self.ask(login % user.encode())

    def ask(self, operations: bytes) -> list[bytes]:
        """
        @return: the lines that the server sends until it has seen to all of the operations, without
            its own PINGs: it sends the first two seconds after the connection began.
        """
        self._socket.sendall(operations + b"PING\r\n")
        while b"PONG\r\n" not in self._received:
            received = self._socket.recv(65536)
            if not received:
                raise ConnectionError(f"the server hung up after {self._received!r}")
            self._received += received
        answer, _, self._received = self._received.partition(b"PONG\r\n")
        return [line for line in answer.split(b"\r\n")[:-1] if line != b"PING"]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


@contextmanager
def realServer(directory: Path, config: str) -> Iterator[int]:
    """
    Run nats-server with a configuration.

    @return: a context manager that gives the port.
    """
    server = Server(REAL, directory, config)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def inQuotes(texts: list[bytes]) -> str:
    """
    @return: the texts as an array of the configuration language.
    """
    return "[" + ", ".join(f'"{text.decode()}"' for text in texts) + "]"
