"""
A TLS record layer, its peer, and the bytes that they exchange.
"""

from __future__ import annotations

from collections.abc import Callable

from OpenSSL import SSL


def drained(take: Callable[[int], bytes]) -> bytes:
    """Everything that a connection gives at present."""
    data = b""
    while True:
        try:
            data += take(1 << 16)
        except SSL.WantReadError:
            return data


def said(connection: SSL.Connection, data: bytes) -> bytes:
    """The output of a connection for some input."""
    rest = memoryview(data)
    while rest:
        rest = rest[connection.send(rest) :]
    return drained(connection.bio_read)


class Layer:
    """
    A layer between an OpenSSL connection and a transport, with the attributes that L{Records} uses.
    """

    def __init__(self) -> None:
        self.disconnecting = False
        self.transport = self
        self.wires: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Take encrypted bytes."""
        self.wires.append(data)
