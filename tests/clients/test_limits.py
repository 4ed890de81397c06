"""
The limits of client connections.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from natsbroker.clients.limits import Limits


def test_defaults() -> None:
    """The defaults are the real server's."""
    limits = Limits()
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
    """Limits are replaced, never changed: connections share them."""
    with pytest.raises(FrozenInstanceError):
        Limits().max_payload = 1  # type: ignore[misc]
    assert Limits(max_payload=1) == Limits(max_payload=1) != Limits()
