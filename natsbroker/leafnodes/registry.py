"""Leafnode connections: what dialled and accepted ones share, and the registry of all of them."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.accounts.account import Bus
from natsbroker.accounts.tracing import LEAF, TRACING_PROTOCOL, TracePeer
from natsbroker.advisories import LeafConnected, LeafDisconnected
from natsbroker.clients.context import ClosedClient
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.settings.leafnodes import Leafnodes, RemoteLeaf
from natsbroker.connections.facts import ConnectionFacts, SubscriptionFacts, atEnd
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.errors import logText
from natsbroker.interfaces import IAuthorizer
from natsbroker.leafnodes.remote import LeafRemote
from natsbroker.leafnodes.rules import LOOP_SUBJECT, LeafRules, domainDenials, encoded
from natsbroker.leafnodes.terms import connectOptions, infoDocument
from natsbroker.leafnodes.traffic import LeafTraffic, leafAccount
from natsbroker.links.context import LinkContext, LinkDependencies
from natsbroker.links.identity import LinkIdentity
from natsbroker.links.link import Link
from natsbroker.links.registry import LinkRegistry
from natsbroker.wire.compression import OFF, Compression
from natsbroker.wire.connect import infoLine
from natsbroker.wire.dialects.leaf import FROM_LEAF
from natsbroker.wire.grants import Grant, Security
from natsbroker.wire.values import ClientInfo, Kind

_log = Logger(namespace="natsbroker")

_LETTERS = string.ascii_letters + string.digits
_TOKEN_LENGTH = 22


class LeafPeer(LinkPeer, Protocol):
    """
    @ivar connectionType: C{LEAFNODE}, or C{LEAFNODE_WS} over WebSocket.
    @ivar certificate: the peer's verified certificate; C{None} without one.
    """

    connectionType: str
    isSecured: bool
    certificate: object

    @property
    def tls(self) -> Security | None: ...

    def startTLS(self) -> None:
        """Start the handshake. No more input is read in the clear."""

    def stayPlain(self) -> None: ...


class LeafLink(Link):
    """
    A leafnode connection, dialled or accepted. No interest passes before both sides have introduced
    themselves, and the peer's interest is removed as soon as the connection ends.

    @ivar grant: the peer's permissions here; C{None} before it is authenticated.
    @ivar kind: C{HUB} or C{SPOKE}, which the peer is to this broker.
    @ivar cluster: the peer's cluster; empty for none.
    @ivar protocol: the level of the protocol that the peer understands.
    @ivar isIsolated: the peer gets no interest of other leafnodes.
    @ivar isOverWebSocket: the connection is a WebSocket, whose compression is not S2, and which is
        encrypted from its beginning or never.
    @ivar target: the remote that was dialled; C{None} for an accepted connection.
    """

    CREATED = "Leafnode"
    KIND = "Leafnode"
    ID_PREFIX = "lid"

    peer: LeafPeer
    target: LeafRemote | None = None

    def __init__(
        self, leafs: LeafRegistry, peer: LeafPeer, kind: Kind, wanted: Compression
    ) -> None:
        self.isOverWebSocket = peer.connectionType == "LEAFNODE_WS"
        if self.isOverWebSocket:
            wanted = Compression(OFF)
        super().__init__(leafs, peer, FROM_LEAF, wanted)
        self.leafs = leafs
        self.kind = kind
        self.grant: Grant | None = None
        self.name = ""
        self.cluster = ""
        self.protocol = 0
        self.remoteAccount = ""
        self.isIsolated = leafs.block.isolate
        self.traffic: LeafTraffic | None = None
        self.decoder.maxPayload = leafs.settings.max_payload

    @property
    def idPrefix(self) -> str:
        return f"{self.ID_PREFIX}_ws" if self.isOverWebSocket else self.ID_PREFIX

    @property
    def remoteName(self) -> str:
        return self.name

    @property
    def account(self) -> str:
        return "" if self.grant is None else self.grant.account

    @property
    def user(self) -> str:
        return "" if self.grant is None else self.grant.user

    @property
    def version(self) -> str:
        return ""

    @property
    def isDialled(self) -> bool:
        return self.target is not None

    @property
    def reach(self) -> Kind:
        """
        The kind by whose rules messages pass. A hub that neighbours share is reached through this
        one, as a spoke is: messages come from its neighbours, and go on to them.
        """
        return Kind.SPOKE if self.leafs.sharesHubs else self.kind

    @property
    def _group(self) -> str:
        """
        The name of the leafnodes that do not get messages of each other. A hub that is shared
        always has one, by which neighbours know that it is farther away than they are.
        """
        return self.cluster or ("" if self.reach is self.kind else f"hub-{self.number}")

    def secured(self) -> None: ...

    def admit(self, grant: Grant) -> Bus | None:
        """
        Enter the account and return its bus. If the account is missing or full, close the
        connection and return C{None}.
        """
        try:
            bus = self.leafs.accounts.admit(grant, self.reach)
        except errors.ConnectionLimit as limit:
            self.close(limit.error)
        except KeyError:
            _log.error(
                "{link} - Unable to lookup account {name} for leafnode connection",
                link=str(self),
                name=logText(grant.account),
            )
            self.close(errors.MISSING_ACCOUNT)
        else:
            self.grant = grant
            return bus
        return None

    def begin(self, bus: Bus, rules: LeafRules, headers: bool) -> None:
        grant = self.grant
        if grant is None:
            raise RuntimeError("a leafnode begins before it has a grant")
        self.agreed()
        self.limitPayload(grant)
        self.outbox.headers = headers and not self.leafs.settings.no_header_support
        target = leafAccount(self, self.kind, encoded(self._group), grant, self._describe)
        cluster = encoded(self.cluster)
        target.isNamed = bool(cluster)
        isTracing = self.outbox.headers and self.protocol >= TRACING_PROTOCOL
        target.tracePeer = TracePeer(LEAF, self.number, self.remoteName, isTracing)
        loopSubject = self.leafs.loopSubjectOf(grant.account)
        traffic = self.traffic = LeafTraffic(
            self, bus, target, rules, loopSubject, self.isIsolated, self.reach, cluster
        )
        self.handlers.update(traffic.handlers)
        traffic.tell()

    def limitPayload(self, grant: Grant | None) -> None:
        most = None if grant is None else grant.maxPayload
        self.decoder.maxPayload = self.leafs.settings.max_payload if most is None else most

    def limitsChanged(self) -> None:
        super().limitsChanged()
        self.limitPayload(self.grant)

    def facts(self) -> ConnectionFacts:
        """Facts for C{/connz}; the dialling end shows no name, no user and no version."""
        inMessages, inBytes, outMessages, outBytes = self.counts
        return ConnectionFacts(
            cid=self.number,
            type="",
            host=self.host,
            port=self.port,
            started=self.started,
            lastActivity=self.lastActivity,
            roundTrip=self.roundTrip,
            pending=self.outbox.pending,
            inMessages=inMessages,
            inBytes=inBytes,
            outMessages=outMessages,
            outBytes=outBytes,
            subscriptions=self.subscriptions,
            name="" if self.isDialled else self.name,
            lang="",
            version=self.version,
            account=self.account,
            user="" if self.isDialled else self.user,
            tls=self.peer.tls,
            kind=self.KIND,
        )

    def listed(self) -> Iterator[tuple[bytes, SubscriptionFacts]]:
        """The peer's subscriptions by nats-server's sids: subject and queue group."""
        traffic = self.traffic
        for interest, delivered in () if traffic is None else traffic.interest.counted():
            sid = b" ".join(filter(None, (interest.pattern, interest.queue)))
            yield sid, SubscriptionFacts(interest.pattern, interest.queue, sid, delivered, 0)

    def ended(self) -> None:
        now = self.context.reactor.seconds()
        closed = ClosedClient(atEnd(self.facts(), self.listed()), now, self.reason)
        self.leafs.clients.connections.remember(closed)
        super().ended()

    def _describe(self) -> ClientInfo:
        return ClientInfo(
            start=self.started,
            host=self.peer.host,
            id=self.number,
            acc=self.account,
            user=self.user,
            name=self.name,
            rtt=round(self.roundTrip * 1e9),
            server=self.leafs.identity.server_name,
            kind="Leafnode",
        )

    def _peerFailed(self, text: bytes) -> None:
        text = text.strip().strip(b"'")[:256]
        _log.error("{link} - Leafnode Error {text}", link=str(self), text=inQuotes(text))
        self.failed(text)

    def failed(self, text: bytes) -> None:
        """Handle the peer's C{-ERR}: close the connection if it cannot continue."""

    def reauthorize(self) -> None:
        """Do nothing: a peer that this broker dialled needs no permission here."""


