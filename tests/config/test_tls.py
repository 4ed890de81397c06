"""
Tests for L{natsbroker.config.tls}.
"""

from __future__ import annotations

from natsbroker.config.model import TLS as AGAIN
from natsbroker.config.tls import TLS


def test_defaults() -> None:
    """A block without keys asks for no certificates of clients, and takes nothing on trust."""
    tls = TLS()
    assert (tls.verify, tls.insecure, tls.timeout, tls.min_version) == (False, False, 2.0, "1.2")


def test_again() -> None:
    """It is a part of the settings."""
    assert AGAIN is TLS
