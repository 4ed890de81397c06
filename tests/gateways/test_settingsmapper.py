"""
What the settings say of gateways, as the network layer wants it.
"""

from __future__ import annotations

import ipaddress

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.gateways.settings import Gateway
from natsbroker.gateways.settingsmapper import identityFrom, limitsFrom, placeFrom
from tests.server.support import settingsOf

TEXT = """
    server_name: n1, max_payload: 5, ping_max: 7, max_pending: 1000
    gateway {
        name: A, listen: "127.0.0.1:7222", connect_retries: 3, write_deadline: "4s"
        authorization { user: u, password: p }, reject_unknown: true
        gateways: [ {name: B, urls: ["nats://x:y@b:1", "c:2"]} ]
    }
"""


def blockOf(settings: Settings) -> Gateway:
    """The gateway block."""
    assert settings.gateway is not None
    return settings.gateway


def test_identity() -> None:
    """The address that is announced to others."""
    settings = settingsOf(TEXT)
    identity = identityFrom(settings, blockOf(settings), "ID", 5)
    assert (identity.server_id, identity.server_name) == ("ID", "n1")
    assert (identity.host, identity.port, identity.gateway_url) == ("127.0.0.1", 5, "127.0.0.1:5")


def test_place() -> None:
    """That may be somewhere else; and never everywhere."""
    assert placeFrom(Gateway(advertise="h:7"), 5) == ("h", 7)
    assert placeFrom(Gateway(advertise="h"), 5) == ("h", 5)
    host, port = placeFrom(Gateway(), 5)
    assert port == 5 and not ipaddress.ip_address(host).is_unspecified


def test_limits() -> None:
    """Gateways are pinged at least every 15 seconds, and take what our clients may send."""
    settings = settingsOf(TEXT)
    limits = limitsFrom(settings, blockOf(settings))
    assert (limits.ping_interval, limits.ping_max, limits.handshake) == (15.0, 7, 2.0)
    assert (limits.max_pending, limits.write_deadline) == (1000, 4.0)
    assert limits.max_payload >= 64 << 20 and limits.max_control_line == 65536
    quick = settingsOf("ping_interval: '1s', gateway { authorization { timeout: 9 } }")
    limits = limitsFrom(quick, blockOf(quick))
    assert (limits.ping_interval, limits.handshake, limits.write_deadline) == (1.0, 9.0, 10.0)
    assert limitsFrom(Settings(), Gateway(tls=TLSSettings(timeout=5.0))).handshake == 6.0
