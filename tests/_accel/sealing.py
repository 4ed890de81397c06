"""
A session over TLS in memory, for fuzzing what reads and writes records in bulk.

The client's bytes, whole or tampered with, reach the session as if by Twisted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from random import Random
from types import MappingProxyType

from OpenSSL import SSL

from natsbroker.clients.session import ClientSession
from natsbroker.connections.tlsrecords import Records
from natsbroker.wire.grants import Security
from tests.connections.handshakes import Handshake
from tests.connections.recordlayers import Layer, drained, said
from tests.interop.tls.authority import issue
from tests.support import World

__all__ = ["SealedPeer"]


@cache
def _context() -> SSL.Context:
    issued = issue(None)
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate(issued.certificate)
    context.use_privatekey(issued.key)
    return context


class SealedPeer:
    """
    Both ends of a connection, and the session at one of them.

    @ivar isOpen: whether the session goes on.
    """

    host, port, connectionType, certificate = "127.0.0.1", 1, "STANDARD", None
    tls: Security | None = None
    credentials: Mapping[str, str] = MappingProxyType({})
    forwardedFor = ""
    isSecured = True
    isUnnamed = False

    def __init__(self, world: World) -> None:
        self.isOpen = True
        ends = Handshake(_context(), SSL.Context(SSL.TLS_CLIENT_METHOD)).run()
        self._client, self._server = ends.client, ends.server
        self._layer = Layer()
        seal = self._server.seal()
        if seal is None:
            raise RuntimeError("nothing reads and writes records in bulk here")
        self._records = Records(self._server, self._layer, seal)
        self.session = ClientSession(world.context, self)
        self._server.readInto(seal, self.session.decoder, self.session.proceed)
        self.session.opened()

    def say(self, data: bytes, random: Random) -> None:
        """
        Let the client send something. The bytes that the server sends to it are sometimes changed
        on the way.
        """
        wires = bytearray(said(self._client, data))
        if random.random() < 0.02:
            wires[random.randrange(len(wires))] ^= 1 << random.randrange(8)
        place = random.randrange(len(wires) + 1)
        for part in (wires[:place], wires[place:]):
            if part and self.isOpen:
                self._take(bytes(part))

    def _take(self, wires: bytes) -> None:
        self._server.bio_write(wires)
        try:
            self._server.recv(1)
        except SSL.WantReadError:
            for wire in self._layer.wires:
                self._client.bio_write(wire)
            self._layer.wires.clear()
            drained(self._client.recv)
        except SSL.Error:
            self.abort()

    def write(self, data: bytes) -> None:
        self._records.write(data)

    def finish(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self.isOpen:
            self.isOpen = False
            self._server.forget()
            self.session.lost()

    def pauseReading(self) -> None:
        """Nothing to do: a test always delivers all input."""

    def resumeReading(self) -> None:
        """Nothing to do: a test always delivers all input."""

    def useLane(self, lane: object) -> None:
        """Nothing to do: the records ask the session for its lane."""
