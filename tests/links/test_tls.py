"""
TLS on links.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from OpenSSL import SSL
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from twisted.internet.selectreactor import SelectReactor
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from natsbroker.config.model import TLSSettings
from natsbroker.connections.tls import isPinned
from natsbroker.connections.tlscontext import bothContextsFrom
from natsbroker.links.protocol import LinkFactory, LinkProtocol
from natsbroker.links.tls import LinkTLS, isAddress, nameProblem
from natsbroker.routes.terms import RouteTarget
from natsbroker.wire.compression import Compression
from natsbroker.wire.values import Message
from tests.interop.certificates import writeCertificates
from tests.routes.clusters import Node, target
from tests.support import PURE, Names, Recorder, onEach, using


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Certificates of one authority, and those of another one in C{other}."""
    path = tmp_path_factory.mktemp("certificates")
    (path / "other").mkdir()
    writeCertificates(path)
    writeCertificates(path / "other")
    yield path


def member(directory: Path, insecure: bool = False) -> LinkTLS:
    """The TLS of a member with a certificate of this authority."""
    files = (str(directory / "server.pem"), str(directory / "server-key.pem"))
    tls = TLSSettings(ca_file=str(directory / "ca.pem"), certs=(files,), insecure=insecure)
    return LinkTLS(*bothContextsFrom(tls), tls)


def handshake(answering: LinkTLS, dialling: LinkTLS, name: str) -> tuple[object, object, object]:
    """
    Do a handshake in memory.

    @return: the certificate that each end received, and the requested name.
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


def test_bothEnds(directory: Path) -> None:
    """Both ends send certificates, and the dialled name is requested."""
    tls = member(directory)
    theirs, ours, asked = handshake(tls, tls, "localhost")
    assert theirs is not None and ours is not None and asked == b"localhost"
    assert handshake(tls, tls, "127.0.0.1")[2] is None


def test_stranger(directory: Path) -> None:
    """A certificate of another authority is refused by both ends."""
    ours, strange = member(directory), member(directory / "other")
    for answering, dialling in ((ours, strange), (strange, ours)):
        with pytest.raises(SSL.Error):
            handshake(answering, dialling, "localhost")


def test_insecure(directory: Path) -> None:
    """Only the dialling end may skip the verification of certificates."""
    careless, strange = member(directory, True), member(directory / "other")
    with pytest.raises(SSL.Error):
        handshake(strange, careless, "localhost")
    with pytest.raises(SSL.Error):
        handshake(careless, strange, "localhost")


def test_creators(directory: Path) -> None:
    """TLS settings make the connection creators that Twisted requires."""
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
    """A certificate must have the dialled name or address."""
    (certificate,) = x509.load_pem_x509_certificates((directory / "server.pem").read_bytes())
    assert nameProblem(certificate, name) == problem


def test_noName(directory: Path) -> None:
    """A certificate without a name is refused for every peer, and so is a missing one."""
    (certificate,) = x509.load_pem_x509_certificates((directory / "ca.pem").read_bytes())
    assert nameProblem(certificate, "localhost").startswith("certificate is not valid")
    assert nameProblem(None, "localhost") == "the peer has no certificate"


def test_pins(directory: Path) -> None:
    """If certificates are pinned, only these are accepted."""
    (certificate,) = x509.load_pem_x509_certificates((directory / "server.pem").read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pin = hashlib.sha256(key).hexdigest()
    assert isPinned(certificate, frozenset()) and isPinned(None, frozenset())
    assert isPinned(certificate, frozenset({pin}))
    assert not isPinned(certificate, frozenset({"0" * 64}))
    assert not isPinned(None, frozenset({pin}))


@pytest.mark.parametrize("host, address", [("::1", True), ("1.2.3.4", True), ("a.b", False)])
def test_isAddress(host: str, address: bool) -> None:
    """An IP address is distinguished from a host name."""
    assert isAddress(host) is address


class Place(Node):
    """A member on a shared reactor, reached over TLS."""

    def __init__(self, name: str, number: int, reactor: Any, tls: LinkTLS, mode: str) -> None:
        super().__init__(name, number, reactor, compression=Compression(mode), hasTLS=True)
        self.tls = tls
        self.calls: list[int] = []

    def factory(self, goal: RouteTarget | None) -> LinkFactory:
        """A factory of connections that record the sizes of their input."""
        calls = self.calls

        class Listening(LinkProtocol):
            def dataReceived(self, data: bytes) -> None:
                calls.append(len(data))
                super().dataReceived(data)

        factory = LinkFactory(self.cluster.routeFor(goal), self.tls)
        name = None if goal is None else goal.host
        made = Listening(self.cluster.routeFor(goal), self.tls, name)
        vars(factory)["buildProtocol"] = lambda addr: made
        return factory


@pytest.fixture
def reactor() -> Iterator[Any]:
    """A separate reactor."""
    make: Any = SelectReactor
    made = make()
    yield made
    for reader in made.removeAll():
        reader.connectionLost(Failure(ConnectionDone()))
    for call in made.getDelayedCalls():
        call.cancel()


@onEach
@pytest.mark.parametrize("mode", ["off", "s2_fast"])
def test_records(names: Names, mode: str, reactor: Any, directory: Path) -> None:
    """
    A link gets the content of many TLS records together, and its output is encrypted together:
    dialled and accepted, with and without S2, and without the compiled lane.
    """
    with using(names):
        tls = member(directory)
        one = Place("n1", 6222, reactor, tls, mode)
        other = Place("n2", 6223, reactor, tls, mode)
        port = reactor.listenTCP(0, one.factory(None), interface="127.0.0.1")
        goal = target(port.getHost().port)
        TCP4ClientEndpoint(reactor, "127.0.0.1", goal.port).connect(other.factory(goal))
        until(reactor, lambda: one.peers() and other.peers())
        bodies = [Random(number).randbytes(4000) for number in range(200)]
        checkOneWay(reactor, other, one, bodies, names is not PURE)
        checkOneWay(reactor, one, other, bodies, names is not PURE)
        for place in (one, other):
            place.cluster.close(lambda: None)
        until(reactor, lambda: not (len(one.cluster) or len(other.cluster)))
        port.stopListening()


def checkOneWay(
    reactor: Any, sender: Place, receiver: Place, bodies: list[bytes], isBatched: bool
) -> None:
    """
    Send messages in one turn, and check that they arrive.

    @param isBatched: whether the content of many records must arrive together.
    """
    subject = sender.cluster.identity.server_name.encode()
    recorder = Recorder()
    receiver.bus().subscribe(subject, recorder, None)
    until(reactor, lambda: sender.bus().hasInterest(subject))
    receiver.calls.clear()
    sender.batch.enter()
    for body in bodies:
        sender.bus().publish(Message(subject, body))
    sender.batch.leave()
    until(reactor, lambda: len(recorder.got) == len(bodies))
    assert recorder.bodies == bodies
    records = sum(receiver.calls) / 16384
    assert records > 48 and (not isBatched or len(receiver.calls) < records / 3)


def until(reactor: Any, condition: Callable[[], object]) -> None:
    """Run a reactor until a condition holds."""
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end, "it never happened"
        reactor.iterate(0.01)
