"""
The terms of TLS, and the description of a connection's TLS.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface.verify import verifyObject

from natsbroker.config.model import TLSSettings
from natsbroker.connections.tls import (
    ConnectionCreator,
    expiryOf,
    isPinned,
    securityOf,
    standardName,
)
from natsbroker.connections.tlscontext import contextFrom
from natsbroker.wire.grants import Security
from tests.auth.certificates import certificate
from tests.connections.handshakes import Handshake, clientContext
from tests.interop.certificates import writeCertificates


def test_isPinned() -> None:
    """A pinned key is accepted. If keys are pinned, any other key and a missing one are refused."""
    shown = certificate("CN=alice")
    key = shown.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pin, other = hashlib.sha256(key).hexdigest(), "00" * 32
    assert isPinned(shown, frozenset({pin, other})) and not isPinned(shown, frozenset({other}))
    assert isPinned(None, frozenset()) and not isPinned(None, frozenset({pin}))


def test_creator() -> None:
    """
    A creator provides the interfaces that Twisted requires, and makes a connection for a client.
    """
    creator = ConnectionCreator(SSL.Context(SSL.TLS_SERVER_METHOD))
    verifyObject(IOpenSSLServerConnectionCreator, creator)
    client = SimpleNamespace(connection=None)
    made = creator.serverConnectionForTLS(SimpleNamespace(wrappedProtocol=client))
    assert client.connection is made


@pytest.mark.parametrize(
    ("theirs", "standard"),
    [
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("", ""),
    ],
)
def test_names(theirs: str, standard: str) -> None:
    """Cipher suites have the names of the standard."""
    assert standardName(theirs) == standard


def test_unknown() -> None:
    """If the transport does TLS by itself, only the certificate is known."""
    shown = certificate("CN=alice")
    assert securityOf(None, shown) == Security(chain=(shown,), shown=(shown,))
    assert securityOf(None, None) == Security()


def test_verified(tmp_path: Path) -> None:
    """
    The description has version and cipher, and the chain from the client's certificate to its
    authority.
    """
    writeCertificates(tmp_path)
    pair = (str(tmp_path / "server.pem"), str(tmp_path / "server-key.pem"))
    settings = TLSSettings(certs=(pair,), verify=True, ca_file=str(tmp_path / "ca.pem"))
    done = Handshake(contextFrom(settings), clientContext(tmp_path)).run()
    chain = tuple(
        load_pem_x509_certificate((tmp_path / name).read_bytes())
        for name in ("client.pem", "ca.pem")
    )
    security = securityOf(done.server, chain[0])
    assert security == Security("1.3", done.client.get_cipher_name() or "", chain, chain[:1])


def test_older(tmp_path: Path) -> None:
    """The description has no chain if the client has no certificate."""
    writeCertificates(tmp_path)
    pair = (str(tmp_path / "server.pem"), str(tmp_path / "server-key.pem"))
    client = clientContext()
    client.set_max_proto_version(SSL.TLS1_2_VERSION)
    done = Handshake(contextFrom(TLSSettings(certs=(pair,))), client).run()
    security = securityOf(done.server, None)
    assert (security.version, security.chain) == ("1.2", ())
    assert security.cipher.startswith("TLS_ECDHE_ECDSA_WITH_")


def test_expiry(tmp_path: Path) -> None:
    """The description has the expiry of the server's certificate, if there is one."""
    writeCertificates(tmp_path)
    pair = (str(tmp_path / "server.pem"), str(tmp_path / "server-key.pem"))
    wanted = load_pem_x509_certificate((tmp_path / "server.pem").read_bytes()).not_valid_after_utc
    expiry = expiryOf(contextFrom(TLSSettings(certs=(pair,))))
    assert datetime.strptime(expiry, "%Y-%m-%dT%H:%M:%S%z") == wanted
    assert expiryOf(SSL.Context(SSL.TLS_METHOD)) == ""
