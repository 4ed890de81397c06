"""
Tests for L{natsbroker.config.tls}.
"""

from __future__ import annotations

import pytest

from natsbroker.config import model
from natsbroker.config.errors import ConfigErrors
from natsbroker.config.tls import (
    CIPHER_SUITES,
    CURVES,
    INSECURE_CIPHER_SUITES,
    TLSSettings,
    tlsHelp,
)
from tests.config.support import PEM, built, complaintsOf, filesystem, settingsOf


def test_defaults() -> None:
    """
    A block without keys requires no client certificates, and trusts no authority without
    verification.
    """
    tls = TLSSettings()
    assert (tls.verify, tls.insecure, tls.timeout, tls.min_version) == (False, False, 2.0, "1.2")


def test_modelExportsTLS() -> None:
    """The model exports the TLS settings for programs that embed a broker."""
    assert model.TLSSettings is TLSSettings


PAIR = "cert_file: cert.pem, key_file: key.pem"
PIN = "ab" * 32


def tlsOf(text: str) -> TLSSettings:
    """
    Build a C{tls} block that has a certificate.
    """
    tls = settingsOf(f"tls {{ {PAIR}, {text} }}").tls
    assert tls is not None
    return tls


def test_noBlock() -> None:
    """Without the block there is no TLS."""
    assert settingsOf("port: 1").tls is None


def test_allKeys() -> None:
    """Each key of the block sets its field."""
    assert tlsOf(
        "ca_file: ca.pem, verify: true, timeout: '3s', min_version: '1.3', "
        "cipher_suites: [TLS_AES_128_GCM_SHA256], curve_preferences: [X25519, CurveP256], "
        f"pinned_certs: ['{PIN.upper()}'], connection_rate_limit: 9, insecure: true"
    ) == TLSSettings(
        cert_file="cert.pem",
        key_file="key.pem",
        ca_file="ca.pem",
        certs=(("cert.pem", "key.pem"),),
        verify=True,
        insecure=True,
        timeout=3.0,
        min_version="1.3",
        cipher_suites=("TLS_AES_128_GCM_SHA256",),
        curve_preferences=("X25519", "CurveP256"),
        pinned_certs=frozenset({PIN}),
        connection_rate_limit=9,
    )


def test_mapImpliesVerify() -> None:
    """The key that maps certificates to users also verifies them."""
    tls = tlsOf("verify_and_map: true")
    assert (tls.verify, tls.verify_and_map) == (True, True)


KNOWN = f"tls {{ {PAIR}, verify_cert_and_check_known_urls: true }}"


@pytest.mark.parametrize(
    "text",
    [
        f"cluster {{ port: 6222, {KNOWN} }}",
        f"gateway {{ name: g, port: 7222, {KNOWN} }}",
        f"gateway {{ name: g, port: 7222, gateways: [ {{name: h, url: 'h:1', {KNOWN} }} ] }}",
    ],
)
def test_knownURLs(text: str) -> None:
    """Certificates can name hosts where URLs of peers are configured."""
    settings = settingsOf(text)
    block = settings.cluster or settings.gateway
    assert block is not None and block.isKnownByURL is (block.tls is not None)


@pytest.mark.parametrize(
    "text",
    [
        f"leafnodes {{ port: 7422, {KNOWN} }}",
        f"leafnodes {{ remotes: [ {{url: 'h:1', {KNOWN} }} ] }}",
        f"websocket {{ port: 8080, {KNOWN} }}",
    ],
)
def test_noURLs(text: str) -> None:
    """Elsewhere no certificate can name a known host, as in nats-server."""
    (complaint,) = complaintsOf(text)
    assert complaint.endswith("verify_cert_and_check_known_urls: not supported in this context")


def test_certs() -> None:
    """Several certificates can be configured."""
    pair = f"{{ {PAIR} }}"
    tls = settingsOf(f"tls {{ certs: [ {pair}, {pair} ] }}").tls
    assert tls is not None
    assert tls.certs == (("cert.pem", "key.pem"),) * 2


