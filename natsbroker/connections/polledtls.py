"""
TLS between a polled socket and a session.

The compiled lane shakes hands; then it decrypts input into the session's decoder and encrypts what
its outbox flushes. Alerts, closing and errors are Twisted's and pyOpenSSL's, and so is everything
where the lane is not compiled.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from natsbroker import hot
from natsbroker.connections.polledtransport import PolledTransport


class PolledTLS(TLSMemoryBIOProtocol):
    """C{outbox} encrypts what is written to it; C{None} while the layer itself does."""

    outbox: Any = None
    _seal: Any = None

    def _checkHandshakeStatus(self) -> None:
        """Begin or go on with the handshake; Twisted calls this, and then for each input."""
        seal = self._seal
        if seal is None:
            seal = self._seal = self._tlsConnection.seal()
            if seal is None:
                super()._checkHandshakeStatus()  # type: ignore[no-untyped-call]
                return
            stream: Any = self.transport
            seal.begin(stream.session.outbox, self._shaken, self._attend)
            stream.useSeal(seal)
            if not stream.isClient:
                return
        if not self._aborted:
            seal.shake()

    def _shaken(self) -> None:
        self._handshakeDone = True
        protocol: Any = self.wrappedProtocol
        protocol.handshakeCompleted()
        stream: Any = self.transport
        if self.outbox is None:
            stream.useSeal(None)
        if self._appSendBuffer:
            self._unbufferPendingWrites()  # type: ignore[no-untyped-call]

    def _attend(self) -> None:
        """Go on in the ordinary way, in which errors of OpenSSL are raised."""
        if self._handshakeDone:
            self._flushReceiveBIO()  # type: ignore[no-untyped-call]
        else:
            super()._checkHandshakeStatus()  # type: ignore[no-untyped-call]

    def useSeal(self, decoder: hot.Decoder, came: Any, send: Any) -> None:
        """C{came} is called for input in C{decoder}; C{send} writes what the seal does not take."""
        stream: Any = self.transport
        relay = stream.session
        self._seal.attach(decoder, relay.outbox, came, self._flushReceiveBIO)
        self.outbox = hot.Outbox(relay.batch, relay, send, sys.maxsize)
        self.seals(self.outbox)

    def seals(self, outbox: Any) -> None:
        """Encrypt what an outbox flushes, without the protocol."""
        outbox.sealInto(self._seal)

    def sendFramesOf(self, outbox: Any) -> None:
        outbox.frameInto(self.outbox)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)  # type: ignore[no-untyped-call]
        if self._seal is not None:
            self._seal.detach()
        if self.outbox is not None:
            self.outbox.close()

    def loseConnection(self) -> None:
        if self.outbox is not None:
            self.outbox.flush()
        super().loseConnection()  # type: ignore[no-untyped-call]


@lru_cache(maxsize=16)
def _factoryFor(creator: Any, isClient: bool) -> Any:
    """As Twisted's own startTLS, but for all connections: none of them is made by it."""
    make: Any = TLSMemoryBIOFactory
    return make(creator, isClient, None)


def startTLS(stream: PolledTransport, creator: Any, protocol: Any) -> Any:
    """
    Encrypt from here on. Bytes that were written before are sent in the clear.

    @param creator: an C{IOpenSSLServerConnectionCreator} or C{IOpenSSLClientConnectionCreator}.
    @param protocol: the one that L{natsbroker.connections.polledtransport.pollStream} was given.
    @return: a L{PolledTLS}, the protocol's transport from now on.
    """
    wrap: Any = PolledTLS
    layer = wrap(_factoryFor(creator, stream.isClient), protocol, False)
    stream.insert(layer)
    layer.makeConnection(stream)
    return layer
