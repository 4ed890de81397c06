"""
Tests for L{natsbroker.config.settings.gateways}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.settings.gateways import Gateway, RemoteGateway


@pytest.mark.parametrize(
    "gateway, isOn",
    [
        (Gateway(), False),
        (Gateway(name="A"), False),
        (Gateway(port=1), False),
        (Gateway(name="A", port=-1), True),
    ],
)
def test_isOn(gateway: Gateway, isOn: bool) -> None:
    """A gateway needs a name and a port."""
    assert gateway.isOn is isOn


def test_secrets() -> None:
    """Passwords, and URLs that may hold some, are not shown."""
    remote = RemoteGateway("B", ("nats://u:canary@h:1",))
    assert "canary" not in repr(Gateway(password="canary", gateways=(remote,)))
