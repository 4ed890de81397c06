"""
Who is told of which clusters, and of where their members are.

Whoever dials us is told of all other clusters that we know; every member of our own
cluster learns of a cluster that one of them reaches; other clusters learn where all our members
are, as these come and go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from twisted.logger import Logger

from natsbroker.errors import logText
from natsbroker.gateways.gateway import InboundGateway
from natsbroker.gateways.terms import gossipDocument
from natsbroker.wire.serverinfo import GatewayCommand, ServerDocument, infoLine

if TYPE_CHECKING:
    from natsbroker.gateways.gateways import GatewayRegistry

__all__ = ["GatewayGossip"]

_log = Logger(namespace="natsbroker")

#: What the server id of a gossip to members begins with, so that old ones take it for nobody's.
_GOSSIP = "GW"


class GatewayGossip:
    """
    The gossip of one broker, a L{natsbroker.routes.members.GatewayGossipListener}.
    """

    def __init__(self, gateways: GatewayRegistry) -> None:
        self._gateways = gateways
        self._urls: Counter[str] = Counter()

    def urls(self) -> list[str]:
        """
        Where members of our cluster can be dialled.
        """
        gateways = self._gateways
        own = [gateways.url] if gateways.url else []
        others = [each for each in self._urls if each != gateways.url]
        return others if gateways.isLeaving and others else own + others

    def tellOthers(self, link: InboundGateway, name: str) -> None:
        """
        Tell somebody who dialled us of all clusters but its own.

        @param name: of its cluster.
        """
        gateways = self._gateways
        for remote in gateways.remotes.values():
            places = remote.places
            if remote.name != name and places:
                link.tell(gossipDocument(gateways.identity.server_id, remote.name, places))

    def spread(self, name: str, urls: Iterable[str]) -> None:
        """
        Tell the members of our cluster of another one.

        @param urls: where its members are.
        """
        gateways = self._gateways
        serverName = gateways.identity.server_name
        document = gossipDocument(self._teller, name, urls, serverName)
        gateways.members.send(infoLine(document))

    @property
    def _teller(self) -> str:
        """
        Who tells members.
        """
        return f"{_GOSSIP}{self._gateways.identity.server_id}"

    # What the cluster says.

    def heard(self, document: ServerDocument, who: str) -> None:
        """
        A member of our cluster tells of another cluster.

        @param who: names the member in the log.
        """
        if document.gateway_cmd != GatewayCommand.GOSSIP:
            _log.error(
                "Unknown command {command} from server {who}",
                command=document.gateway_cmd,
                who=logText(who),
            )
        elif self._gateways.welcomes(document.gateway):
            self._gateways.learned(document.gateway, document.gateway_urls)

    def memberJoined(self, url: str, say: Callable[[bytes], None]) -> None:
        """
        Our cluster has one more member.

        @param url: where it listens for gateways; empty for nowhere.
        @param say: sends a line to it.
        """
        if url:
            self._urls[url] += 1
            if self._urls[url] == 1:
                self._gateways.update()
        for remote in self._gateways.remotes.values():
            places = remote.places
            if remote.link is not None and places:
                say(infoLine(gossipDocument(self._teller, remote.name, places)))

    def memberLeft(self, url: str) -> None:
        """
        A member of our cluster is gone.
        """
        if not self._urls[url]:
            return
        self._urls[url] -= 1
        if not self._urls[url]:
            del self._urls[url]
            if not self._gateways.isOver:
                self._gateways.update()
