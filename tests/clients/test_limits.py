"""
The limits of client connections.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from natsbroker.clients.limits import ClientLimits, limitsFrom
from tests.server.support import settingsOf


def test_defaults() -> None:
    """The defaults are nats-server's."""
    limits = ClientLimits()
    assert (limits.max_connections, limits.max_subscriptions, limits.max_sub_tokens) == (
        65536,
        0,
        0,
    )
    assert (limits.max_control_line, limits.max_payload) == (4096, 1048576)
    assert limits.max_pending == 67108864
    assert (limits.write_deadline, limits.auth_timeout) == (10.0, 2.0)
    assert (limits.ping_interval, limits.ping_max) == (120.0, 2)
    assert limits.headers and limits.stall


def test_frozen() -> None:
    """ClientLimits are replaced, never changed: connections share them."""
    with pytest.raises(FrozenInstanceError):
        ClientLimits().max_payload = 1  # type: ignore[misc]
    assert ClientLimits(max_payload=1) == ClientLimits(max_payload=1) != ClientLimits()


class TestSettings:
    """ClientLimits from the settings."""

    def test_default(self) -> None:
        """An empty configuration gives the network layer's own defaults."""
        assert limitsFrom(settingsOf("port: 4222")) == ClientLimits()

    @pytest.mark.parametrize(
        ("text", "name", "value"),
        [
            ("max_connections: 7", "max_connections", 7),
            ("max_payload: 100", "max_payload", 100),
            ("max_pending: 2MB", "max_pending", 2 * 1024 * 1024),
            ("max_control_line: 2KB", "max_control_line", 2048),
            ("max_subscriptions: 3", "max_subscriptions", 3),
            ("max_sub_tokens: 4", "max_sub_tokens", 4),
            ('ping_interval: "5s"', "ping_interval", 5.0),
            ("ping_max: 9", "ping_max", 9),
            ('write_deadline: "3s"', "write_deadline", 3.0),
            ("authorization { timeout: 7 }", "auth_timeout", 7.0),
            ("no_header_support: true", "headers", False),
            ("no_fast_producer_stall: true", "stall", False),
        ],
    )
    def test_each(self, text: str, name: str, value: object) -> None:
        """Each setting arrives."""
        assert getattr(limitsFrom(settingsOf(text)), name) == value
