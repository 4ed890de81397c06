"""
One connection to another cluster: how it is agreed on.

Two clusters have two connections for each pair of members that talk, one dialled by each side.
Messages pass from whoever dialled to whoever was, and interest passes the other way.

Nobody is taken for a gateway who does not say the right password first; nothing is said
to whom we dialled before it has said that it is the gateway that we wanted; the real server's words
for whoever is refused.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.gateways.terms import GatewayTarget
from natsbroker.links.link import Link
from natsbroker.wire import ops
from natsbroker.wire.dialects.gateway import FROM_GATEWAY
from natsbroker.wire.serverinfo import (
    LinkConnect,
    ServerDocument,
    connectLine,
    infoLine,
    parseConnect,
    parseDocument,
)

if TYPE_CHECKING:
    from natsbroker.gateways.gateways import GatewayRegistry
    from natsbroker.gateways.remote import Remote

__all__ = ["END", "GatewayLink", "InboundGateway", "OutboundGateway"]

_log = Logger(namespace="natsbroker")

#: What an INFO ends with between gateways.
END = b"\r\n"


class GatewayLink(Link):
    """
    @ivar document: what the peer's first INFO said.
    """

    CREATED = "Gateway"
    KIND = "Gateway"
    LETTER = "gid"

    def __init__(self, gateways: GatewayRegistry, peer: LinkPeer) -> None:
        super().__init__(gateways, peer, FROM_GATEWAY)
        self._gateways = gateways
        self.document: ServerDocument | None = None
        self.handlers[ops.INFO] = self._informed

    @property
    def remote(self) -> str:
        return self.document.server_name if self.document is not None else ""

    @property
    @abstractmethod
    def gateway(self) -> str:
        """
        The name of the gateway that it leads to, or comes from; empty while that is not known.
        """

    def tell(self, document: dict[str, Any]) -> None:
        """
        Send an INFO.
        """
        self.say(infoLine(document, END))

    def _informed(self, argument: bytes) -> None:
        try:
            document = parseDocument(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)
            return
        if self.document is not None:
            self._informedAgain(document)
        elif self._gateways.isTaken(document.server_name):
            _log.error(
                "{link} - Remote server has a duplicate name: {name}",
                link=str(self),
                name=inQuotes(document.server_name),
            )
            self.close(errors.DUPLICATE_SERVER_NAME)
        else:
            self._introduced(document)

    @abstractmethod
    def _introduced(self, document: ServerDocument) -> None:
        """
        The first INFO has come.
        """

    @abstractmethod
    def _informedAgain(self, document: ServerDocument) -> None:
        """
        Another INFO has come.
        """

    def _misdirected(self, *_: object) -> None:
        """
        The peer says what only the other side may say on this connection.
        """
        self.close(errors.WRONG_DIRECTION)

    def begin(self, traffic: Any) -> None:
        """
        The connection is agreed on: let messages and interest pass.
        """
        self.traffic = traffic
        self.handlers.update(traffic.handlers)
        traffic.begin()


class InboundGateway(GatewayLink):
    """
    A connection that a member of another cluster dialled: messages come, and interest is told.
    """

    def __init__(self, gateways: GatewayRegistry, peer: LinkPeer) -> None:
        super().__init__(gateways, peer)
        self._connect: LinkConnect | None = None
        self.decoder.authorized = False
        self.handlers[ops.CONNECT] = self._connected
        for op in (ops.RS_PLUS, ops.RS_MINUS, ops.A_PLUS, ops.A_MINUS):
            self.handlers[op] = self._misdirected

    @property
    def gateway(self) -> str:
        return self.document.gateway if self.document is not None else ""

    @property
    def credentials(self) -> tuple[str, str]:
        """
        The user and the password that the peer said.
        """
        connect = self._connect or LinkConnect()
        return connect.user, connect.password

    def greet(self) -> None:
        """
        See L{Link.greet}: whoever is dialled says who it is.
        """
        self.tell(self._gateways.document())

    def _connected(self, argument: bytes) -> None:
        try:
            given = parseConnect(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)
            return
        if self._connect is not None:
            return
        gateways = self._gateways
        if not gateways.admits(given.user, given.password):
            self.close(errors.AUTHORIZATION)
        elif not given.gateway:
            self.close(errors.WRONG_GATEWAY_PORT)
        elif not gateways.welcomes(given.gateway):
            _log.error(
                "{link} - Rejecting connection from gateway {name}",
                link=str(self),
                name=inQuotes(given.gateway),
            )
            self.close(errors.UNKNOWN_GATEWAY, gateways.terms.name)
        else:
            self._connect = given
            self.decoder.authorized = True

    def _introduced(self, document: ServerDocument) -> None:
        connect = self._connect
        if connect is None or document.gateway != connect.gateway:
            # Its CONNECT was let in under another name.
            self.close(errors.UNKNOWN_GATEWAY, self._gateways.terms.name)
            return
        self.document = document
        self.agreed()
        self._gateways.arrived(self, document)

    def _informedAgain(self, document: ServerDocument) -> None:
        """
        What the peer says of itself later, it says to those who dialled it too.
        """


class OutboundGateway(GatewayLink):
    """
    A connection to a member of another cluster that we dialled: messages go, and interest is heard.

    @ivar cluster: where it leads.
    @ivar target: whom we dialled.
    @ivar mayRedial: whether its loss is a reason to dial again.
    """

    def __init__(
        self, gateways: GatewayRegistry, peer: LinkPeer, cluster: Remote, target: GatewayTarget
    ) -> None:
        super().__init__(gateways, peer)
        self.cluster = cluster
        self.target = target
        self.mayRedial = True
        self._asked: float | None = None
        self.decoder.authorized = True
        for op in (ops.RMSG, ops.HMSG, ops.RS_PLUS, ops.RS_MINUS, ops.A_PLUS, ops.A_MINUS):
            self.handlers[op] = self._misdirected

    @property
    def gateway(self) -> str:
        return self.cluster.name

    def greet(self) -> None:
        """
        See L{Link.greet}: whoever dialled is silent until it knows whom it reached.
        """

    def _introduced(self, document: ServerDocument) -> None:
        gateways, name = self._gateways, self.cluster.name
        if not document.gateway:
            self.close(errors.NO_GATEWAY_THERE, name)
            return
        if document.gateway != name:
            _log.error(
                "{link} - Failing connection to gateway {wanted}, remote gateway name is {name}",
                link=str(self),
                wanted=inQuotes(name),
                name=inQuotes(document.gateway),
            )
            self.close(errors.WRONG_GATEWAY, gateways.terms.name, name, document.gateway)
            return
        self.document = document
        self.outbox.write(connectLine(gateways.connectOptions(self)))
        self.tell(gateways.document())
        self.agreed()
        gateways.reached(self, document)

    def _informedAgain(self, document: ServerDocument) -> None:
        self._gateways.informed(self, document)

    def begin(self, traffic: Any) -> None:
        """
        See L{GatewayLink.begin}: and find out how far the peer is.
        """
        super().begin(traffic)
        self._asked = self.context.reactor.seconds()
        self.ping()

    def _ponged(self) -> None:
        super()._ponged()
        if self.traffic is None:
            return
        distance = self.roundTrip
        if self._asked is not None:
            distance, self._asked = self.context.reactor.seconds() - self._asked, None
        self.traffic.placed(distance)
