"""
TLS of dialled connections, with handshakes in memory.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import Certificate, trustRootFromCertificates
from zope.interface.verify import verifyObject

from natsbroker.config.model import TLSSettings
from natsbroker.connections.peernames import NamelessCertificate, checkNames, clientTLS
from natsbroker.connections.tlscontext import contextFrom
from tests.auth.certificates import certificate
from tests.connections.handshakes import Handshake
from tests.interop.tls.authority import Issued, authority, issue

AUTHORITY = authority()


class Peer:
    """
    A replacement for the protocol of the handshake.

    @ivar failed: the error that it was told.
    """

    factory = SimpleNamespace(wrappedFactory=None)

    def __init__(self) -> None:
        self.failed: list[Any] = []

    def failVerification(self, failure: Any) -> None:
        """Record that the name in the certificate is wrong."""
        self.failed.append(failure)


def reached(place: Path, shown: Issued, hostname: str) -> bool:
    """Whether a server with this certificate is accepted as a host."""
    shown.write(place, "shown")
    pair = (str(place / "shown.pem"), str(place / "shown-key.pem"))
    load: Any = Certificate.loadPEM
    trusted = trustRootFromCertificates([load(AUTHORITY.pem)])
    shaking = Handshake(contextFrom(TLSSettings(certs=(pair,))), SSL.Context(SSL.TLS_CLIENT_METHOD))
    peer: Any = Peer()
    creator = clientTLS(hostname, trusted)
    verifyObject(IOpenSSLClientConnectionCreator, creator)
    shaking.client = creator.clientConnectionForTLS(peer)
    shaking.client.set_connect_state()
    isTaken = not shaking.refused()
    assert not (isTaken and peer.failed)
    return isTaken


class TestDialling:
    """The names that a certificate is valid for."""

    @pytest.mark.parametrize(
        ("names", "addresses", "hostname", "expected"),
        [
            (["localhost"], [], "localhost", True),
            (["LOCALHOST"], [], "localhost", True),
            (["*.example.com"], [], "a.example.com", True),
            ([], ["127.0.0.1"], "127.0.0.1", True),
            ([], ["::1"], "::1", True),
            (["xn--bcher-kva.example"], [], "b\xfccher.example", True),
            (["example.com"], [], "localhost", False),
            (["localhost"], [], "127.0.0.1", False),
            ([], ["127.0.0.2"], "127.0.0.1", False),
            # What Twisted itself lets pass: no name at all, and one that makes no sense.
            ([], [], "localhost", False),
            (["127.0.0.1"], [], "127.0.0.1", False),
            (["127.0.0.1", "localhost"], [], "localhost", False),
            (["*"], [], "localhost", False),
            (["a*.example.com"], [], "ab.example.com", False),
        ],
    )
    def test_names(
        self,
        tmp_path: Path,
        names: list[str],
        addresses: list[str],
        hostname: str,
        expected: bool,
    ) -> None:
        """A certificate is accepted only for its names, and never if these cannot be read."""
        shown = issue(AUTHORITY, "CN=localhost", names=names, addresses=addresses)
        assert reached(tmp_path, shown, hostname) is expected

    def test_stranger(self, tmp_path: Path) -> None:
        """A certificate of an untrusted authority is refused although its name is right."""
        assert not reached(tmp_path, issue(None, names=["localhost"]), "localhost")


class TestCheckNames:
    """Certificates that another component has verified."""

    @pytest.mark.parametrize("names", [["localhost"], ["*.example.com"], ["a.b", "c.d"]])
    def test_good(self, names: list[str]) -> None:
        """
        A certificate with comparable names is accepted, because the other component has compared
        them.
        """
        checkNames(certificate(names=names))

    @pytest.mark.parametrize(
        "shown",
        [
            None,
            certificate("CN=localhost"),
            certificate(names=["127.0.0.1"]),
            certificate(names=["*"]),
            certificate(emails=["localhost@example.com"]),
        ],
    )
    def test_bad(self, shown: Any) -> None:
        """A certificate without names, or with malformed ones, is refused."""
        with pytest.raises(NamelessCertificate):
            checkNames(shown)
