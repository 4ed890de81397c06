"""
TLS between a polled socket and a session.

The handshake, alerts, closing and errors are Twisted's and pyOpenSSL's. Once the handshake is
complete, the compiled lane decrypts input into the session's decoder and encrypts what its outbox
flushes.
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

    def useSeal(self, seal: Any, decoder: hot.Decoder, came: Any, send: Any) -> None:
        """C{came} is called for input in C{decoder}; C{send} writes what the seal does not take."""
        stream: Any = self.transport
        relay = stream.session
        self._seal = seal
        seal.attach(decoder, relay.outbox, came, self._flushReceiveBIO)
        self.outbox = hot.Outbox(relay.batch, relay, send, sys.maxsize)
        self.seals(self.outbox)
        stream.useSeal(seal)

    def seals(self, outbox: Any) -> None:
        """Encrypt what an outbox flushes, without the protocol."""
        outbox.sealInto(self._seal)

    def sendFramesOf(self, outbox: Any) -> None:
        outbox.frameInto(self.outbox)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)  # type: ignore[no-untyped-call]
        if self.outbox is not None:
            self.outbox.close()
            self._seal.detach()

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
