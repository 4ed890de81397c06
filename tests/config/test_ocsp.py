"""
Tests for L{natsbroker.config.ocsp}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.ocsp import OCSP, OCSPCache, OCSPPeer
from tests.config.support import built, complaintsOf

PEER = "leafnodes {{ remotes: [ {{ url: h, tls {{ ocsp_peer: {} }} }} ] }}"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", OCSP()),
        ("ocsp: true", OCSP("auto")),
        ("ocsp: false", OCSP("never")),
        ("ocsp {}", OCSP("auto")),
        ("ocsp { mode: ALWAYS, url: 'http://a' }", OCSP("always", ("http://a",))),
        (
            "ocsp { mode: must, urls: ['http://a', 'http://b'] }",
            OCSP("must", ("http://a", "http://b")),
        ),
    ],
)
def test_ocsp(text: str, expected: OCSP) -> None:
    """C{ocsp} has a mode, and may have responders that replace those of the certificate."""
    assert built(text or "port: 1").settings.ocsp == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", OCSPCache("memory")),
        ("ocsp_cache: true", OCSPCache("local")),
        ("ocsp_cache: false", OCSPCache("none")),
        ("ocsp_cache { type: none }", OCSPCache("none")),
        (
            "ocsp_cache { local_store: x, preserve_revoked: true, save_interval: '10s' }",
            OCSPCache("local", "x", True, 10.0),
        ),
        ("ocsp_cache { save_interval: 0.1 }", OCSPCache("local", save_interval=1.0)),
    ],
)
def test_cache(text: str, expected: OCSPCache) -> None:
    """
    By default answers are cached in memory. C{ocsp_cache} may store them in a file, or disable the
    cache.
    """
    assert built(text or "port: 1").settings.ocsp_cache == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("true", OCSPPeer(True)),
        ("false", OCSPPeer(False)),
        ("{ verify: true, ca_timeout: 1, allowed_clockskew: '5s' }", OCSPPeer(True, 5.0, 1.0)),
        ("{ verify: true, ca_timeout: -1 }", OCSPPeer(True)),
        ("{ warn_only: true }", OCSPPeer(warn_only=True)),
    ],
)
def test_peer(text: str, expected: OCSPPeer) -> None:
    """The rules for peers are in the block of their TLS. A negative time stands for the default."""
    leafnodes = built(PEER.format(text)).settings.leafnodes
    assert leafnodes is not None and leafnodes.remotes[0].tls is not None
    assert leafnodes.remotes[0].tls.ocsp_peer == expected


@pytest.mark.parametrize(
    "text, error",
    [
        ("ocsp { mode: sometimes }", 'ocsp.mode: unsupported ocsp mode "sometimes"'),
        ("ocsp_cache { type: remote }", "unknown type [remote]"),
    ],
)
def test_mistakes(text: str, error: str) -> None:
    """An unknown mode or type is refused."""
    (problem,) = complaintsOf(text)
    assert error in problem


@pytest.mark.parametrize(
    "text",
    ["{}", "leafnodes {{ port: 1, {} }}", "websocket {{ port: 1, {} }}"],
)
def test_needsVerify(text: str) -> None:
    """C{ocsp_peer} requires C{verify}, because only verified certificates can be checked."""
    tls = "tls {{ cert_file: cert.pem, key_file: key.pem, verify: {}, ocsp_peer: true }}"
    (problem,) = complaintsOf(text.format(tls.format("false")))
    assert "tls.ocsp_peer: OCSP peer verification needs verify: true" in problem
    assert built(text.format(tls.format("true")))
