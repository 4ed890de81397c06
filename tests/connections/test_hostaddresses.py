"""
The addresses at which others can reach our listeners.
"""

from __future__ import annotations

import ipaddress

import pytest

from natsbroker.config.model import Settings
from natsbroker.connections.hostaddresses import addressesOf, clientUrls
from tests.server.support import settingsOf


@pytest.mark.parametrize(
    "text, host, urls",
    [
        ("", "127.0.0.1", ("127.0.0.1:4",)),
        ("", "::1", ("[::1]:4",)),
        ("client_advertise: pub", "0.0.0.0", ("pub:4",)),
        ("client_advertise: 'pub:9'", "0.0.0.0", ("pub:9",)),
    ],
)
def test_clientUrls(text: str, host: str, urls: tuple[str, ...]) -> None:
    """The client URLs have the addresses that other members announce."""
    assert clientUrls(settingsOf(text) if text else Settings(), host, 4) == urls


def test_anywhere() -> None:
    """
    A listener on all addresses is reachable at those of this machine. Loopback is used only if
    there is no other.
    """
    addresses = addressesOf("0.0.0.0")
    assert addresses and all(ipaddress.ip_address(address) for address in addresses)
    assert "0.0.0.0" not in addresses and (
        addresses == ["127.0.0.1"] or "127.0.0.1" not in addresses
    )
