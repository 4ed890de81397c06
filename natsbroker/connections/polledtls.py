"""
TLS between a polled socket and a session.

The handshake, alerts, closing and errors are Twisted's and pyOpenSSL's. Once the handshake is
complete, the compiled lane decrypts input into the session's decoder and encrypts what its outbox
flushes.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol

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

    def loseConnection(self) -> None:
        if self.outbox is not None:
            self.outbox.flush()
        super().loseConnection()  # type: ignore[no-untyped-call]


def startTLS(stream: PolledTransport, creator: Any, protocol: Any) -> Any:
    """
    Encrypt from here on. Bytes that were written before are sent in the clear.

    @param creator: an C{IOpenSSLServerConnectionCreator} or C{IOpenSSLClientConnectionCreator}.
    @param protocol: the one that L{natsbroker.connections.polledtransport.pollStream} was given.
    @return: a L{PolledTLS}, the protocol's transport from now on.
    """
    # As Twisted's own startTLS does: no factory makes the protocol, which is connected already.
    make: Any = TLSMemoryBIOFactory
    wrap: Any = PolledTLS
    layer = wrap(make(creator, stream.isClient, None), protocol, False)
    stream.insert(layer)
    layer.makeConnection(stream)
    return layer
