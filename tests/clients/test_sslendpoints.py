"""
Listeners for clients that are described as C{ssl:...}.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactor

from natsbroker.clients.sslendpoints import SSLEndpoint
from natsbroker.config.model import TLSSettings
from natsbroker.connections.opensocket import BACKLOG
from natsbroker.connections.tls import Begin
from natsbroker.connections.tlscontext import TLSSettingsError
from tests.connections.handshakes import Handshake, clientContext
from tests.interop.certificates import writeCertificates

FACTORY = Factory()


def read(text: str) -> SSLEndpoint:
    """The parts of a description."""
    return SSLEndpoint.fromDescription(text)


class TestDescriptions:
    """The language of Twisted's endpoints."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("ssl:4443", SSLEndpoint(4443, "server.pem", "server.pem")),
            ("ssl:port=4443", SSLEndpoint(4443, "server.pem", "server.pem")),
            ("ssl:1:k.pem", SSLEndpoint(1, "k.pem", "k.pem")),
            ("ssl:1:k.pem:c.pem", SSLEndpoint(1, "k.pem", "c.pem")),
            ("ssl:1:privateKey=k.pem:certKey=c.pem", SSLEndpoint(1, "k.pem", "c.pem")),
            (
                r"ssl:0:privateKey=C\:/k=1.pem:interface=\:\:1:backlog=9:extraCertChain=x\\y",
                SSLEndpoint(0, "C:/k=1.pem", "C:/k=1.pem", "x\\y", "::1", 9),
            ),
        ],
    )
    def test_read(self, text: str, expected: SSLEndpoint) -> None:
        """
        Arguments are given by position or by name. A backslash makes the next character literal.
        """
        assert read(text) == expected

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("ssl:", "port"),
            ("ssl:x", "port"),
            ("ssl:-1", "port"),
            ("ssl:1_0", "port"),
            ("ssl:65536", "port"),
            ("ssl:\u0661", "port"),
            ("ssl:1:backlog=x", "backlog"),
            ("ssl:1:a:b:c", "another argument"),
            ("ssl:1:colour=red", "colour"),
            ("ssl:1\\", "backslash"),
            ("ssl:1:sslmethod=SSLv23_METHOD", "sslmethod is not supported: .*min_version"),
            ("ssl:1:dhParameters=dh.pem", "dhParameters is not supported: .*elliptic"),
        ],
    )
    def test_unusableDescriptionIsRefused(self, text: str, reason: str) -> None:
        """
        An invalid description is refused with the reason, so that a mistake cannot weaken TLS.
        """
        with pytest.raises(ValueError, match=reason):
            read(text)

    def test_isMeant(self) -> None:
        """Only descriptions that begin with C{ssl:} are read."""
        assert SSLEndpoint.isMeant("ssl:1")
        assert not SSLEndpoint.isMeant("sslx:1") and not SSLEndpoint.isMeant("tcp:1")

    def test_endpoint(self) -> None:
        """An endpoint listens at its address, with the usual backlog unless it names one."""
        for text, backlog in (("ssl:5:interface=127.0.0.1", BACKLOG), ("ssl:5:backlog=3", 3)):
            reactor: Any = MemoryReactor()
            read(text).endpoint(reactor).listen(FACTORY)
            [(port, _, listened, _)] = reactor.tcpServers
            assert (port, listened) == (5, backlog)


class TestTerms:
    """The terms of TLS."""

    @pytest.fixture
    def described(self, tmp_path: Path) -> SSLEndpoint:
        """A listener with a certificate."""
        writeCertificates(tmp_path)
        return SSLEndpoint(1, str(tmp_path / "server-key.pem"), str(tmp_path / "server.pem"))

    def contextOf(self, described: SSLEndpoint, policy: TLSSettings) -> Any:
        """The OpenSSL context of a listener."""
        creator = described.terms(policy).creator
        assert creator is not None
        return creator._context

    def test_first(self, described: SSLEndpoint) -> None:
        """The handshake is first and required, whatever the settings of other listeners."""
        for policy in (
            TLSSettings(),
            TLSSettings(handshake_first=True, handshake_first_fallback=3.0),
        ):
            terms = described.terms(policy)
            assert (terms.begin, terms.optional) == (Begin.FIRST, False)

    def test_demands(self, described: SSLEndpoint, tmp_path: Path) -> None:
        """A client certificate is required if the settings require one."""
        policy = TLSSettings(verify=True, ca_file=str(tmp_path / "ca.pem"))
        context = self.contextOf(described, policy)
        assert Handshake(context, clientContext()).refused()
        assert Handshake(context, clientContext(tmp_path)).run()

    def test_certificate(self, described: SSLEndpoint, tmp_path: Path) -> None:
        """The certificate is that of the description, not of the settings."""
        pair = (str(tmp_path / "client.pem"), str(tmp_path / "client-key.pem"))
        done = Handshake(
            self.contextOf(described, TLSSettings(certs=(pair,))), clientContext()
        ).run()
        shown: Any = done.client.get_peer_certificate(as_cryptography=True)
        assert shown.subject.rfc4514_string() == "CN=localhost"

    def test_chain(self, described: SSLEndpoint, tmp_path: Path) -> None:
        """The certificate chain of the description is sent to clients."""
        longer = SSLEndpoint(1, described.privateKey, described.certKey, str(tmp_path / "ca.pem"))
        for endpoint, length in ((described, 1), (longer, 2)):
            done = Handshake(self.contextOf(endpoint, TLSSettings()), clientContext()).run()
            assert len(done.client.get_peer_cert_chain() or ()) == length

    def test_chainMissing(self, described: SSLEndpoint, tmp_path: Path) -> None:
        """A missing chain file is named in the error."""
        for name in ("missing.pem", "server-key.pem"):
            path = str(tmp_path / name)
            with pytest.raises(TLSSettingsError, match=name):
                SSLEndpoint(1, described.privateKey, described.certKey, path).terms(TLSSettings())
