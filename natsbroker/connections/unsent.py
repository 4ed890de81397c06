"""
What Twisted's transports keep of what they were given.

It counts towards the limit of a connection (the C{max_pending} of nats-server counts all that was
not sent).
"""

from __future__ import annotations

from typing import Any

from natsbroker.connections.polledtransport import PolledTransport


def unsentBy(transport: Any) -> int:
    """
    How many bytes a transport holds that it has not sent. Those of TLS count as they are encrypted.

    @param transport: a stream transport, perhaps with layers above it.
    @return: 0 for a transport that keeps them elsewhere.
    """
    if isinstance(transport, PolledTransport):
        return transport.unsent
    while not hasattr(transport, "dataBuffer"):
        transport = getattr(transport, "transport", None)
        if transport is None:
            return 0
    waiting: int = getattr(transport, "_tempDataLen", 0)
    return len(transport.dataBuffer) - int(transport.offset) + waiting
