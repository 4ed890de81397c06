"""
OpenSSL contexts from C{tls} blocks, tested with real handshakes in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from OpenSSL import SSL

from natsbroker.config.model import TLSSettings
from natsbroker.config.tls import CIPHER_SUITES
from natsbroker.connections.tls import Begin
from natsbroker.connections.tlscontext import (
    TLSSettingsError,
    bothContextsFrom,
    contextFrom,
    diallingContextFrom,
    termsFrom,
)
from tests.connections.handshakes import Handshake, clientContext
from tests.interop.certificates import writeCertificates
from tests.server.support import logLines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an authority and certificates, and those of another authority beside it."""
    folder = tmp_path_factory.mktemp("tls")
    writeCertificates(folder)
    (folder / "other").mkdir()
    writeCertificates(folder / "other")
    yield folder


def settings(folder: Path, **more: Any) -> TLSSettings:
    """A TLS block with the server's certificate."""
    pair = (str(folder / "server.pem"), str(folder / "server-key.pem"))
    return replace(TLSSettings(certs=(pair,)), **more)


def verifying(folder: Path) -> TLSSettings:
    """A TLS block that requires client certificates."""
    return settings(folder, verify=True, ca_file=str(folder / "ca.pem"))


class TestVersions:
    """Versions of the protocol."""

    def test_newest(self, folder: Path) -> None:
        """The newest version that both ends support is used."""
        done = Handshake(contextFrom(settings(folder)), clientContext()).run()
        assert done.client.get_protocol_version_name() == "TLSv1.3"

    def test_older(self, folder: Path) -> None:
        """TLS 1.2 is accepted by default, with forward secrecy and authenticated encryption."""
        client = clientContext()
        client.set_max_proto_version(SSL.TLS1_2_VERSION)
        done = Handshake(contextFrom(settings(folder)), client).run()
        cipher = done.client.get_cipher_name() or ""
        assert cipher.startswith("ECDHE-") and ("GCM" in cipher or "POLY1305" in cipher)

    def test_tooOld(self, folder: Path) -> None:
        """TLS 1.1 is refused."""
        client = clientContext()
        client.set_cipher_list(b"ALL:@SECLEVEL=0")
        client.set_min_proto_version(SSL.TLS1_VERSION)
        client.set_max_proto_version(SSL.TLS1_1_VERSION)
        assert Handshake(contextFrom(settings(folder)), client).refused()

    def test_minimum(self, folder: Path) -> None:
        """TLS 1.2 is refused if the minimum version is 1.3."""
        client = clientContext()
        client.set_max_proto_version(SSL.TLS1_2_VERSION)
        assert Handshake(contextFrom(settings(folder, min_version="1.3")), client).refused()


