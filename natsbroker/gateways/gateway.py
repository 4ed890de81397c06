"""
The handshakes of gateway connections, inbound and outbound. A peer is a gateway only after the
right login, and gets nothing before its INFO names the gateway that we dialled.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.config.addresses import RemoteURL
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.gateways.registry import GatewayLink, GatewayRegistry
from natsbroker.gateways.remote import Remote
from natsbroker.wire import ops
from natsbroker.wire.serverinfo import LinkConnect, ServerDocument, connectLine, parseConnect

_log = Logger(namespace="natsbroker")


class InboundGateway(GatewayLink):
    """A connection from another cluster: messages come in, interest goes out."""

    def __init__(self, gateways: GatewayRegistry, peer: LinkPeer) -> None:
        super().__init__(gateways, peer)
        self._connect: LinkConnect | None = None
        self.decoder.authorized = False
        self.handlers[ops.CONNECT] = self.parsing(parseConnect, self._connected)
        for op in (ops.RS_PLUS, ops.RS_MINUS, ops.A_PLUS, ops.A_MINUS):
            self.handlers[op] = self._misdirected

    @property
    def gateway(self) -> str:
        return self.document.gateway if self.document is not None else ""

    def greet(self) -> None:
        self.tell(self._gateways.document())

    def _connected(self, given: LinkConnect) -> None:
        if self._connect is None:
            admission = self._gateways.admits(given, self.peer.certificate)
            self.judge(admission, partial(self._letIn, given))

    def _letIn(self, given: LinkConnect, isRight: bool) -> None:
        gateways = self._gateways
        if not isRight:
            self.close(errors.AUTHORIZATION)
        elif not given.gateway:
            self.close(errors.WRONG_GATEWAY_PORT)
        elif not gateways.welcomes(given.gateway):
            _log.error(
                "{link} - Rejecting connection from gateway {name}",
                link=str(self),
                name=inQuotes(given.gateway),
            )
            self.close(errors.UNKNOWN_GATEWAY, gateways.terms.block.name)
        else:
            self._connect = given
            self.decoder.authorized = True

    def _introduced(self, document: ServerDocument) -> None:
        connect = self._connect
        if connect is None or document.gateway != connect.gateway:
            # The peer's CONNECT, which was accepted, had another name.
            self.close(errors.UNKNOWN_GATEWAY, self._gateways.terms.block.name)
            return
        self.document = document
        self.agreed()
        self._gateways.arrived(self, document)

    def _informedAgain(self, document: ServerDocument) -> None:
        """Ignore the INFO: the peer sends the same over the connection that we dialled."""


class OutboundGateway(GatewayLink):
    """A connection to a member of another cluster: messages go out, interest comes in."""

    cluster: Remote

    def __init__(
        self, gateways: GatewayRegistry, cluster: Remote, target: RemoteURL, peer: LinkPeer
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
        """Wait for the peer's INFO."""

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
            self.close(errors.WRONG_GATEWAY, gateways.terms.block.name, name, document.gateway)
            return
        self.document = document
        self.outbox.write(connectLine(gateways.connectOptions(self.cluster, self.target)))
        self.tell(gateways.document())
        self.agreed()
        gateways.reached(self, self.cluster, document)

    def _informedAgain(self, document: ServerDocument) -> None:
        self._gateways.informed(self, self.cluster, document)

    def begin(self, traffic: Any) -> None:
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
