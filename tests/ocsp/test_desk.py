"""
Tests for L{natsbroker.ocsp.desk}; real servers are in tests/interop/tls/test_ocsp.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from natsbroker.config.model import Cluster, Gateway, Leafnodes, Settings, TLSSettings, Websocket
from natsbroker.config.ocsp import OCSP, OCSPPeer
from natsbroker.config.settings.gateways import RemoteGateway
from natsbroker.config.settings.leafnodes import RemoteLeaf
from natsbroker.connections.tlscontext import TLSSettingsError, contextFrom, diallingContextFrom
from natsbroker.ocsp.desk import OCSPDesk
from natsbroker.ocsp.responses import Status, readAnswer
from tests.connections.handshakes import Handshake
from tests.ocsp.authorities import NOW, REVOKED, Issued, authority, certified, responded
from tests.ocsp.responders import FakeAgent
from tests.server.support import logLines


class World:
    """
    A desk, its responder, and one certificate in a file.
    """

    def __init__(self, directory: Path, must: bool = True, chained: bool = True) -> None:
        self.clock = Clock()
        self.clock.advance(NOW.timestamp())
        self.signer = authority()
        self.signer.write(directory, "ca")
        self.issued: Issued = certified(self.signer, must=must)
        self.issued.write(directory, "server", *([self.signer] if chained else []))
        self.agent: Any = FakeAgent(self.signer, self.clock.seconds)
        self.agent.known = [self.issued.certificate]
        self.ends = 0
        pair = (str(directory / "server.pem"), str(directory / "server-key.pem"))
        self.tls = TLSSettings(certs=(pair,), ca_file=str(directory / "ca.pem"))
        self.desk = OCSPDesk(self.clock, Settings(), self.end, lambda: self.agent)

    def end(self) -> None:
        """A certificate was revoked."""
        self.ends += 1

    def within(self, mode: str = "auto", **blocks: Any) -> Settings:
        """Settings with their terms."""
        return self.desk.within(Settings(tls=self.tls, ocsp=OCSP(mode), **blocks))

    def context(self, settings: Settings) -> SSL.Context:
        """The TLS context of the client listener."""
        assert settings.tls is not None
        return contextFrom(settings.tls)

    def open(self) -> object:
        """Get ready."""
        results: list[object] = []
        ensureDeferred(self.desk.open()).addBoth(results.append)
        return results[0]

    def staple(self, context: SSL.Context) -> bytes:
        """The response that a client is shown."""
        staples: list[bytes] = []
        asking = SSL.Context(SSL.TLS_CLIENT_METHOD)

        def keep(connection: SSL.Connection, staple: bytes, data: object) -> bool:
            staples.append(staple)
            return True

        asking.set_ocsp_client_callback(keep)
        ends = Handshake(context, asking)
        ends.client.request_ocsp()
        ends.run()
        return staples[0] if staples else b""


def test_everyBlock(tmp_path: Path) -> None:
    """Each C{tls} block gets its OCSP terms, which do not make the settings unequal."""
    tls = World(tmp_path).tls
    remotes = (RemoteLeaf(("h",), tls=tls), RemoteLeaf(("i",)))
    gateways = (RemoteGateway("g", tls=tls), RemoteGateway("h"))
    settings = Settings(
        tls=tls,
        cluster=Cluster(tls=tls),
        gateway=Gateway(tls=tls, gateways=gateways),
        leafnodes=Leafnodes(tls=tls, remotes=remotes),
        websocket=Websocket(tls=tls),
    )
    checked: Any = World(tmp_path).desk.within(settings)
    assert checked == settings
    blocks = [checked, checked.websocket, checked.cluster, checked.gateway, checked.leafnodes]
    blocks += [checked.gateway.gateways[0], checked.leafnodes.remotes[0]]
    kinds = ["client", "client", "route", "gateway", "leaf", "gateway", "leaf"]
    assert [block.tls.ocsp.kind for block in blocks] == kinds
    assert checked.gateway.gateways[1].tls is None and checked.leafnodes.remotes[1].tls is None


@pytest.mark.parametrize(
    "mode, must, isStapled",
    [
        ("auto", True, True),
        ("auto", False, False),
        ("must", False, False),
        ("always", False, True),
        ("never", True, False),
    ],
)
def test_modes(mode: str, must: bool, isStapled: bool, tmp_path: Path) -> None:
    """Whether a response is stapled depends on the mode and on the certificate."""
    world = World(tmp_path, must)
    context = world.context(world.within(mode))
    assert world.open() is None
    staple = world.staple(context)
    assert bool(staple) == isStapled
    if staple:
        answer = readAnswer(staple, world.issued.certificate, world.signer.certificate)
        assert answer.status is Status.GOOD


def test_mustStapleWithoutOCSP(tmp_path: Path) -> None:
    """A certificate that requires stapling causes a warning if OCSP is off."""
    world = World(tmp_path)
    with logLines() as lines:
        world.context(world.within("never"))
    assert any("has MustStaple but OCSP is disabled" in line for line in lines)


def test_issuer(tmp_path: Path) -> None:
    """
    The issuer is found after the certificate in its file, or among the authorities. Without it, the
    context is refused.
    """
    world = World(tmp_path, chained=False)
    settings = world.within()
    world.context(settings)
    assert settings.tls is not None
    with pytest.raises(TLSSettingsError, match="no issuer of"):
        contextFrom(replace(settings.tls, ca_file=""))


def test_oneStaple(tmp_path: Path) -> None:
    """Contexts with the same certificate share a response."""
    world = World(tmp_path)
    settings = world.within()
    contexts = world.context(settings), world.context(settings)
    assert world.open() is None and len(world.agent.asked) == 1
    assert world.staple(contexts[0]) == world.staple(contexts[1]) != b""


def test_reload(tmp_path: Path) -> None:
    """
    After a reload, a new certificate is stapled at once, and responses for a removed one are no
    longer fetched.
    """
    world = World(tmp_path)
    context = world.context(world.within())
    assert world.open() is None
    other = certified(world.signer, must=True)
    other.write(tmp_path, "other", world.signer)
    world.agent.known.append(other.certificate)
    pair = (str(tmp_path / "other.pem"), str(tmp_path / "other-key.pem"))
    settings = world.desk.within(Settings(tls=replace(world.tls, certs=(pair,))))
    again = world.context(settings)
    assert world.staple(again) not in (b"", world.staple(context))
    del context
    world.clock.advance(301)
    asked = len(world.agent.asked)
    world.clock.advance(1600)
    assert len(world.agent.asked) == asked + 1
    world.desk.close()
    assert not world.clock.getDelayedCalls()


def test_revoked(tmp_path: Path) -> None:
    """A certificate that must be good and is revoked ends the broker, or prevents its start."""
    world = World(tmp_path)
    _ = world.context(world.within("must"))
    assert world.open() is None
    world.agent.status = REVOKED
    world.clock.advance(1801)
    assert world.ends == 1
    world = World(tmp_path)
    _ = world.context(world.within("must"))
    world.agent.status = REVOKED
    assert isinstance(world.open(), Failure)


class Connection:
    """
    A connection after its handshake.
    """

    def __init__(self, *chain: Issued, staple: bytes = b"") -> None:
        self.chain = [issued.certificate for issued in chain]
        self.staple = staple

    def get_verified_chain(self, as_cryptography: bool = False) -> Any:
        """The certificates."""
        return self.chain


def problem(terms: Any, connection: Connection, tls: TLSSettings) -> str:
    """The outcome of a check."""
    results: list[str] = []
    terms.vet(connection, tls).addCallback(results.append)
    return results[0]


@pytest.mark.parametrize("kind", ["cluster", "gateway"])
def test_members(kind: str, tmp_path: Path) -> None:
    """
    Members of a cluster verify each other's stapled responses. Without a staple, they ask the
    responder.
    """
    world = World(tmp_path)
    blocks: dict[str, Any] = {kind: (Cluster if kind == "cluster" else Gateway)(tls=world.tls)}
    tls = getattr(world.within(**blocks), kind).tls
    terms = tls.ocsp
    assert not terms.vets(tls) and not terms.wantsStaples
    _ = contextFrom(tls), diallingContextFrom(tls)
    assert terms.vets(tls) and terms.wantsStaples
    peer, signer = world.issued, world.signer
    good, bad = (responded(peer.certificate, signer, *status) for status in ((), (REVOKED,)))
    old = responded(peer.certificate, signer, since=NOW.replace(year=2020))
    assert problem(terms, Connection(peer, signer, staple=good), tls) == ""
    assert "revoked" in problem(terms, Connection(peer, signer, staple=bad), tls)
    assert "not current" in problem(terms, Connection(peer, signer, staple=old), tls)
    assert "failed to parse" in problem(terms, Connection(peer, signer, staple=b"x"), tls)
    assert not world.agent.asked
    assert problem(terms, Connection(peer, signer), tls) == "" and world.agent.asked
    assert problem(terms, Connection(), tls) == "no verified certificate"


def test_clients(tmp_path: Path) -> None:
    """Clients and leafnodes are checked if their C{tls} block asks for that."""
    world = World(tmp_path)
    for kind in ("client", "leaf"):
        tls = replace(world.tls, ocsp_peer=OCSPPeer(True))
        settings: Any = world.desk.within(Settings(tls=tls, leafnodes=Leafnodes(tls=tls)))
        tls = settings.tls if kind == "client" else settings.leafnodes.tls
        assert tls.ocsp.vets(tls) and not tls.ocsp.vets(replace(tls, ocsp_peer=None))
        assert problem(tls.ocsp, Connection(world.issued, world.signer), tls) == ""
