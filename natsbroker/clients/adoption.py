"""
Connections that another process has accepted: their sockets, and the INFO that was perhaps sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from socket import socket
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.tcp import Server

from natsbroker.connections.polledtransport import AdoptedServer
from natsbroker.connections.poller import PolledServer, SocketPoller


@dataclass(frozen=True, slots=True)
class Adoption:
    """
    @ivar cid: the number of the connection.
    @ivar nonce: in the INFO that it was sent; C{None} if it was not sent any.
    @ivar waited: the seconds since then.
    @ivar isExcess: whether it is one more than C{max_connections}.
    """

    cid: int
    nonce: str | None = None
    waited: float = 0.0
    isExcess: bool = False


def adopt(
    reactor: Any,
    factory: Any,
    poller: Any,
    accepted: socket,
    place: tuple[str, int],
    read: bytes = b"",
    adoption: Adoption | None = None,
    ended: Callable[[], object] | None = None,
) -> Any:
    """
    Make a connection of an accepted socket, as the port of a listener does.

    @param factory: the factory of the listener.
    @param poller: that of the broker; another object for Twisted's transports.
    @param place: host and port of the peer.
    @param read: input that was read from it.
    @param adoption: for a client; C{None} for other peers, which are at their beginning.
    @param ended: called when the connection has ended; C{None} where its session reports that.
    @return: the protocol.
    """
    accepted.setblocking(False)
    host, port = place
    make: Any = IPv6Address if ":" in host else IPv4Address
    protocol: Any = factory.buildProtocol(make("TCP", host, port))
    if adoption is not None:
        protocol.adoption = adoption
    client = (host, port, 0, 0) if ":" in host else place
    kind: Any = Server
    if ended is not None:
        kind = partial(AdoptedServer, ended)
    elif isinstance(poller, SocketPoller) and getattr(factory, "isPlain", False):
        kind = partial(PolledServer, poller)
    transport = kind(accepted, protocol, client, None, port, reactor)
    transport.repstr = f"<{type(protocol).__name__} of {host}>"
    protocol.makeConnection(transport)
    if read:
        protocol.dataReceived(read)
    return protocol
