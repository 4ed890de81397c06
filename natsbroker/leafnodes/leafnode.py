"""
One leafnode connection, dialled or accepted: what both have in common.

It stands for nothing before both sides know each other; what the peer stood for is gone
the moment the connection ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.errors import logText
from natsbroker.interfaces import IMessageBus
from natsbroker.leafnodes.rules import LeafRules
from natsbroker.leafnodes.traffic import LeafTraffic
from natsbroker.links.compression import Compression
from natsbroker.links.link import Link
from natsbroker.wire.dialects.leaf import FROM_LEAF
from natsbroker.wire.grants import Grant, Security
from natsbroker.wire.values import ClientInfo, Kind

if TYPE_CHECKING:
    from natsbroker.leafnodes.leafnodes import LeafRegistry

__all__ = ["LeafLink", "LeafPeer"]

_log = Logger(namespace="natsbroker")


class LeafPeer(LinkPeer, Protocol):
    """
    The transport of a leafnode connection.

    @ivar isSecured: whether it is encrypted.
    @ivar certificate: the peer's, after it was verified; C{None} without.
    """

    isSecured: bool
    certificate: object

    @property
    def tls(self) -> Security | None: ...

    def startTLS(self) -> None:
        """
        Begin a handshake; nothing more is read in the clear.
        """

    def stayPlain(self) -> None:
        """
        There will be no handshake.
        """


class LeafLink(Link):
    """
    @ivar grant: what the peer may do here; C{None} before it is let in.
    @ivar kind: what the peer is to us.
    @ivar name: what the peer calls itself.
    @ivar cluster: the peer's; empty for none.
    @ivar remoteAccount: what the peer calls the account.
    @ivar isIsolated: whether the peer hears nothing of other leafnodes.
    """

    CREATED = "Leafnode"
    KIND = "Leafnode"
    LETTER = "lid"

    peer: LeafPeer

    def __init__(
        self, leafs: LeafRegistry, peer: LeafPeer, kind: Kind, wanted: Compression
    ) -> None:
        super().__init__(leafs, peer, FROM_LEAF, wanted)
        self.leafs = leafs
        self.kind = kind
        self.grant: Grant | None = None
        self.name = ""
        self.cluster = ""
        self.remoteAccount = ""
        self.isIsolated = leafs.terms.isIsolated
        self.traffic: LeafTraffic | None = None
        self.decoder.maxPayload = leafs.terms.maxPayload

    @property
    def remote(self) -> str:
        return self.name

    @property
    def account(self) -> str:
        """
        Our account; empty before it is known.
        """
        return "" if self.grant is None else self.grant.account

    @property
    def isDialled(self) -> bool:
        """
        Whether it was we who dialled.
        """
        return False

    def secured(self) -> None:
        """
        The connection is encrypted from now on.
        """

    # Agreeing.

    def admit(self, grant: Grant) -> IMessageBus | None:
        """
        Have the connection counted into its account.

        @return: the account's bus; C{None} if it takes no more, and the connection is closed.
        """
        try:
            bus = self.leafs.accounts.admit(grant, self.kind)
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

    def begin(self, bus: IMessageBus, rules: LeafRules, headers: bool) -> None:
        """
        Let interest and messages pass.
        """
        grant = self.grant
        if grant is None:
            raise RuntimeError("a leafnode begins before it was let in")
        self.agreed()
        self.usePayload(grant)
        leafs = self.leafs
        traffic = self.traffic = LeafTraffic(
            self,
            bus,
            self.kind,
            rules,
            grant,
            self.cluster.encode("utf-8", "surrogateescape"),
            self._describe,
            leafs.beaconOf(grant.account),
            headers and leafs.terms.headers,
            self.isIsolated,
        )
        self.handlers.update(traffic.handlers)
        traffic.tell()

    def usePayload(self, grant: Grant | None) -> None:
        """
        Take messages as large as the peer may send.
        """
        most = None if grant is None else grant.maxPayload
        self.decoder.maxPayload = self.leafs.terms.maxPayload if most is None else most

    def limitsChanged(self) -> None:
        super().limitsChanged()
        self.usePayload(self.grant)

    def _describe(self) -> ClientInfo:
        return ClientInfo(
            start=self.started,
            host=self.peer.host,
            id=self.number,
            acc=self.account,
            user="" if self.grant is None else self.grant.user,
            name=self.name,
            rtt=round(self.roundTrip * 1e9),
            server=self.leafs.identity.server_name,
            kind="Leafnode",
        )

    # The end.

    def _peerFailed(self, text: bytes) -> None:
        told = text.strip().strip(b"'")[:256]
        _log.error("{link} - Leafnode Error {text}", link=str(self), text=inQuotes(told))
        self.failed(told)

    def failed(self, told: bytes) -> None:
        """
        The peer says what is wrong, and closes the connection if it cannot go on.
        """
