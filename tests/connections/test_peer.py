"""
The address of a peer.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

from natsbroker.connections.peer import placeOf


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (IPv4Address("TCP", "10.0.0.1", 7), ("10.0.0.1", 7)),
        (IPv6Address("TCP", "::1", 7), ("::1", 7)),
        (IPv6Address("TCP", "::ffff:10.0.0.1", 7), ("10.0.0.1", 7)),
        (IPv6Address("TCP", "::ffff:a00:1", 7), ("::ffff:a00:1", 7)),
        (UNIXAddress(b"/run/x"), ("", 0)),
        (None, ("", 0)),
    ],
)
def test_placeOf(address: Any, place: tuple[str, int]) -> None:
    """A peer that connected over IPv4 to an IPv6 socket has an IPv4 address."""
    assert placeOf(address) == place
