"""The transport of a session, of a client or of a link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from natsbroker.wire.grants import Security

#: The beginning of an IPv4 peer's address on an IPv6 socket.
_MAPPED = "::ffff:"


def placeOf(address: Any) -> tuple[str, int]:
    """
    The host and port of a peer: IPv4 addresses also of an IPv6 socket; an empty text and 0 if
    unknown.
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
        """Let the lane be used without asking the session; with C{None}, stop that."""


class LinkPeer(AnyPeer, Protocol):
    certificate: Any

    def compress(self, level: str) -> None:
        """
        Speak S2 in both directions from now on, or send at another of
        L{natsbroker.wire.compression.LEVELS}. Unframed input is S2 already.
        """


class ClientPeer(AnyPeer, Protocol):
    """
    @ivar isSecured: whether what is written is encrypted.
    @ivar credentials: members of CONNECT that the transport brought. They count if the client does
        not send them itself.
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
