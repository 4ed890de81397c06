"""
Tests of L{natsbroker.connections.agents}, with handshakes in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet.testing import MemoryReactorClock
from twisted.web.iweb import IAgent
from zope.interface.verify import verifyObject

from natsbroker.config.model import TLSSettings
from natsbroker.connections.agents import agentFor
from natsbroker.connections.tlscontext import contextFrom
from tests.connections.handshakes import Handshake
from tests.interop.certificates import writeCertificates
from tests.interop.tls.authority import authority, issue


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an authority and certificates, and those of another authority beside it."""
    folder = tmp_path_factory.mktemp("agents")
    writeCertificates(folder)
    (folder / "other").mkdir()
    writeCertificates(folder / "other")
    yield folder


class Peer:
    """A replacement for the protocol that Twisted asks to end a refused handshake."""

    def __init__(self) -> None:
        self.factory = SimpleNamespace(wrappedFactory=None)
        self.failed: list[Any] = []

    def failVerification(self, failure: Any) -> None:
        """Record that the name in the certificate is wrong."""
        self.failed.append(failure)


def reached(
    tls: TLSSettings | None,
    folder: Path,
    name: str = "localhost",
    settings: TLSSettings | None = None,
) -> bool:
    """Whether an agent accepts a server of this name with the certificate of a folder."""
    agent: Any = agentFor(MemoryReactorClock(), tls)
    creator = agent._endpointFactory._policyForHTTPS.creatorForNetloc(name.encode(), 443)
    pair = (str(folder / "server.pem"), str(folder / "server-key.pem"))
    server = contextFrom(settings or TLSSettings(certs=(pair,)))
    shaking = Handshake(server, SSL.Context(SSL.TLS_CLIENT_METHOD))
    peer = Peer()
    shaking.client = creator.clientConnectionForTLS(peer)
    shaking.client.set_connect_state()
    return not shaking.refused() and not peer.failed


def trusting(folder: Path, **more: Any) -> TLSSettings:
    """A TLS block that trusts the authority of a folder."""
    return replace(TLSSettings(ca_file=str(folder / "ca.pem")), **more)


def test_trusted(folder: Path) -> None:
    """A server with the right name and a trusted authority is accepted."""
    assert verifyObject(IAgent, agentFor(MemoryReactorClock(), trusting(folder)))
    assert reached(trusting(folder), folder)


def test_severalAuthorities(folder: Path, tmp_path: Path) -> None:
    """Each authority of a file is trusted, with any other text in the file."""
    authorities = [(place / "ca.pem").read_bytes() for place in (folder, folder / "other")]
    (tmp_path / "ca.pem").write_bytes(b"remark\n" + b"\n".join(authorities))
    assert reached(trusting(tmp_path), folder) and reached(trusting(tmp_path), folder / "other")


def test_otherAuthority(folder: Path) -> None:
    """
    A certificate of another authority is refused, and so is one of an authority unknown to this
    system.
    """
    assert not reached(trusting(folder), folder / "other")
    assert not reached(None, folder)


def test_otherName(folder: Path) -> None:
    """A server whose certificate is for another name is refused."""
    assert not reached(trusting(folder), folder, "example.org")


@pytest.mark.parametrize("names", [[], ["127.0.0.1"], ["example.org"]])
def test_noName(tmp_path: Path, names: list[str]) -> None:
    """
    A server whose certificate has no alternative name, or a wrong one, is refused although its
    common name is right.
    """
    ours = authority()
    ours.write(tmp_path, "ca")
    issue(ours, "CN=localhost", names=names).write(tmp_path, "server")
    assert not reached(trusting(tmp_path), tmp_path)
    issue(ours, names=["localhost"]).write(tmp_path, "server")
    assert reached(trusting(tmp_path), tmp_path)


def test_ownCertificate(folder: Path) -> None:
    """A server that requires a certificate gets ours."""
    pair = (str(folder / "server.pem"), str(folder / "server-key.pem"))
    wants = TLSSettings(certs=(pair,), verify=True, ca_file=str(folder / "ca.pem"))
    ours = (str(folder / "client.pem"), str(folder / "client-key.pem"))
    assert reached(trusting(folder, certs=(ours,)), folder, settings=wants)


@pytest.mark.parametrize(
    "wrong", [{"insecure": True}, {"pinned_certs": frozenset({"a"})}, {"ca_file": "/nowhere"}]
)
def test_unusableBlock(wrong: dict[str, Any]) -> None:
    """
    A TLS option that is not supported here, and a missing file, are refused with the block's name.
    """
    with pytest.raises(ValueError, match="resolver_tls: "):
        agentFor(MemoryReactorClock(), TLSSettings(**wrong), "resolver_tls")
