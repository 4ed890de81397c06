"""
What a session needs of its transport.

Promises: a handful of methods that every stream transport can be given.
Must never know: which transports there are.
"""

from __future__ import annotations

from typing import Any, Protocol

from natsbroker.wire.grants import Security

__all__ = ["Peer"]


class Peer(Protocol):
    """
    The transport of a session, as far as it needs one.

    @ivar isSecured: whether what is written is encrypted.
    """

    host: str
    port: int
    connectionType: str
    certificate: Any
    tls: Security | None
    isSecured: bool

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
