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
    """Gateways are enabled by a name and a port."""
    assert gateway.isOn is isOn


def test_secrets() -> None:
    """The repr of the settings hides passwords, and URLs, which may contain some."""
    remote = RemoteGateway("B", ("nats://u:canary@h:1",))
    assert "canary" not in repr(Gateway(password="canary", gateways=(remote,)))
