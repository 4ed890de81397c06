"""
Gossip: the addresses of members that members announce to each other.

A member with a route to a new one announces it to the others, unless it dialled because of an
announcement. The mode of an announcement limits their number: after one from a member that knows
all others, the receiver announces nothing (C{DISABLED}); after one over a configured route, whose
ends may not know each other's members, it does (C{OVERRIDE}). (Observed of nats-server 2.15; older
releases have no modes.)
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from twisted.logger import Logger

from natsbroker.config.addresses import joined
from natsbroker.connections.labels import inQuotes
from natsbroker.errors import logText
from natsbroker.links.tls import isAddress
from natsbroker.routes.dialects import understand
from natsbroker.routes.members import Member, Membership
from natsbroker.routes.route import Route
from natsbroker.routes.terms import RouteTarget
from natsbroker.wire.connect import infoLine
from natsbroker.wire.serverinfo import GossipMode, ServerDocument

_log = Logger(namespace="natsbroker")


def isNews(route: Route, document: ServerDocument) -> bool:
    target = route.target
    wasTold = route.isDialled and target is not None and not target.isConfigured
    if wasTold and target is not None and target.gossip != GossipMode.OVERRIDE:
        return False
    return document.gossip_mode != GossipMode.DISABLED


def modeFor(route: Route, listener: Route) -> GossipMode:
    leads = route if route.isDialled else listener
    if leads.target is not None and leads.target.isConfigured:
        return GossipMode.OVERRIDE
    return GossipMode.DEFAULT if route.isDialled else GossipMode.DISABLED


def reachable(document: ServerDocument, host: str) -> ServerDocument:
    """
    A member's INFO with an address to dial: the address in it, or else that of the connection.
    """
    if document.ip or not host or not document.port:
        return document
    return document.changed(ip=f"nats-route://{joined(host, document.port)}/")


def targetFrom(document: ServerDocument, user: str, password: str, name: str) -> RouteTarget:
    """
    @param name: the name in the certificate, if the member is dialled by an address.
    @raise ValueError: if the announcement has no valid URL.
    """
    parts = urlsplit(document.ip)
    host, port = parts.hostname, parts.port
    if not host or not port:
        raise ValueError(f"not the URL of a route: {document.ip!r}")
    if not document.auth_required:
        user = password = ""
    known = {mode.value: mode for mode in GossipMode}
    gossip = known.get(document.gossip_mode, GossipMode.DEFAULT)
    return RouteTarget(host, port, user, password, False, document.route_account, gossip, name)


def isConfigured(document: ServerDocument, targets: Iterable[RouteTarget]) -> bool:
    hosts = {document.host.lower(), (urlsplit(document.ip).hostname or "").lower()}
    return any(target.port == document.port and target.host.lower() in hosts for target in targets)


class ClusterGossip:
    def __init__(self, cluster: Membership) -> None:
        self._cluster = cluster

    def tell(self, route: Route, member: Member) -> None:
        document = route.document
        if document is None or not isNews(route, document):
            return
        told = reachable(document, route.peer.host).changed(nonce="", route_account=route.account)
        if not told.ip:
            return
        for other in list(self._cluster.members.values()):
            listener = other.dedicated.get(route.account) or other.first
            if other is member or listener is None or (route.account and not other.isPooled):
                continue
            if listener.document is None or not understand(listener.document, document):
                continue
            mode = modeFor(route, listener)
            listener.say(infoLine(told.changed(gossip_mode=int(mode)).raw))

    def heard(self, route: Route, document: ServerDocument) -> None:
        if document.server_id != route.remoteId:
            self._heardOf(document)
        elif document.ldm:
            self._useAddresses(route, None)
        else:
            before, route.document = route.document, document
            if before is not None and before.permitExport != document.permitExport:
                route.repeat()
            self._useAddresses(route, document)

    def tellGateways(self, member: Member, document: ServerDocument) -> None:
        gateways, first = self._cluster.gateways, member.first
        member.gatewayUrl = document.gateway_url
        if gateways is not None and first is not None and not first.isClassic:
            gateways.memberJoined(member.gatewayUrl, first.say)

    def heardOfGateway(self, route: Route, document: ServerDocument) -> None:
        if self._cluster.gateways is not None:
            self._cluster.gateways.heard(document, route.remoteId)
            return
        _log.error(
            "Received information about gateway {name} from {id}, but gateway is not configured",
            name=inQuotes(document.gateway),
            id=logText(route.remoteId),
        )

    def _useAddresses(self, route: Route, document: ServerDocument | None) -> None:
        member = self._cluster.members.get(route.remoteId)
        if member is None:
            return
        before = member.addresses
        self._cluster.learn(member, document)
        if member.addresses != before:
            self._cluster.changed()

    def _heardOf(self, document: ServerDocument) -> None:
        cluster, account = self._cluster, document.route_account
        terms = cluster.terms
        member = cluster.members.get(document.server_id)
        if document.server_id == cluster.identity.server_id:
            return
        if account:
            isThere = member is not None and account in member.dedicated
            if isThere or terms.poolSize <= 0 or not cluster.isDedicated(account):
                return
        elif member is not None and member.pool:
            return
        if isConfigured(document, terms.targets):
            return
        try:
            target = targetFrom(document, terms.user, terms.password, self._certified())
        except ValueError as error:
            _log.error("Error parsing URL from INFO: {why}", why=logText(str(error)))
            return
        cluster.dial(target, 0.0)

    def _certified(self) -> str:
        """The first name in the settings, for certificates of members dialled by addresses."""
        return next(
            (
                target.host
                for target in self._cluster.terms.targets
                if not (target.isNeighbour or isAddress(target.host))
            ),
            "",
        )
