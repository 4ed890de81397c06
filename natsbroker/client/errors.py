"""Errors of the client."""

from __future__ import annotations

from natsbroker.errors import BrokerError

__all__ = ["ClientError", "ConnectionEnded", "ServerError", "TLSError"]


class ClientError(BrokerError):
    """Base of what the client raises."""


class ConnectionEnded(ClientError):
    """There is no connection any more."""


class ServerError(ClientError):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class TLSError(ClientError):
    """One side wants TLS and the other does not, or a third party is in between."""
