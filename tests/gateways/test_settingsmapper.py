"""
What the settings say of gateways, as the network layer wants it.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.connections.tlscontext import TLSSettingsError
from natsbroker.gateways.settings import Gateway, RemoteGateway
from natsbroker.gateways.settingsmapper import (
    dialTermsFrom,
    identityFrom,
    limitsFrom,
    placeFrom,
    remoteTLSFrom,
    termsFrom,
)
from natsbroker.gateways.terms import GatewayTarget
from natsbroker.links.dialling import DialTerms
from tests.interop.certificates import writeCertificates
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


def test_terms() -> None:
    """Names, passwords, and the targets with their logins."""
    settings = settingsOf(TEXT)
    terms = termsFrom(settings, blockOf(settings), None, {}, True)
    assert (terms.name, terms.user, terms.password) == ("A", "u", "p")
    assert terms.rejectsUnknown and terms.tellsAll and terms.maxPayload == 5 and terms.headers
    (remote,) = terms.remotes
    assert remote.name == "B" and remote.tls is None
    assert remote.targets == (GatewayTarget("B", "b", 1, "x", "y"), GatewayTarget("B", "c", 2))


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


@pytest.mark.parametrize(
    "gateway, isImplicit, terms",
    [
        (Gateway(connect_retries=3), False, DialTerms(longest=1.0, retries=-1)),
        (Gateway(connect_retries=3), True, DialTerms(longest=1.0, retries=3)),
        (Gateway(connect_backoff=True), True, DialTerms(longest=30.0, retries=0)),
    ],
)
def test_dialling(gateway: Gateway, isImplicit: bool, terms: DialTerms) -> None:
    """Clusters that the settings name are dialled for ever."""
    assert dialTermsFrom(Settings(), gateway, isImplicit) == terms


def test_tls(tmp_path: Path) -> None:
    """A cluster may be dialled with a certificate of its own; a bad one is reported."""
    writeCertificates(tmp_path)
    files = (str(tmp_path / "server.pem"), str(tmp_path / "server-key.pem"))
    own = TLSSettings(certs=(files,), ca_file=str(tmp_path / "ca.pem"))
    gateway = Gateway(gateways=(RemoteGateway("B", ("b:1",), own), RemoteGateway("C", ("c:1",))))
    found = remoteTLSFrom(gateway)
    assert list(found) == ["B"]
    settings = Settings()
    terms = termsFrom(settings, gateway, None, found, False)
    assert [each.tls for each in terms.remotes] == [found["B"], None]
    bad = Gateway(gateways=(RemoteGateway("B", ("b:1",), TLSSettings(certs=(("/no", "/no"),))),))
    with pytest.raises(TLSSettingsError):
        remoteTLSFrom(bad)
