"""
OCSP for one broker: staples for its certificates, and checks of its peers'. Each C{tls} block gets
its terms, so that every context made of one has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from cryptography import x509
from OpenSSL import SSL
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.config.ocsp import OCSP, OCSPPeer
from natsbroker.ocsp.cache import AnswerCache
from natsbroker.ocsp.fetching import Responders
from natsbroker.ocsp.peers import PeerChecks, fingerprint
from natsbroker.ocsp.responses import (
    OCSPError,
    Status,
    issuerAmong,
    mustStaple,
    readAnswer,
)
from natsbroker.ocsp.staples import Staple

if TYPE_CHECKING:
    from twisted.web.iweb import IAgent

_log = Logger(namespace="natsbroker")

#: The check of peers in clusters and gateways if staples are shown.
_MEMBER = OCSPPeer(verify=True)


class OCSPDesk:
    def __init__(
        self,
        reactor: Any,
        settings: Settings,
        revoked: Callable[[], object],
        agent: Callable[[], IAgent] | None = None,
    ) -> None:
        """
        @param revoked: called when our certificate is no longer as good as it must be.
        @param agent: makes the agent of requests.
        """
        self.isOpen = False
        self._reactor = reactor
        self._revoked = revoked
        self._responders = Responders(reactor, agent or self._makeAgent)
        self._cache = AnswerCache(settings.ocsp_cache)
        self._saveInterval = settings.ocsp_cache.save_interval
        self._saver: Any = None
        self._staples: dict[tuple[str, OCSP], tuple[Staple, WeakSet[Any]]] = {}
        self.peers = PeerChecks(self._responders, self._cache, reactor.seconds)

    def _makeAgent(self) -> IAgent:
        from natsbroker.connections.agents import agentFor

        return agentFor(self._reactor)

    @property
    def now(self) -> float:
        return float(self._reactor.seconds())

    def within(self, settings: Settings) -> Settings:
        """The settings, with the OCSP terms in their C{tls} blocks."""

        def given(block: Any, kind: str) -> Any:
            if block is None or block.tls is None:
                return block
            terms = OCSPTerms(self, settings.ocsp, kind, self._folder(settings))
            return replace(block, tls=replace(block.tls, ocsp=terms))

        cluster, leafnodes = given(settings.cluster, "route"), given(settings.leafnodes, "leaf")
        gateway = given(settings.gateway, "gateway")
        if gateway is not None:
            remotes = tuple(given(remote, "gateway") for remote in gateway.gateways)
            gateway = replace(gateway, gateways=remotes)
        if leafnodes is not None:
            remotes = tuple(given(remote, "leaf") for remote in leafnodes.remotes)
            leafnodes = replace(leafnodes, remotes=remotes)
        ours: Settings = given(settings, "client")
        return replace(
            ours,
            cluster=cluster,
            gateway=gateway,
            leafnodes=leafnodes,
            websocket=given(settings.websocket, "client"),
            mqtt=given(settings.mqtt, "client"),
        )

    def _folder(self, settings: Settings) -> Path | None:
        folder = settings.jetstream.store_dir
        return Path(folder) / "ocsp" if folder else None

    async def open(self) -> None:
        """Raise L{OCSPError} if a certificate that needs a response has none."""
        self._cache.load()
        for staple, _ in list(self._staples.values()):
            await staple.prepare()
        self.isOpen = True
        self._save()

    def _save(self) -> None:
        self._cache.save()
        for key, (staple, contexts) in list(self._staples.items()):
            if not contexts:
                # A reload has put another certificate in its place.
                staple.stop()
                del self._staples[key]
        self._saver = self._reactor.callLater(self._saveInterval, self._save)

    def close(self) -> None:
        self.isOpen = False
        if self._saver is not None:
            self._saver.cancel()
            self._saver = None
            self._cache.save()
        for staple, _ in self._staples.values():
            staple.stop()

    def stapleFor(
        self,
        context: SSL.Context,
        certificate: x509.Certificate,
        issuer: x509.Certificate,
        terms: OCSPTerms,
        path: str,
    ) -> Staple:
        key = fingerprint(certificate), terms.settings
        known = self._staples.get(key)
        if known is None:
            staple = Staple(
                self._reactor,
                self._responders,
                certificate,
                issuer,
                terms.settings.urls,
                path,
                terms.folder,
                terms.settings.mode in ("always", "must"),
                self._revoked,
            )
            known = self._staples[key] = staple, WeakSet()
            if self.isOpen:
                staple.start()
        staple, contexts = known
        contexts.add(context)
        return staple


@dataclass(eq=False)
class OCSPTerms:
    """OCSP for C{client}, C{route}, C{gateway} or C{leaf}; C{folder} keeps our responses."""

    desk: OCSPDesk
    settings: OCSP
    kind: str
    folder: Path | None
    _isStapled: bool = field(default=False, init=False)

    def attend(self, context: SSL.Context, tls: TLSSettings) -> None:
        """Staple a response where due; C{ValueError} if the certificate's issuer is unknown."""
        if self.kind == "leaf" or not tls.certs:
            return
        path = tls.certs[0][0]
        chain = x509.load_pem_x509_certificates(Path(path).read_bytes())
        isAsked = mustStaple(chain[0])
        if self.settings.mode == "never" and isAsked:
            _log.warn("Certificate at '{path}' has MustStaple but OCSP is disabled", path=path)
        if self.settings.mode == "never" or not (isAsked or self.settings.mode == "always"):
            return
        trusted = (
            x509.load_pem_x509_certificates(Path(tls.ca_file).read_bytes()) if tls.ca_file else []
        )
        issuer = issuerAmong(chain[0], [*chain[1:], *trusted])
        if issuer is None:
            raise ValueError(f"ocsp: no issuer of {path} is known: add it to the file, or ca_file")
        staple = self.desk.stapleFor(context, chain[0], issuer, self, path)
        context.set_ocsp_server_callback(lambda connection, data: staple.current)
        self._isStapled = True

    def attendDialling(self, context: SSL.Context) -> None:
        """Have a context for dialling keep the response that a peer shows."""
        if self.kind in ("route", "gateway"):
            context.set_ocsp_client_callback(_keep)

    @property
    def wantsStaples(self) -> bool:
        return self._isStapled and self.kind in ("route", "gateway")

    def vets(self, tls: TLSSettings) -> bool:
        if self.kind in ("route", "gateway"):
            return self._isStapled
        return tls.ocsp_peer is not None and tls.ocsp_peer.verify

    def vet(self, connection: Any, tls: TLSSettings) -> Deferred[str]:
        """The reason to refuse a peer after its handshake; empty if there is none."""
        chain = connection.get_verified_chain(as_cryptography=True) or []
        if self.kind not in ("route", "gateway"):
            return self.desk.peers.check(chain, tls.ocsp_peer or OCSPPeer())
        staple = getattr(connection, "staple", b"")
        if staple and len(chain) > 1:
            return succeed(self._stapleProblem(staple, chain))
        # A peer that dialled us cannot be asked for a response, but its authority can.
        return self.desk.peers.check(chain[:2], _MEMBER, self.settings.urls)

    def _stapleProblem(self, staple: bytes, chain: list[x509.Certificate]) -> str:
        try:
            answer = readAnswer(staple, chain[0], chain[1])
        except OCSPError as error:
            return f"failed to parse OCSP response from {self.kind} peer: {error}"
        if not answer.isCurrent(
            self.desk.now,
            _MEMBER.allowed_clockskew,
            _MEMBER.cache_ttl_when_next_update_unset,
        ):
            return f"OCSP staple from {self.kind} peer not current"
        if answer.status is not Status.GOOD:
            return f"bad status for OCSP Staple from {self.kind} peer: {answer.status.value}"
        return ""


def _keep(connection: Any, staple: bytes, data: object) -> bool:
    connection.staple = staple
    return True
