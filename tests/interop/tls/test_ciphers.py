"""
Versions and cipher suites, scanned on nats-server and on natsbroker. Each way to configure TLS in
natsbroker has the same result.
"""

from __future__ import annotations

import re
import ssl
from functools import lru_cache
from pathlib import Path

import pytest

from tests.interop.servers import OURS_FAST, Server
from tests.interop.tls.authority import authority, issue
from tests.interop.tls.conftest import BLOCK, Serve
from tests.interop.tls.twistd import twistd
from tests.interop.tls.versions import OLD, V
from tests.interop.tls.wire import ANYTHING, contextFor, isAccepted, shakeHands

#: Not authenticated, not encrypted, without forward secrecy, or broken.
WEAK = re.compile(r"ADH|AECDH|NULL|EXP|RC4|RC2|DES|MD5|PSK|SRP|^(AES|CAMELLIA|SEED|ARIA|IDEA)")


@lru_cache(maxsize=1)
def offers() -> tuple[str, ...]:
    """Every suite up to TLS 1.2 that a client of this OpenSSL can offer alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(ANYTHING)
    names = [
        cipher["name"] for cipher in context.get_ciphers() if "TLSv1.3" not in cipher["protocol"]
    ]
    return tuple(name for name in names if not re.search("PSK|SRP", name))


def scan(port: int, first: bool = False) -> set[str]:
    """
    The suites that a server accepts: those of TLS 1.2 are offered one by one, and each version with
    all other suites.
    """
    taken = set()
    for name in offers():
        context = contextFor(versions=(V.TLSv1_2, V.TLSv1_2), ciphers=f"{name}:@SECLEVEL=0")
        if isAccepted(port, context, first):
            taken.add(name)
    for version in (*OLD, V.TLSv1_2, V.TLSv1_3):
        context = contextFor(versions=(version, version), ciphers=ANYTHING)
        if isAccepted(port, context, first):
            taken.add(version.name)
    return taken


@pytest.fixture(scope="module")
def rsa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an RSA certificate, with which most kinds of suites can be used."""
    directory = tmp_path_factory.mktemp("rsa")
    ours = authority()
    ours.write(directory, "ca")
    issue(ours, names=["localhost"], bits=2048).write(directory, "server")
    return directory


class TestVersions:
    """TLS versions, with an elliptic certificate."""

    @pytest.mark.skipif(not OLD, reason="this OpenSSL has no old versions to offer")
    @pytest.mark.parametrize("version", OLD)
    def test_oldVersions(self, serve: Serve, version: V) -> None:
        """TLS 1.0 and 1.1 are refused, whatever the client offers."""
        context = contextFor(versions=(version, version), ciphers=ANYTHING)
        assert not isAccepted(serve(BLOCK % "").port, context)

    @pytest.mark.parametrize("version", [V.TLSv1_2, V.TLSv1_3])
    def test_supportedVersions(self, serve: Serve, version: V) -> None:
        """TLS 1.2 and 1.3 are accepted."""
        assert isAccepted(serve(BLOCK % "").port, contextFor(versions=(version, version)))

    @pytest.mark.parametrize(("version", "taken"), [(V.TLSv1_2, False), (V.TLSv1_3, True)])
    def test_minimum(self, serve: Serve, version: V, taken: bool) -> None:
        """TLS 1.2 is refused if the minimum is 1.3."""
        port = serve(BLOCK % 'min_version: "1.3"').port
        assert isAccepted(port, contextFor(versions=(version, version))) is taken

    def test_newestVersion(self, serve: Serve) -> None:
        """The newest common version is used."""
        with shakeHands(serve(BLOCK % "").port, contextFor()) as wire:
            assert isinstance(wire.socket, ssl.SSLSocket)
            assert wire.socket.version() == "TLSv1.3"


class TestSuites:
    """Cipher suites, with an RSA certificate."""

    def config(self, rsa: Path, more: str = "") -> str:
        """A TLS block with the RSA certificate."""
        return (BLOCK % more).replace("$DIR", str(rsa))

    def test_offersAreMany(self) -> None:
        """The scan offers weak suites too: static keys, and triple DES if OpenSSL has it."""
        assert {"AES128-SHA", "AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"} <= set(offers())
        assert sum(bool(WEAK.search(name)) for name in offers()) > 10

    def test_weak(self, serve: Serve, rsa: Path) -> None:
        """No weak cipher is accepted by default."""
        taken = scan(serve(self.config(rsa)).port)
        assert [name for name in taken if WEAK.search(name)] == []
        assert {"ECDHE-RSA-AES128-GCM-SHA256", "TLSv1_2", "TLSv1_3"} <= taken

    @pytest.mark.parametrize(
        ("configured", "expected"),
        [
            (
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
                {"ECDHE-RSA-AES256-GCM-SHA384", "TLSv1_2", "TLSv1_3"},
            ),
            (
                "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
                {"ECDHE-RSA-AES128-SHA", "TLSv1_2", "TLSv1_3"},
            ),
        ],
    )
    def test_configured(self, serve: Serve, rsa: Path, configured: str, expected: set[str]) -> None:
        """Exactly the configured TLS 1.2 suites are accepted by both servers."""
        assert scan(serve(self.config(rsa, f"cipher_suites: [{configured}]")).port) == expected

    def test_insecure(self, serve: Serve, rsa: Path) -> None:
        """A static cipher suite is accepted if the configuration names it."""
        more = (
            "cipher_suites: [TLS_RSA_WITH_AES_128_GCM_SHA256]\nallow_insecure_cipher_suites: true"
        )
        assert "AES128-GCM-SHA256" in scan(serve(self.config(rsa, more)).port)


class TestWays:
    """All ways to enable TLS in natsbroker have the same suites (CVE-2021-32026)."""

    def test_same(self, rsa: Path, tmp_path: Path) -> None:
        """
        The configuration file, the command line, and an C{ssl:} endpoint accept the same suites.
        """
        block = (BLOCK % "").replace("$DIR", str(rsa))
        flags = ["--tls", f"--tlscert={rsa}/server.pem", f"--tlskey={rsa}/server-key.pem"]
        scans = []
        for config, arguments in ((block, []), (None, flags)):
            server = Server(OURS_FAST, tmp_path, config, arguments).start()
            try:
                scans.append(scan(server.port))
            finally:
                server.stop()
        with twistd(tmp_path, rsa) as started:
            scans.append(scan(started.port, first=True))
        assert scans[0] == scans[1] == scans[2]
        assert len(scans[0]) > 3

    def test_sameWithSettings(self, rsa: Path, tmp_path: Path) -> None:
        """The configured suites and versions apply to C{ssl:} endpoints too."""
        (tmp_path / "x.conf").write_text(
            (BLOCK % "cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]").replace(
                "$DIR", str(rsa)
            )
        )
        with twistd(tmp_path, rsa, "--config", str(tmp_path / "x.conf")) as started:
            taken = scan(started.port, first=True)
        assert taken == {"ECDHE-RSA-AES128-GCM-SHA256", "TLSv1_2", "TLSv1_3"}
