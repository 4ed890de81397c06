"""
Errors of a client.
"""

from __future__ import annotations

from natsbroker.client.errors import ClientError, ConnectionEnded, ServerError, TLSError
from natsbroker.errors import BrokerError


def test_family() -> None:
    """All errors of the client have one base class, and also the base class of the package."""
    for error in (ConnectionEnded("x"), ServerError("x"), TLSError("x")):
        assert isinstance(error, ClientError)
        assert isinstance(error, BrokerError)


def test_serverError() -> None:
    """The text of the error is the server's."""
    error = ServerError("Stale Connection")
    assert (error.text, str(error)) == ("Stale Connection", "Stale Connection")
