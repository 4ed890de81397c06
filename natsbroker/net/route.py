"""
One connection to another member of the cluster: how it is agreed on.

Promises: nobody is taken for a member who does not say the right password and the right name of the
cluster, in that order, and who is asked first says so before anything else; the real server's words
for whoever is refused; what the peer stood for is gone the moment the connection ends.
Must never know: interest and messages, which are its traffic's, or who else is in the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.net.clusterterms import RouteTarget
from natsbroker.net.labels import quoted
from natsbroker.net.link import Link
from natsbroker.net.linkcontext import LinkPeer
from natsbroker.net.modern import ModernTraffic
from natsbroker.wire import ops
from natsbroker.wire.dialects.route import FROM_ROUTE
from natsbroker.wire.serverinfo import (
    GossipMode,
    LinkConnect,
    ServerDocument,
    connectLine,
    infoLine,
    parseConnect,
    parseDocument,
)

if TYPE_CHECKING:
    from natsbroker.net.cluster import Cluster

__all__ = ["Route"]

_log = Logger(namespace="natsbroker")


class Route(Link):
    """
    @ivar target: why it was dialled; C{None} if the peer dialled us. A route that the peer dialled
        takes over the target of one that was closed in its favour.
    @ivar isDialled: whether it was we who dialled.
    @ivar document: what the peer's first INFO said.
    @ivar account: the account that it is dedicated to; empty for none.
    @ivar poolIndex: which of the connections to the peer it is; negative before it is one.
    @ivar isPooled: whether the peer shares connections among accounts.
    @ivar mayRedial: whether its loss is a reason to dial again.
    @ivar wantsMore: whether other connections to the peer are dialled when it has answered a PING,
        since then it is sure that it has let us in.
    @ivar traffic: what passes over it; C{None} before it is agreed on.
    """

    CREATED = "Route"
    KIND = "Router"
    LETTER = "rid"

    def __init__(self, cluster: Cluster, peer: LinkPeer, target: RouteTarget | None) -> None:
        super().__init__(cluster.context, peer, FROM_ROUTE)
        self._cluster = cluster
        self.target = target
        self.isDialled = target is not None
        self.document: ServerDocument | None = None
        self.account = "" if target is None else target.account
        self.poolIndex = -1
        self.isPooled = False
        self.mayRedial = True
        self.traffic: ModernTraffic | None = None
        self.wantsMore = False
        self._connect: LinkConnect | None = None
        self._isHeld = self.isDialled and not self.account and cluster.terms.poolSize > 0
        self.decoder.authorized = self.isDialled
        self.handlers[ops.CONNECT] = self._connected
        self.handlers[ops.INFO] = self._informed

    @property
    def remote(self) -> str:
        """
        See L{Link.remote}.
        """
        return self.document.server_name if self.document is not None else ""

    @property
    def remoteId(self) -> str:
        """
        The peer's id; empty while it is not known.
        """
        if self.document is not None:
            return self.document.server_id
        return "" if self._connect is None else self._connect.name

    @property
    def credentials(self) -> tuple[str, str] | None:
        """
        The user and the password that the peer said; C{None} if it was we who dialled.
        """
        connect = self._connect
        return None if connect is None else (connect.user, connect.password)

    # Agreeing.

    def greet(self) -> None:
        """
        See L{Link.greet}: whoever dialled says who it is; its INFO may have to wait for the
        peer's, which says how many connections there are to be.
        """
        self._cluster.joined(self)
        target = self.target
        if target is not None:
            self.outbox.write(connectLine(self._cluster.connectOptions(target)))
        if not self._isHeld:
            self._sayInfo()

    def _sayInfo(self) -> None:
        gossip = GossipMode.DEFAULT if self.target is None else self.target.gossip
        index = max(self.poolIndex, 0)
        self.say(infoLine(self._cluster.document(self.account, index, gossip)))

    def _connected(self, argument: bytes) -> None:
        try:
            given = parseConnect(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)
            return
        if self.isDialled or self._connect is not None:
            return
        cluster = self._cluster
        if not cluster.admits(given.user, given.password):
            self.close(errors.AUTHORIZATION)
        elif given.lang:
            self.close(errors.WRONG_ROUTE_PORT)
        elif given.gateway:
            self.close(errors.GATEWAY_ON_ROUTE, given.gateway)
        elif not cluster.agreesOn(given.cluster, given.cluster_dynamic, given.name):
            self.close(errors.CLUSTER_NAME, given.cluster, cluster.terms.name)
        else:
            self._connect = given
            self.decoder.authorized = True

    def _informed(self, argument: bytes) -> None:
        try:
            document = parseDocument(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)
            return
        if self.document is None:
            self._introduced(document)
        elif self.traffic is not None:
            self._cluster.informed(self, document)

    def _introduced(self, document: ServerDocument) -> None:
        cluster = self._cluster
        self.document = document
        if document.server_id == cluster.identity.server_id:
            self.mayRedial = False
            cluster.metSelf(self)
            self.close(errors.DUPLICATE_ROUTE)
            return
        name = document.cluster
        if name and not cluster.agreesOn(name, document.cluster_dynamic, document.server_id):
            self.close(errors.CLUSTER_CONFLICT)
            return
        if not self.isDialled and document.server_name == cluster.identity.server_name:
            _log.error(
                "{link} - Remote server has a duplicate name: {name}",
                link=str(self),
                name=quoted(document.server_name),
            )
            self.close(errors.DUPLICATE_SERVER_NAME)
            return
        if not self.isDialled:
            self.account = document.route_account
        self.agreed()
        cluster.introduced(self, document)

    def begin(self, accounts: list[str]) -> None:
        """
        The connection is one of the cluster's: let interest and messages pass.

        @param accounts: whose interest is told over it.
        """
        document = self.document
        if document is None:
            raise RuntimeError("a route begins before its peer has said who it is")
        if self._isHeld:
            self._isHeld = False
            self._sayInfo()
        cluster = self._cluster
        traffic = self.traffic = ModernTraffic(
            self,
            cluster.doors,
            cluster.terms.permissions,
            document.headers and cluster.terms.headers,
            document.lnocu,
            self.account,
        )
        self.handlers.update(traffic.handlers)
        self.decoder.dialect = traffic.dialect
        traffic.tell(accounts)

    def update(self) -> None:
        """
        Tell the peer anew who we are.
        """
        gossip = GossipMode.DEFAULT
        self.say(infoLine(self._cluster.document(self.account, max(self.poolIndex, 0), gossip)))

    def repeat(self) -> None:
        """
        Tell all interest again: the peer takes more of it now.
        """
        if self.traffic is not None:
            self.traffic.repeat()

    def _ponged(self) -> None:
        super()._ponged()
        if self.wantsMore:
            self.wantsMore = False
            self._cluster.extend(self)

    # The end.

    def ended(self) -> None:
        """
        See L{Link.ended}.
        """
        traffic, self.traffic = self.traffic, None
        if traffic is not None:
            traffic.end()
        self._cluster.parted(self)

    def forgotten(self) -> None:
        """
        See L{Link.forgotten}.
        """
        self._cluster.forgotten(self)
