"""
What a session, of a client or of a link, needs of its transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from natsbroker.wire.grants import Security

#: How an IPv6 socket spells the address of an IPv4 peer.
_MAPPED = "::ffff:"


def placeOf(address: Any) -> tuple[str, int]:
    """
    The host and the port of a peer. A peer that came over IPv4 has an IPv4 address, although the
    socket that listens for both kinds says otherwise.

    @param address: a Twisted address; one without host and port gives an empty text and 0.
    """
    host: str = getattr(address, "host", "") or ""
    if host.startswith(_MAPPED) and "." in host:
        host = host[len(_MAPPED) :]
    return host, getattr(address, "port", 0) or 0


class AnyPeer(Protocol):
    host: str
    port: int

    def write(self, data: bytes) -> object: ...

    def finish(self) -> None:
        """Send what waits, then close."""

    def abort(self) -> None: ...

    def pauseReading(self) -> None: ...

    def resumeReading(self) -> None: ...

    def useLane(self, lane: Any) -> None:
        """
        The fast lane may, or with C{None} may not, be taken from now on without asking the session.
        """


class LinkPeer(AnyPeer, Protocol):
    """
    @ivar certificate: of a peer that dialled us, if it was verified; else C{None}.
    """

    certificate: Any

    def compress(self, level: str) -> None:
        """
        Speak S2 in both directions, or send at another level of it.

        What was written before goes out as it is, what was read and is not a frame yet is S2.

        @param level: one of L{natsbroker.wire.compression.LEVELS}.
        """


class ClientPeer(AnyPeer, Protocol):
    """
    @ivar isSecured: whether what is written is encrypted.
    @ivar credentials: members of CONNECT that the transport brought, for a client that does not
        say them itself.
    @ivar isUnnamed: whether a proxy may still say whose address C{host} is.
    @ivar forwardedFor: the address that a proxy says the client has; empty for none.
    """

    connectionType: str
    certificate: Any
    tls: Security | None
    isSecured: bool
    isUnnamed: bool
    credentials: Mapping[str, str]
    forwardedFor: str