class LeafRegistry(LinkRegistry[LeafLink]):
    """
    All leafnode connections of one broker; iterating gives those that have started.

    @ivar webSocketAuthorizer: gives the authorizer over WebSocket if leafnodes have no logins.
    @ivar dialling: the identity towards hubs, where that is another one; else C{None}.
    @ivar sharesHubs: whether the hubs of this broker are those of its neighbours, too.
    """

    def __init__(
        self,
        context: LinkContext,
        identity: LinkIdentity,
        dependencies: LinkDependencies,
        authorizer: IAuthorizer | None,
        cluster: Callable[[], str],
        redial: Callable[[LeafRemote], None],
    ) -> None:
        """
        @param authorizer: the authorizer of leafnodes; C{None} for that of clients.
        @param redial: called with the remote when a dialled connection is gone.
        """
        super().__init__(context)
        self.identity = identity
        self.accounts = dependencies.accounts
        self.clients = dependencies.clients
        self.settings = dependencies.settings
        self.cluster = cluster
        self.dialling: LinkIdentity | None = None
        self.sharesHubs = sharesHubs(dependencies)
        self.webSocketAuthorizer: Callable[[], IAuthorizer] = lambda: self.clients.authorizer
        self._authorizer = authorizer
        self._redial = redial
        self._urls: tuple[str, ...] = ()
        self._webSocketUrls: tuple[str, ...] = ()
        self._loopSubjects: dict[str, bytes] = {}

    def __iter__(self) -> Iterator[LeafLink]:
        return iter([leaf for leaf in self.everyone() if leaf.traffic is not None])

    def __len__(self) -> int:
        return sum(leaf.traffic is not None for leaf in self.everyone())

    def denialsFor(self, account: str, domain: str) -> tuple[bytes, ...]:
        """The L{domainDenials} between this broker and a peer with a JetStream domain."""
        settings = self.settings
        jetStream = settings.jetstream
        return domainDenials(
            account,
            "" if settings.no_system_account else settings.system_account,
            (jetStream.domain, domain),
            jetStream.will_extend,
            jetStream.default_domains,
        )

    def authorizerFor(self, isOverWebSocket: bool) -> IAuthorizer:
        if self._authorizer is None and isOverWebSocket:
            return self.webSocketAuthorizer()
        return self._authorizer or self.clients.authorizer

    @property
    def block(self) -> Leafnodes:
        return self.settings.leafnodes or Leafnodes()

    def document(self, **connection: Any) -> dict[str, Any]:
        urls = () if self.isLeaving else self._urls
        return infoDocument(
            self.identity,
            self.settings,
            self.cluster(),
            **connection,
            leafnode_urls=list(urls or [self.identity.ip]),
            ws_connect_urls=[] if self.isLeaving else list(self._webSocketUrls),
            ldm=self.isLeaving,
        )

    def connectOptions(
        self, remote: RemoteLeaf, url: RemoteURL, compression: str
    ) -> dict[str, Any]:
        cluster = self.cluster()
        return connectOptions(
            self.dialling or self.identity, self.settings, cluster, remote, url, compression
        )

    def useUrls(self, urls: Iterable[str], webSocketUrls: Iterable[str] = ()) -> None:
        before = self._urls, self._webSocketUrls
        self._urls, self._webSocketUrls = tuple(urls), tuple(webSocketUrls)
        if before != (self._urls, self._webSocketUrls):
            self.announce()

    def announce(self) -> None:
        line = infoLine(self.document())
        for leaf in self:
            if not leaf.isDialled:
                leaf.say(line)

    def loopSubjectOf(self, account: str) -> bytes:
        known = self._loopSubjects.get(account)
        if known is None:
            letters = self.context.random.choices(_LETTERS, k=_TOKEN_LENGTH)
            known = self._loopSubjects[account] = LOOP_SUBJECT + "".join(letters).encode("ascii")
        return known

    def established(self, leaf: LeafLink) -> None:
        """Close an older connection of the same leafnode, now that this one is in its account."""
        for other in self if not leaf.isDialled and leaf.name and leaf.remoteAccount else ():
            if (
                other is not leaf
                and not other.isDialled
                and _leafnodeOf(other) == _leafnodeOf(leaf)
            ):
                other.close(errors.DUPLICATE_LEAF)
                _log.warn("{link} - Replacing connection from same server", link=str(leaf))
                break
        self.clients.notify(LeafConnected(leaf.number, leaf.account, leaf.user))

    def linkEnding(self, leaf: LeafLink) -> None:
        grant = leaf.grant
        if grant is None:
            return
        advisory = LeafDisconnected(leaf.number, grant.account, grant.user, leaf.reason)
        self.clients.notify(advisory)
        leaf.grant = None
        self.accounts.dismiss(grant, leaf.kind)

    def linkGone(self, leaf: LeafLink) -> None:
        super().linkGone(leaf)
        if leaf.target is not None and not self.isOver:
            self._redial(leaf.target)

    def numbered(self, number: int) -> LeafLink | None:
        return self._links.get(number)

    def kick(self, number: int) -> bool:
        leaf = self.numbered(number)
        if leaf is not None:
            leaf.close(errors.KICKED)
        return leaf is not None

    def linksTo(self, target: LeafRemote) -> list[LeafLink]:
        return [leaf for leaf in self.everyone() if leaf.target is target and not leaf.reason]

    def hangUp(self, target: LeafRemote) -> None:
        for leaf in self.linksTo(target):
            leaf.close(errors.LEAF_REMOVED)

    def reauthorize(self, account: str | None = None) -> None:
        for leaf in self:
            if account in (None, leaf.account):
                leaf.reauthorize()

    def useCompression(self, wanted: Compression, target: LeafRemote | None = None) -> None:
        """Use compression for one remote, or with C{None} for accepted connections."""
        for leaf in self.everyone():
            if leaf.target is target:
                leaf.useCompression(wanted)

    def leave(self) -> None:
        super().leave()
        self.announce()


def sharesHubs(dependencies: LinkDependencies) -> bool:
    """Whether neighbours are one leafnode: in a cluster each member has hubs of its own."""
    return dependencies.hostCluster is not None and not dependencies.settings.isMember


def _leafnodeOf(leaf: LeafLink) -> tuple[str, ...]:
    """The identity of a leafnode, which is equal for two connections of the same one."""
    return leaf.name, leaf.cluster, leaf.account, leaf.remoteAccount
