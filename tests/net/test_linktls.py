"""
TLS on links.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from OpenSSL import SSL
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from zope.interface.verify import verifyObject

from natsbroker.config.model import TLS
from natsbroker.hosting.tls import bothContextsFrom
from natsbroker.net.linktls import LinkTLS, isAddress, nameProblem, pinProblem
from tests.interop.certificates import writeCertificates


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Certificates of one authority, and of another one below C{other}."""
    path = tmp_path_factory.mktemp("certificates")
    (path / "other").mkdir()
    writeCertificates(path)
    writeCertificates(path / "other")
    yield path


def member(directory: Path, insecure: bool = False) -> LinkTLS:
    """How a member with a certificate of an authority does TLS."""
    files = (str(directory / "server.pem"), str(directory / "server-key.pem"))
    tls = TLS(ca_file=str(directory / "ca.pem"), certs=(files,), insecure=insecure)
    return LinkTLS(*bothContextsFrom(tls), insecure=insecure)


def handshake(answering: LinkTLS, dialling: LinkTLS, name: str) -> tuple[object, object, object]:
    """
    Do a handshake in memory.

    @return: the certificate that each end sees, and the name that was asked for.
    """
    server = answering.creator(None).serverConnectionForTLS(None)
    client = dialling.creator(name).clientConnectionForTLS(None)
    server.set_accept_state()
    client.set_connect_state()
    ends = [(client, server), (server, client)]
    for _ in range(10):
        for end, other in ends:
            try:
                end.do_handshake()
            except SSL.WantReadError:
                pass
            while True:
                try:
                    other.bio_write(end.bio_read(65536))
                except SSL.WantReadError:
                    break
    return (
        client.get_peer_certificate(),
        server.get_peer_certificate(),
        server.get_servername(),
    )


def test_both(directory: Path) -> None:
    """Both ends show a certificate, and a name that is dialled is said."""
    tls = member(directory)
    theirs, ours, asked = handshake(tls, tls, "localhost")
    assert theirs is not None and ours is not None and asked == b"localhost"
    assert handshake(tls, tls, "127.0.0.1")[2] is None


def test_stranger(directory: Path) -> None:
    """Neither end takes a certificate of another authority."""
    ours, strange = member(directory), member(directory / "other")
    for answering, dialling in ((ours, strange), (strange, ours)):
        with pytest.raises(SSL.Error):
            handshake(answering, dialling, "localhost")


def test_insecure(directory: Path) -> None:
    """Whoever dials may leave it at that; whoever answers may not."""
    careless, strange = member(directory, True), member(directory / "other")
    with pytest.raises(SSL.Error):
        handshake(strange, careless, "localhost")
    with pytest.raises(SSL.Error):
        handshake(careless, strange, "localhost")


def test_creators(directory: Path) -> None:
    """What Twisted needs to make connections."""
    tls = member(directory)
    assert verifyObject(IOpenSSLServerConnectionCreator, tls.creator(None))
    assert verifyObject(IOpenSSLClientConnectionCreator, tls.creator("localhost"))


@pytest.mark.parametrize(
    "name, problem",
    [
        ("localhost", ""),
        ("127.0.0.1", ""),
        ("other.example", "certificate is not valid for other.example, a name that was dialled"),
        ("127.0.0.2", "certificate is not valid for 127.0.0.2, an address that was dialled"),
    ],
)
def test_names(directory: Path, name: str, problem: str) -> None:
    """A certificate must be for the name, or the address, that was dialled."""
    (certificate,) = x509.load_pem_x509_certificates((directory / "server.pem").read_bytes())
    assert nameProblem(certificate, name) == problem


def test_noName(directory: Path) -> None:
    """One without any name is for nobody, and none is none."""
    (certificate,) = x509.load_pem_x509_certificates((directory / "ca.pem").read_bytes())
    assert nameProblem(certificate, "localhost").startswith("certificate is not valid")
    assert nameProblem(None, "localhost") == "the peer has no certificate"


def test_pins(directory: Path) -> None:
    """Of pinned certificates, only those are taken."""
    (certificate,) = x509.load_pem_x509_certificates((directory / "server.pem").read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pin = hashlib.sha256(key).hexdigest()
    assert pinProblem(certificate, frozenset()) == pinProblem(None, frozenset()) == ""
    assert pinProblem(certificate, frozenset({pin})) == ""
    assert pinProblem(certificate, frozenset({"0" * 64})) == "certificate not pinned"
    assert pinProblem(None, frozenset({pin})) == "certificate not pinned"


@pytest.mark.parametrize("host, address", [("::1", True), ("1.2.3.4", True), ("a.b", False)])
def test_isAddress(host: str, address: bool) -> None:
    """An address is no name."""
    assert isAddress(host) is address
