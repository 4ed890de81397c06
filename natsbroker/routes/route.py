"""
One connection to another member of the cluster: the handshake, and the choice of the dialect.
Credentials and cluster name must be right, in that order. Refusals have nats-server's texts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import Attribute

from natsbroker import errors
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.links.link import ILinkOwner, Link
from natsbroker.routes.classic import ClassicTraffic
from natsbroker.routes.dialects import RouteDialect, chosen
from natsbroker.routes.modern import ModernTraffic
from natsbroker.routes.terms import HOST, ClusterTerms, RouteTarget
from natsbroker.wire import ops
from natsbroker.wire.connect import infoLine
from natsbroker.wire.dialects.cluster import FROM_MEMBER
from natsbroker.wire.dialects.route import FROM_ROUTE
from natsbroker.wire.serverinfo import (
    GossipMode,
    LinkConnect,
    ServerDocument,
    connectLine,
    parseConnect,
    parseDocument,
)

_log = Logger(namespace="natsbroker")

#: The error of the classic dialect that concerns one line and does not end the connection.
_HARMLESS = b"'Invalid Subject'"


class IRouteOwner(ILinkOwner):
    identity = Attribute("This broker, a L{natsbroker.links.identity.LinkIdentity}.")
    hostId = Attribute("The id that neighbours have towards others; empty without neighbours.")
    terms = Attribute("The settings in force, a L{natsbroker.routes.terms.ClusterTerms}.")
    buses = Attribute("The accounts' buses, a L{natsbroker.accounts.registry.LinkBuses}.")
    replyRouter = Attribute("Takes replies that members received from other clusters, or C{None}.")

    def document(
        account: str, index: int, mode: GossipMode, compression: str = "", isNeighbour: bool = False
    ) -> dict[str, Any]:
        """The INFO on a route; C{compression} is the mode of the broker, or that of this route."""

    def connectOptions(target: RouteTarget) -> dict[str, Any]: ...

    def admits(given: LinkConnect, certificate: Any) -> bool | Deferred[bool]:
        """Whether the login of a peer is right."""

    def agreesOn(name: str, isDynamic: bool, remoteId: str) -> bool: ...

    def introduced(route: Any, document: ServerDocument) -> None:
        """
        Admit a peer that has sent its INFO: give its connection a place in the pool, or close it.
        """

    def informed(route: Any, document: ServerDocument) -> None:
        """Handle another INFO of a peer, about itself or another member."""

    def extend(route: Any) -> None:
        """Dial the further connections to a peer that has admitted this broker."""

    def metSelf(route: Any) -> None: ...


_MOST_PENDING = 1 << 26
"""The least limit of the bytes that may wait for a neighbour: C{max_pending} by default."""


class Route(Link):
    """
    @ivar target: the dialled address; C{None} if the peer dialled. A route that the peer dialled
        takes over the target of one that was closed in its favour.
    @ivar isNeighbour: whether it goes over a socket to which only neighbours have access.
    @ivar document: the peer's first INFO.
    @ivar poolIndex: its index among the connections to the peer; negative before it has one.
    @ivar mayRedial: whether its loss is a reason to dial again.
    @ivar wantsMore: whether other connections to the peer are dialled when it has answered a PING,
        since then it is sure that it has let us in.
    @ivar pongs: the number of answers to PING.
    @ivar isClassic: whether the classic dialect is spoken, as far as that is known.
    @ivar isIncompatible: whether it was closed because there is no common dialect.
    """

    CREATED = "Route"
    KIND = "Router"
    ID_PREFIX = "rid"

    def __init__(
        self,
        cluster: IRouteOwner,
        peer: LinkPeer,
        target: RouteTarget | None,
        isNeighbour: bool = False,
    ) -> None:
        self._cluster = cluster
        self.isNeighbour = isNeighbour
        terms = self.terms
        super().__init__(cluster, peer, FROM_ROUTE, terms.compression)
        self.target = target
        self.isDialled = target is not None
        self.document: ServerDocument | None = None
        self.account = "" if target is None else target.account
        self.poolIndex = -1
        self.isPooled = False
        self.mayRedial = True
        self.traffic: ModernTraffic | ClassicTraffic | None = None
        self.isClassic = False
        self.isIncompatible = False
        self.wantsMore = False
        self.pongs = 0
        self._connect: LinkConnect | None = None
        self._isSwitching = False
        isPooled = not self.account and terms.poolSize > 0
        self.isQuiet = terms.compression.isOffered
        self.measures = True
        self._isHeld = self.isDialled and (isPooled or self.isQuiet)
        isOpen = terms.dialect is not RouteDialect.MODERN and terms.login.isOpen
        self.decoder.authorized = self.isDialled or isOpen
        self.handlers[ops.CONNECT] = self.parsing(parseConnect, self._connected)
        self.handlers[ops.INFO] = self.parsing(parseDocument, self._informed)
        if terms.dialect is RouteDialect.CLASSIC:
            self._beClassic()

    @property
    def terms(self) -> ClusterTerms:
        terms: ClusterTerms = self._cluster.terms
        return terms.amongNeighbours() if self.isNeighbour else terms

    def __str__(self) -> str:
        if self.isNeighbour:
            # A UNIX socket has no address that distinguishes it from others.
            return f"neighbour - {self.idPrefix}:{self.number}"
        return super().__str__()

    @property
    def maxPending(self) -> int:
        # The setting parts with one slow client. This connection is of all clients of two workers.
        limit = super().maxPending
        return max(limit, _MOST_PENDING) if self.isNeighbour else limit

    @property
    def remoteName(self) -> str:
        document = self.document
        return "" if document is None else document.server_name or document.server_id

    @property
    def remoteId(self) -> str:
        if self.document is not None:
            return self.document.server_id
        return "" if self._connect is None else self._connect.name

    def checkLogin(self) -> None:
        if not self.isDialled:
            self.judge(self._admission(self._connect or LinkConnect()), self._closeIfWrong)

    def _admission(self, given: LinkConnect) -> bool | Deferred[bool]:
        return self.isNeighbour or self._cluster.admits(given, self.peer.certificate)

    def _closeIfWrong(self, isRight: bool) -> None:
        if not isRight:
            self.close(errors.AUTHORIZATION)

    def greet(self) -> None:
        """Send CONNECT when dialling; INFO may wait for the peer's pool size and compression."""
        target = self.target
        if target is not None:
            self.outbox.write(connectLine(self._cluster.connectOptions(target)))
        if not self._isHeld:
            self._sayInfo()

    def _sayInfo(self) -> None:
        gossip = GossipMode.DEFAULT if self.target is None else self.target.gossip
        index = max(self.poolIndex, 0)
        mode = self.compression.mode
        document = self._cluster.document(self.account, index, gossip, mode, self.isNeighbour)
        self.say(infoLine(document))

    def _connected(self, given: LinkConnect) -> None:
        if not self.isDialled and self._connect is None:
            self.judge(self._admission(given), partial(self._letIn, given))

    def _letIn(self, given: LinkConnect, isRight: bool) -> None:
        cluster = self._cluster
        isNameless = self.terms.dialect is not RouteDialect.MODERN and not given.cluster
        if not isRight:
            self.close(errors.AUTHORIZATION)
        elif given.lang:
            self.close(errors.WRONG_ROUTE_PORT)
        elif given.gateway:
            self.close(errors.GATEWAY_ON_ROUTE, given.gateway)
        elif not (isNameless or self.isClassic) and not self._agrees(given):
            self.close(errors.CLUSTER_NAME, given.cluster, cluster.terms.name)
        else:
            self._connect = given
            self.decoder.authorized = True
            if isNameless:
                self._beClassic()
            if isinstance(self.traffic, ClassicTraffic):
                self.traffic.isVerbose = given.verbose
            if self.isClassic and given.verbose:
                self.say(b"+OK\r\n")

    def _agrees(self, given: LinkConnect) -> bool:
        return self._cluster.agreesOn(given.cluster, given.cluster_dynamic, given.name)

    def _beClassic(self) -> None:
        if self.document is None:
            self.isClassic = True
            self.decoder.dialect = FROM_MEMBER
            for op in (ops.SUB, ops.UNSUB, ops.MSG, ops.PUB):
                self.handlers[op] = partial(self._early, op)

    def _early(self, op: int, *arguments: Any) -> None:
        connect = self._connect
        if connect is None or not connect.name:
            self.close(errors.UNKNOWN_OPERATION)
            return
        self._met(ServerDocument(server_id=connect.name))
        if self.traffic is not None:
            self.handlers[op](*arguments)

    def _choose(self, document: ServerDocument) -> bool:
        """
        Choose a common dialect that the peer may speak. Return whether there is one; else the route
        is closed.
        """
        terms, connect = self.terms, self._connect
        dialect = chosen(terms.dialect, document)
        self.isClassic = dialect is RouteDialect.CLASSIC
        if dialect is None:
            self.isIncompatible = True
            self.mayRedial = self.target is not None and self.target.isConfigured
            isOurs = terms.dialect is RouteDialect.CLASSIC
            self.close(errors.ONLY_CLASSIC if isOurs else errors.NOT_CLASSIC)
        elif self.isClassic:
            if connect is not None and connect.name not in ("", document.server_id):
                self.close(errors.OTHER_NAME)
        elif not self.isDialled and connect is None:
            self.close(errors.AUTHORIZATION)
        elif connect is not None and not connect.cluster and not self._agrees(connect):
            self.close(errors.CLUSTER_NAME, connect.cluster, terms.name)
        return not self.reason

    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        """Close the route. Some errors have another text in the classic dialect."""
        if self.isClassic:
            error = errors.CLASSIC_ERRORS.get(error, error)
        super().close(error, *arguments, abort=abort)

    def _peerFailed(self, text: bytes) -> None:
        if self.isClassic and text.strip() == _HARMLESS:
            _log.error("{link} - Route Error {text}", link=str(self), text=inQuotes(text.strip()))
        else:
            super()._peerFailed(text)

    def _informed(self, document: ServerDocument) -> None:
        if self._isSwitching:
            self._isSwitching = self.isQuiet = False
            self._introduced(document)
        elif self.document is None:
            self._met(document)
        elif self.traffic is not None:
            self._cluster.informed(self, document)

    def _met(self, document: ServerDocument) -> None:
        """Agree on compression by the peer's first INFO, which with S2 has no other effect."""
        if not self._select(document.compression):
            return
        if not self.compression.isOn:
            self._introduced(document)
        elif self._admits(document):
            self._isSwitching = True
            if self.isDialled:
                self._sayInfo()
            self._switch()
            if not self.isDialled:
                self._sayInfo()

    def _introduced(self, document: ServerDocument) -> None:
        if self._admits(document):
            if not self.isDialled:
                self.account = document.route_account
            self.agreed()
            self._cluster.introduced(self, document)

    def _admits(self, document: ServerDocument) -> bool:
        """Check whether a peer may be a member, by its INFO; else close the route."""
        cluster = self._cluster
        self.document = document
        # Neighbours meet over their own sockets: a second route would not count as one of theirs.
        isNear = not self.isNeighbour and document.raw.get(HOST, "") == cluster.hostId != ""
        if isNear or document.server_id == cluster.identity.server_id:
            self.mayRedial = False
            cluster.metSelf(self)
            self.close(errors.DUPLICATE_ROUTE)
            return False
        if not self._choose(document):
            return False
        name = "" if self.isClassic else document.cluster
        if name and not cluster.agreesOn(name, document.cluster_dynamic, document.server_id):
            self.close(errors.CLUSTER_CONFLICT)
            return False
        if not self.isDialled and document.server_name == cluster.identity.server_name:
            self._refuseName(document.server_name)
            return False
        return True

    def begin(self, accounts: list[str]) -> None:
        document = self.document
        if document is None:
            raise RuntimeError("a route begins before the INFO of its peer")
        if self._isHeld:
            self._isHeld = False
            self._sayInfo()
        traffic = self.traffic = self._trafficWith(document)
        self.handlers.update(traffic.handlers)
        self.decoder.dialect = traffic.dialect
        traffic.tell(accounts)

    def _trafficWith(self, document: ServerDocument) -> ModernTraffic | ClassicTraffic:
        cluster = self._cluster
        buses, permissions = cluster.buses, self.terms.permissions
        if not self.isClassic:
            self.outbox.headers = document.headers and cluster.terms.headers
            router = cluster.replyRouter
            return ModernTraffic(
                self, buses, permissions, document, self.account, router, self.isNeighbour
            )
        traffic = ClassicTraffic(self, buses, permissions, not document.proto)
        traffic.isVerbose = self._connect is not None and self._connect.verbose
        return traffic

    def update(self) -> None:
        """Send another INFO, except to a very old peer, which would disconnect."""
        if self.isClassic and self.document is not None and not self.document.proto:
            return
        index, gossip = max(self.poolIndex, 0), GossipMode.DEFAULT
        document = self._cluster.document(self.account, index, gossip, isNeighbour=self.isNeighbour)
        self.say(infoLine(document))

    def repeat(self) -> None:
        if self.traffic is not None:
            self.traffic.repeat()

    def _ponged(self) -> None:
        super()._ponged()
        self.pongs += 1
        if self.wantsMore:
            self.wantsMore = False
            self._cluster.extend(self)