FIRST = [
    ("true", (True, 0.0)),
    ("false", (False, 0.0)),
    ("'on'", (True, 0.0)),
    ("'off'", (False, 0.0)),
    ("auto", (True, 0.05)),
    ("auto_fallback", (True, 0.05)),
    ("'250ms'", (True, 0.25)),
]


@pytest.mark.parametrize(("text", "expected"), FIRST)
def test_handshakeFirst(text: str, expected: tuple[bool, float]) -> None:
    """C{handshake_first} is always, never, or with a fallback after a delay."""
    tls = tlsOf(f"first: {text}")
    assert (tls.handshake_first, tls.handshake_first_fallback) == expected


def test_insecureCiphers() -> None:
    """Insecure cipher suites are refused unless they are allowed."""
    name = "TLS_RSA_WITH_RC4_128_SHA"
    suites = f"cipher_suites: [{name}]"
    assert tlsOf(f"allow_insecure_cipher_suites: true, {suites}").cipher_suites == (name,)
    (complaint,) = complaintsOf(f"tls {{ {PAIR}, {suites} }}")
    assert "without 'allow_insecure_cipher_suites' option set" in complaint


MISTAKES = [
    ("cert_file: cert.pem", "tls: missing 'key_file' in TLS configuration"),
    ("key_file: key.pem", "tls: missing 'cert_file' in TLS configuration"),
    ("", "tls: a listener needs 'cert_file' and 'key_file'"),
    ("cert_file: nope.pem, key_file: key.pem",
     "tls.cert_file: open nope.pem: No such file or directory"),
    (f"{PAIR}, ca_file: nope.pem", "tls.ca_file: open nope.pem: No such file or directory"),
    (f"{PAIR}, certs: [ {{ {PAIR} }} ]",
     "tls.certs: cannot combine 'cert_file' option with 'certs' option"),
    ("certs: [ {cert_file: cert.pem} ]", "tls.certs[0]: missing 'key_file' in TLS configuration"),
    (f"{PAIR}, min_version: '1.1'", "tls.min_version: unsupported TLS version: TLS 1.1"),
    (f"{PAIR}, min_version: '2'", "tls.min_version: unknown version: 2"),
    (f"{PAIR}, cipher_suites: []", "tls.cipher_suites: 'cipher_suites' cannot be empty"),
    (f"{PAIR}, cipher_suites: [x]", "tls.cipher_suites: unrecognized cipher x"),
    (f"{PAIR}, curve_preferences: [x]",
     "tls.curve_preferences: unrecognized curve preference x"),
    (f"{PAIR}, pinned_certs: [x]",
     "tls.pinned_certs: key x is not the hexadecimal SHA-256 of a public key"),
    (f"{PAIR}, handshake_first: soon", 'tls.handshake_first: value "soon" is invalid'),
    (f"{PAIR}, timeout: -1", "tls.timeout: is negative"),
    (f"{PAIR}, verify_cert_and_check_known_urls: true",
     "tls.verify_cert_and_check_known_urls: not supported in this context"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "complaint"), MISTAKES)
def test_mistakes(text: str, complaint: str) -> None:
    """An invalid setting of a listener is reported with its path."""
    complaints = [problem.partition(" ")[2] for problem in complaintsOf(f"tls {{ {text} }}")]
    assert complaints == [complaint]


def test_notPEM() -> None:
    """A file that is not PEM is refused before a client connects."""
    files = filesystem({"cert.pem": "", "key.pem": PEM})
    with pytest.raises(ConfigErrors, match=r"cert\.pem holds no certificate"):
        built(f"tls {{ {PAIR} }}", files)


def test_help() -> None:
    """The help about TLS names all cipher suites and curves."""
    words = set(tlsHelp().split())
    assert set(CIPHER_SUITES + INSECURE_CIPHER_SUITES + CURVES) <= words