class TestCiphers:
    """Cipher suites and curves."""

    @pytest.mark.parametrize("suite", [suite for suite in CIPHER_SUITES if "ECDSA" in suite])
    def test_eachOlder(self, folder: Path, suite: str) -> None:
        """Each TLS 1.2 cipher suite that settings may name can be the only one."""
        client = clientContext()
        client.set_max_proto_version(SSL.TLS1_2_VERSION)
        client.set_cipher_list(b"ALL")
        done = Handshake(contextFrom(settings(folder, cipher_suites=(suite,))), client).run()
        cipher = (done.client.get_cipher_name() or "").replace("-", "")
        kind, _, bits = suite.partition("_WITH_")[2].partition("_")
        assert kind in cipher and bits[:3].strip("_") in cipher

    def test_eachNewer(self, folder: Path) -> None:
        """Each TLS 1.3 cipher suite can be the only one, and then no older version is accepted."""
        for suite in ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"):
            context = contextFrom(settings(folder, cipher_suites=(suite,)))
            assert Handshake(context, clientContext()).run().client.get_cipher_name() == suite
            old = clientContext()
            old.set_max_proto_version(SSL.TLS1_2_VERSION)
            assert Handshake(context, old).refused()

    def test_preferred(self, folder: Path) -> None:
        """The TLS 1.3 cipher suite that nats-server prefers is used."""
        done = Handshake(contextFrom(settings(folder)), clientContext()).run()
        assert done.client.get_cipher_name() == "TLS_AES_128_GCM_SHA256"

    def test_notOffered(self, folder: Path) -> None:
        """A client that offers only other ciphers is refused."""
        client = clientContext()
        client.set_max_proto_version(SSL.TLS1_2_VERSION)
        client.set_cipher_list(b"ECDHE-ECDSA-AES256-GCM-SHA384")
        suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
        context = contextFrom(settings(folder, cipher_suites=(suite,)))
        assert Handshake(context, client).refused()

    def test_staticKeys(self, folder: Path) -> None:
        """A cipher suite without forward secrecy is refused by default."""
        client = clientContext()
        client.set_max_proto_version(SSL.TLS1_2_VERSION)
        client.set_cipher_list(b"AES128-GCM-SHA256:AES256-SHA")
        assert Handshake(contextFrom(settings(folder)), client).refused()

    def test_curve(self, folder: Path) -> None:
        """A configured curve is used."""
        context = contextFrom(settings(folder, curve_preferences=("CurveP384",)))
        done = Handshake(context, clientContext()).run()
        assert (done.client.get_group_name() or "").lower() in ("secp384r1", "p-384")

    def test_unknown(self, folder: Path) -> None:
        """A name that OpenSSL does not know is refused, with the name in the error."""
        with pytest.raises(TLSSettingsError, match=r"curve_preferences.*CurveP999"):
            contextFrom(settings(folder, curve_preferences=("CurveP999",)))
        with pytest.raises(TLSSettingsError, match="cipher_suites"):
            contextFrom(settings(folder, cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",)))


class TestClients:
    """Client certificates."""

    def test_notAsked(self, folder: Path) -> None:
        """
        By default a client needs no certificate, and the certificate of a client is not verified.
        """
        context = contextFrom(settings(folder))
        assert Handshake(context, clientContext()).run()
        done = Handshake(context, clientContext(folder / "other")).run()
        assert done.server.get_peer_certificate() is None

    def test_shown(self, folder: Path) -> None:
        """A client certificate of our authority is accepted."""
        done = Handshake(contextFrom(verifying(folder)), clientContext(folder)).run()
        assert done.server.get_peer_certificate() is not None

    def test_missing(self, folder: Path) -> None:
        """A client without a certificate is refused."""
        assert Handshake(contextFrom(verifying(folder)), clientContext()).refused()

    def test_otherAuthority(self, folder: Path) -> None:
        """A client certificate of another authority is refused."""
        client = clientContext(folder / "other")
        assert Handshake(contextFrom(verifying(folder)), client).refused()

    def test_noResumption(self, folder: Path) -> None:
        """
        A session of a listener without client certificates cannot be resumed at a listener that
        requires them.
        """
        client = clientContext()
        client.set_max_proto_version(SSL.TLS1_2_VERSION)
        done = Handshake(contextFrom(settings(folder)), client).run()
        session = done.client.get_session()
        again = Handshake(contextFrom(verifying(folder)), client)
        if session is not None:
            again.client.set_session(session)
        assert again.refused()


class TestRenegotiation:
    """Renegotiation during a connection."""

    def test_clientsCannotRenegotiate(self, folder: Path) -> None:
        """A client cannot renegotiate."""
        client = clientContext()
        client.set_max_proto_version(SSL.TLS1_2_VERSION)
        done = Handshake(contextFrom(settings(folder)), client).run()
        done.client.renegotiate()
        with pytest.raises(SSL.Error) as error:
            for _ in range(4):
                try:
                    done.client.do_handshake()
                except SSL.WantReadError:
                    pass
                done.exchange()
                try:
                    done.server.recv(1)
                except SSL.WantReadError:
                    pass
                done.exchange()
        assert "renegotiation" in str(error.value)


class TestNames:
    """Listeners with several certificates."""

    @pytest.mark.parametrize(
        ("asked", "shown"),
        [(b"localhost", "server"), (b"LocalHost", "server"), (b"x.org", "client"), (b"", "client")],
    )
    def test_chosen(self, folder: Path, asked: bytes, shown: str) -> None:
        """The first certificate for the requested name is sent, or else the first of all."""
        pairs = tuple(
            (str(folder / f"{name}.pem"), str(folder / f"{name}-key.pem"))
            for name in ("client", "server")
        )
        done = Handshake(contextFrom(TLSSettings(certs=pairs)), clientContext(), asked).run()
        certificate = done.client.get_peer_certificate()
        assert certificate is not None
        expected = x509.load_pem_x509_certificate((folder / f"{shown}.pem").read_bytes())
        assert certificate.to_cryptography() == expected

    def test_failing(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        If the choice of a certificate raises an exception, the handshake fails (CVE-2026-27448).
        """

        def fail(*arguments: object) -> None:
            raise ZeroDivisionError("chosen badly")

        monkeypatch.setattr("natsbroker.connections.tlscontext._choose", fail)
        pairs = tuple(
            (str(folder / f"{name}.pem"), str(folder / f"{name}-key.pem"))
            for name in ("client", "server")
        )
        shaking = Handshake(contextFrom(TLSSettings(certs=pairs)), clientContext(), b"localhost")
        with pytest.raises((SSL.Error, ZeroDivisionError)):
            shaking.run()

    def test_library(self) -> None:
        """The package requires a version of pyOpenSSL in which such a handshake fails."""
        needed = [
            requirement
            for requirement in requires("natsbroker") or ()
            if "pyopenssl" in requirement.lower()
        ]
        assert needed == ["pyOpenSSL>=26.0"]
        assert int(version("pyOpenSSL").partition(".")[0]) >= 26


class TestFiles:
    """Invalid certificate files."""

    def test_missing(self, folder: Path) -> None:
        """A missing file is named in the error."""
        broken = TLSSettings(certs=((str(folder / "none.pem"), str(folder / "server-key.pem")),))
        with pytest.raises(TLSSettingsError, match=r"cert_file .*none\.pem"):
            contextFrom(broken)

    def test_otherKey(self, folder: Path) -> None:
        """A key that does not belong to the certificate is refused."""
        broken = TLSSettings(certs=((str(folder / "server.pem"), str(folder / "client-key.pem")),))
        with pytest.raises(TLSSettingsError, match=r"client-key\.pem"):
            contextFrom(broken)

    def test_place(self, folder: Path) -> None:
        """
        An error names the TLS block with its place, for listeners and for outgoing connections.
        """
        pair = (str(folder / "server.pem"), str(folder / "client-key.pem"))
        broken = TLSSettings(certs=(pair,), place="x.conf:3:5: leafnodes.remotes[0].tls")
        place = r"^x\.conf:3:5: leafnodes\.remotes\[0\]\.tls: key_file"
        makers: list[Callable[[TLSSettings], object]] = [
            contextFrom,
            bothContextsFrom,
            diallingContextFrom,
        ]
        for make in makers:
            with pytest.raises(TLSSettingsError, match=place):
                make(broken)

    def test_noAuthority(self, folder: Path) -> None:
        """A file that contains no authority is refused."""
        with pytest.raises(TLSSettingsError, match="ca_file"):
            contextFrom(settings(folder, verify=True, ca_file=str(folder / "server-key.pem")))

    @pytest.mark.parametrize(("mode", "isTold"), [(0o600, False), (0o400, False), (0o644, True)])
    def test_readers(self, folder: Path, mode: int, isTold: bool) -> None:
        """A key that other users can read is used, as by nats-server, with a warning in the log."""
        key = folder / "server-key.pem"
        key.chmod(mode)
        try:
            with logLines() as lines:
                contextFrom(settings(folder))
        finally:
            key.chmod(0o600)
        said = [line for line in lines if "server-key.pem can be used by others" in line]
        assert len(said) == isTold
        assert all(line.startswith("[WRN]") and f"mode {mode:04o}" in line for line in said)

    def test_none(self) -> None:
        """Settings without a certificate are refused."""
        with pytest.raises(TLSSettingsError, match="no certificate"):
            contextFrom(TLSSettings())


class TestTerms:
    """The terms of a listener's TLS."""

    @pytest.mark.parametrize(
        ("first", "fallback", "optional", "begin"),
        [
            (False, 0.0, False, Begin.AFTER_INFO),
            (False, 0.0, True, Begin.BY_CLIENT),
            (True, 0.0, False, Begin.FIRST),
            (True, 0.0, True, Begin.FIRST),
            (True, 0.3, False, Begin.FIRST_OR_INFO),
            (True, 0.3, True, Begin.FIRST_OR_INFO),
        ],
    )
    def test_begin(
        self, folder: Path, first: bool, fallback: float, optional: bool, begin: Begin
    ) -> None:
        """The beginning of TLS depends on C{handshake_first} and C{allow_non_tls}."""
        block = settings(folder, handshake_first=first, handshake_first_fallback=fallback)
        terms = termsFrom(block, optional)
        assert (terms.begin, terms.optional) == (begin, optional)

    def test_rest(self, folder: Path) -> None:
        """The other terms are those of the settings."""
        pins = frozenset({"ab" * 32})
        block = settings(folder, timeout=7.0, pinned_certs=pins, connection_rate_limit=3)
        terms = termsFrom(block, False)
        assert terms.settings == block
