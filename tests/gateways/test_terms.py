"""
What is said of a gateway.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import Settings, TLSSettings
from natsbroker.connections.tlscontext import TLSSettingsError
from natsbroker.gateways.settings import Gateway, RemoteGateway
from natsbroker.gateways.terms import connectOptions, infoDocument, placeOf, termsFrom
from natsbroker.routes.terms import LinkIdentity
from tests.gateways.gatewaypeers import terms
from tests.interop.certificates import writeCertificates

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
def test_place(text: str, place: str) -> None:
    """A place may have a scheme, as in older servers' words."""
    target = placeOf(text)
    assert str(target) == place and not target.user


@pytest.mark.parametrize("text", ["", "h", "h:0", "h:x", "h:70000", ":1", "[::1"])
def test_noPlace(text: str) -> None:
    """What is none is refused."""
    with pytest.raises(ValueError):
        placeOf(text)


def test_info() -> None:
    """What is demanded of those who dial is announced."""
    ours = terms("A", user="u", password="p", tls=object(), tellsAll=True)
    said = infoDocument(IDENTITY, ours, "h:1", ["h:1", "i:1"])
    assert said["auth_required"] and said["tls_required"] and said["tls_verify"]
    assert said["gateway_iom"] and said["gateway_urls"] == ["h:1", "i:1"]


def test_connect() -> None:
    """A target's user wins over ours, and no password is shown."""
    ours = terms("A", user="u", password="canary")
    target = RemoteURL("h", 1, "x", "canary")
    assert "canary" not in repr((ours, target))
    said = connectOptions(IDENTITY, ours, target, True)
    assert (said["user"], said["pass"], said["tls_required"]) == ("x", "canary", True)


def test_tls(tmp_path: Path) -> None:
    """A cluster may be dialled with a certificate of its own; a bad one is reported."""
    writeCertificates(tmp_path)
    files = (str(tmp_path / "server.pem"), str(tmp_path / "server-key.pem"))
    own = TLSSettings(certs=(files,), ca_file=str(tmp_path / "ca.pem"))
    gateway = Gateway(gateways=(RemoteGateway("B", ("b:1",), own), RemoteGateway("C", ("c:1",))))
    found = termsFrom(Settings(), gateway, False).remoteTLS
    assert found["B"] is not None and found["C"] is None
    bad = Gateway(gateways=(RemoteGateway("B", ("b:1",), TLSSettings(certs=(("/no", "/no"),))),))
    with pytest.raises(TLSSettingsError):
        termsFrom(Settings(), bad, False)
