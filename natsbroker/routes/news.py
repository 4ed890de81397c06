"""
What members say of themselves and of each other while they are members.

Of a new member everybody is told who can use it, and whoever is told of one that is not
known dials it; clients learn where else they can connect from what members say of themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

from natsbroker.connections.labels import inQuotes
from natsbroker.errors import logText
from natsbroker.links.tls import isAddress
from natsbroker.routes import gossip
from natsbroker.routes.dialects import understand
from natsbroker.routes.members import Member
from natsbroker.wire.serverinfo import ServerDocument, infoLine

if TYPE_CHECKING:
    from natsbroker.routes.cluster import Routes
    from natsbroker.routes.route import Route

__all__ = ["ClusterGossip", "GatewayGossipListener"]

_log = Logger(namespace="natsbroker")


class GatewayGossipListener(Protocol):
    """
    What wants to know of the members of our cluster because of other clusters.
    """

    def memberJoined(self, url: str, say: Callable[[bytes], None]) -> None:
        """
        There is one more member.

        @param url: where it listens for gateways; empty for nowhere.
        @param say: sends a line to it.
        """

    def memberLeft(self, url: str) -> None:
        """
        One is gone.
        """

    def heard(self, document: ServerDocument, who: str) -> None:
        """
        One tells of another cluster.

        @param who: names it in the log.
        """


class ClusterGossip:
    """
    The news of one cluster.
    """

    def __init__(self, cluster: Routes) -> None:
        self._cluster = cluster

    def tell(self, route: Route, member: Member) -> None:
        """
        Tell the others of a new member, if they are to know.

        @param route: leads to it.
        """
        document = route.document
        if document is None or not gossip.isNews(route, document):
            return
        told = gossip.reachable(document, route.peer.host).changed(
            nonce="", route_account=route.account
        )
        if not told.ip:
            return
        for other in list(self._cluster.members.values()):
            listener = other.dedicated.get(route.account) or other.first
            if other is member or listener is None or (route.account and not other.isPooled):
                continue
            if listener.document is None or not understand(listener.document, document):
                continue
            mode = gossip.modeFor(route, listener)
            listener.say(infoLine(told.changed(gossip_mode=int(mode)).raw))

    def heard(self, route: Route, document: ServerDocument) -> None:
        """
        A peer has said something of itself, or of another member.
        """
        if document.server_id != route.remoteId:
            self._heardOf(document)
        elif document.ldm:
            self._setUrls(route, ())
        else:
            before, route.document = route.document, document
            if before is not None and before.permitExport != document.permitExport:
                route.repeat()
            self._setUrls(route, document.connect_urls, document.leafnode_urls)

    def tellGateways(self, member: Member, document: ServerDocument) -> None:
        """
        There is a new member: other clusters are to know it, and it is to know other clusters.
        """
        gateways, first = self._cluster.gateways, member.first
        member.gatewayUrl = document.gateway_url
        if gateways is not None and first is not None and not first.isClassic:
            gateways.memberJoined(member.gatewayUrl, first.say)

    def heardOfGateway(self, route: Route, document: ServerDocument) -> None:
        """
        A peer tells of another cluster.
        """
        if self._cluster.gateways is not None:
            self._cluster.gateways.heard(document, route.remoteId)
            return
        _log.error(
            "Received information about gateway {name} from {id}, but gateway is not configured",
            name=inQuotes(document.gateway),
            id=logText(route.remoteId),
        )

    def _setUrls(self, route: Route, urls: tuple[str, ...], leafUrls: tuple[str, ...] = ()) -> None:
        member = self._cluster.members.get(route.remoteId)
        if member is not None and (member.urls, member.leafUrls) != (urls, leafUrls):
            member.urls, member.leafUrls = urls, leafUrls
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
        if gossip.isConfigured(document, terms.targets):
            return
        try:
            target = gossip.targetFrom(document, terms.user, terms.password, self._certified())
        except ValueError as error:
            _log.error("Error parsing URL from INFO: {why}", why=logText(str(error)))
            return
        cluster.dial(target, 0.0)

    def _certified(self) -> str:
        """
        The name that certificates of members are for where they are dialled by their addresses:
        the first that the settings name.
        """
        return next(
            (each.host for each in self._cluster.terms.targets if not isAddress(each.host)), ""
        )
