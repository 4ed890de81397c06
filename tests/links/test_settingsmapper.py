"""
The settings of every kind of link, as the network layer needs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.config.settings.gateways import Gateway
from natsbroker.config.settings.leafnodes import Leafnodes
from natsbroker.config.settings.routes import Cluster
from natsbroker.connections.tlscontext import TLSSettingsError
from natsbroker.links.dialling import DialTerms
from natsbroker.links.settingsmapper import (
    backoffTerms,
    linkSettings,
    linkTLSFrom,
)
from tests.interop.certificates import writeCertificates
from tests.links.linkpeers import linked


@pytest.mark.parametrize("kind", [Cluster, Gateway, Leafnodes])
def test_settings(kind: Any) -> None:
    """
    A setting that a kind of link does not have is that of clients, with longer lines and payloads.
    """
    settings = Settings(
        ping_interval=7.0,
        ping_max=3,
        max_control_line=100,
        max_payload=5,
        max_pending=1000,
        write_deadline=6.0,
        no_fast_producer_stall=True,
    )
    expected = linked(
        timeout=1.0,
        ping_interval=7.0,
        ping_max=3,
        max_control_line=1600,
        max_payload=64 << 20,
        max_pending=1000,
        write_deadline=6.0,
        no_fast_producer_stall=True,
    )
    assert linkSettings(settings, kind(timeout=1.0)) == expected
    assert linkSettings(settings, kind(write_deadline=4.0)).write_deadline == 4.0
    assert linkSettings(Settings(max_payload=65 << 20), kind()).max_payload == 65 << 20


@pytest.mark.parametrize("kind", [Cluster, Gateway])
def test_backoff(kind: Any) -> None:
    """A configured peer is dialled until it answers, and C{connect_backoff} increases the pause."""
    block = kind(connect_retries=4, connect_backoff=True)
    settings = Settings(connect_error_reports=9)
    assert backoffTerms(settings, block, True) == DialTerms(longest=30.0, retries=-1, reports=9)
    assert backoffTerms(settings, block, False) == DialTerms(longest=30.0, retries=4, reports=9)
    assert backoffTerms(settings, kind(), False) == DialTerms(longest=1.0, retries=0, reports=9)


def test_tls(tmp_path: Path) -> None:
    """Certificates are read when the settings are applied, and a missing file is an error."""
    assert linkTLSFrom(None) is None
    writeCertificates(tmp_path)
    files = (str(tmp_path / "server.pem"), str(tmp_path / "server-key.pem"))
    tls = linkTLSFrom(TLSSettings(ca_file=str(tmp_path / "ca.pem"), certs=(files,), timeout=3.0))
    assert tls is not None and tls.settings.timeout == 3.0
    with pytest.raises(TLSSettingsError, match="cert_file"):
        linkTLSFrom(TLSSettings(certs=(("nowhere.pem", files[1]),)))
