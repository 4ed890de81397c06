"""
The terms of a gateway, made from the settings.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest

from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import Settings, TLSSettings
from natsbroker.config.settings.gateways import Gateway, RemoteGateway
from natsbroker.connections.tlscontext import TLSSettingsError
from natsbroker.gateways.terms import (
    connectOptions,
    gatewaySettings,
    identityFrom,
    infoDocument,
    placeFrom,
    placeOf,
    termsFrom,
)
from natsbroker.links.hostcluster import HostCluster
from natsbroker.links.identity import LinkIdentity
from tests.gateways.gatewaypeers import terms
from tests.interop.certificates import writeCertificates
from tests.server.support import settingsOf

IDENTITY = LinkIdentity("ID", "name")


@pytest.mark.parametrize(
    "text, place",
    [
        ("h:1", "h:1"),
        ("nats-gw://h:1", "h:1"),
        ("nats://u:p@h:1/", "h:1"),
        ("[::1]:1", "[::1]:1"),
    ],
)
def test_placeWithScheme(text: str, place: str) -> None:
    """An address may have a scheme, as older servers send it."""
    target = placeOf(text)
    assert str(target) == place and not target.user


@pytest.mark.parametrize("text", ["", "h", "h:0", "h:x", "h:70000", ":1", "[::1"])
def test_noPlace(text: str) -> None:
    """A text that is not an address is refused."""
    with pytest.raises(ValueError):
        placeOf(text)


def test_info() -> None:
    """INFO announces that a login and TLS are required."""
    ours = terms("A", user="u", password="p", tls=object(), tellsAll=True)
    said = infoDocument(IDENTITY, ours, "h:1", ["h:1", "i:1"])
    assert said["auth_required"] and said["tls_required"] and said["tls_verify"]
    assert said["gateway_iom"] and said["gateway_urls"] == ["h:1", "i:1"]


def test_connect() -> None:
    """The user of a URL replaces that of the settings, and the repr hides passwords."""
    ours = terms("A", user="u", password="canary")
    target = RemoteURL("h", 1, "x", "canary")
    assert "canary" not in repr((ours, target))
    said = connectOptions(IDENTITY, ours, target, True)
    assert (said["user"], said["pass"], said["tls_required"]) == ("x", "canary", True)


def test_tls(tmp_path: Path) -> None:
    """A cluster may be dialled with a certificate of its own, and an invalid one is reported."""
    writeCertificates(tmp_path)
    files = (str(tmp_path / "server.pem"), str(tmp_path / "server-key.pem"))
    own = TLSSettings(certs=(files,), ca_file=str(tmp_path / "ca.pem"))
    gateway = Gateway(gateways=(RemoteGateway("B", ("b:1",), own), RemoteGateway("C", ("c:1",))))
    tls = termsFrom(Settings(), gateway, False).remoteTLS
    assert tls["B"] is not None and tls["C"] is None
    bad = Gateway(gateways=(RemoteGateway("B", ("b:1",), TLSSettings(certs=(("/no", "/no"),))),))
    with pytest.raises(TLSSettingsError):
        termsFrom(Settings(), bad, False)


TEXT = """
    server_name: n1, max_payload: 5, ping_max: 7, max_pending: 1000
    gateway {
        name: A, listen: "127.0.0.1:7222", connect_retries: 3, write_deadline: "4s"
        authorization { user: u, password: p }, reject_unknown: true
        gateways: [ {name: B, urls: ["nats://x:y@b:1", "c:2"]} ]
    }
"""


def blockOf(settings: Settings) -> Gateway:
    """The gateway block of the settings."""
    assert settings.gateway is not None
    return settings.gateway


def test_identity() -> None:
    """The announced identity has the name and address of the server."""
    settings = settingsOf(TEXT)
    near = HostCluster("/neighbours", 3, 4)
    named = identityFrom(replace(settings, server_name="N"), blockOf(settings), "ID", 5, near)
    assert (named.server_name, named.server_id) == ("N-3", "ID")
    identity = identityFrom(settings, blockOf(settings), "ID", 5)
    assert (identity.server_id, identity.server_name) == ("ID", "n1")
    assert (identity.host, identity.port, identity.gateway_url) == ("127.0.0.1", 5, "127.0.0.1:5")


def test_announcedPlace() -> None:
    """The announced address may be the advertised one, and is never all interfaces."""
    assert placeFrom(Gateway(advertise="h:7"), 5) == ("h", 7)
    assert placeFrom(Gateway(advertise="h"), 5) == ("h", 5)
    host, port = placeFrom(Gateway(), 5)
    assert port == 5 and not ipaddress.ip_address(host).is_unspecified


def test_limits() -> None:
    """
    Gateways get PINGs at least every 15 seconds, and accept payloads larger than those of clients.
    """
    settings = settingsOf(TEXT)
    limits = gatewaySettings(settings, blockOf(settings))
    assert (limits.ping_interval, limits.ping_max, limits.authorization.timeout) == (15.0, 7, 2.0)
    assert (limits.max_pending, limits.write_deadline) == (1000, 4.0)
    assert limits.max_payload >= 64 << 20 and limits.max_control_line == 65536
    quick = settingsOf("ping_interval: '1s', gateway { authorization { timeout: 9 } }")
    limits = gatewaySettings(quick, blockOf(quick))
    assert (limits.ping_interval, limits.authorization.timeout, limits.write_deadline) == (
        1.0,
        9.0,
        10.0,
    )
    assert (
        gatewaySettings(Settings(), Gateway(tls=TLSSettings(timeout=5.0))).authorization.timeout
        == 6.0
    )
