"""The settings of MQTT."""

from __future__ import annotations

import pytest

from natsbroker.config.settings.mqtt import MQTT
from natsbroker.config.tls import TLSSettings


def test_scheme() -> None:
    """The URL of a listener shows whether it has TLS, as in nats-server."""
    assert MQTT().scheme == "mqtt"
    assert MQTT(tls=TLSSettings()).scheme == "tls"


@pytest.mark.parametrize("block", [MQTT(user="u"), MQTT(token="t"), MQTT(no_auth_user="g")])
def test_ownLogins(block: MQTT) -> None:
    """A user, a token or a guest of the block replaces the logins of the top level."""
    assert block.asksItself
    assert not MQTT(password="p").asksItself


def test_secrets() -> None:
    """Passwords and tokens are not shown."""
    assert "geheim" not in repr(MQTT(token="geheim", password="geheim"))
