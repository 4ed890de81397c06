"""
What a session, of a client or of a link, needs of its transport.

Promises: a handful of methods that every stream transport can be given.
Must never know: which transports there are.
"""

from __future__ import annotations

from typing import Any, Protocol

from natsbroker.wire.grants import Security

__all__ = ["LinkPeer", "Peer"]


class LinkPeer(Protocol):
    """
    The transport of a link, as far as its session needs one.
    """

    host: str
    port: int

    def write(self, data: bytes) -> object:
        """
        Send bytes.
        """

    def finish(self) -> None:
        """
        Send what waits, then close.
        """

    def abort(self) -> None:
        """
        Close now.
        """

    def pauseReading(self) -> None:
        """
        Deliver no more input for now.
        """

    def resumeReading(self) -> None:
        """
        Deliver input again.
        """

    def useLane(self, lane: Any) -> None:
        """
        The fast lane may, or with C{None} may not, be taken from now on without asking the session.
        """


class Peer(LinkPeer, Protocol):
    """
    The transport of a client's session.

    @ivar isSecured: whether what is written is encrypted.
    """

    connectionType: str
    certificate: Any
    tls: Security | None
    isSecured: bool
