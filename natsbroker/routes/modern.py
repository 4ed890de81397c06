"""
The traffic of a route in the dialect since NATS 2.0: interest by account, and messages.

A received message goes to the subscribers that this member serves, and to one member of each queue
group that its sender chose. It goes to another route only for a group whose last member here has
gone. The interest of an account is sent over its connection in the pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.accounts.account import Bus
from natsbroker.accounts.registry import LinkBuses
from natsbroker.accounts.tracing import FOREIGN, ROUTER, TRACING_PROTOCOL, TracePeer
from natsbroker.connections.labels import inQuotes
from natsbroker.interfaces import IOutboxLink
from natsbroker.links.gatewayreplies import GatewayReplyRouter
from natsbroker.links.interest import (
    InterestAdvertiser,
    RemoteInterest,
    RoutePermissions,
)
from natsbroker.links.link import Handler, Link
from natsbroker.links.origins import PeerOrigin
from natsbroker.subjects.interestfilter import InterestFilter, clusterIn
from natsbroker.wire import ops
from natsbroker.wire.dialects import route
from natsbroker.wire.dialects.linklines import LinkMessage
from natsbroker.wire.serverinfo import ServerDocument
from natsbroker.wire.values import Kind, Message

_log = Logger(namespace="natsbroker")

#: The interest that peers receive which distinguish the clusters of leafnodes.
_NAMING = InterestFilter({Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE}, namesClusters=True)

#: The origin of interest whose cluster the peer does not name; no cluster has this name.
_SOME_LEAF = b" "


@implementer(IOutboxLink)
class RouteAccount(PeerOrigin):
    """An account at a peer; C{prefix} is its name and a space or empty."""

    __slots__ = ("_name", "cluster", "isNeighbour", "outbox", "prefix", "takesOrigin", "tracePeer")

    ORIGIN = "Router"

    def __init__(
        self,
        name: bytes,
        account: str,
        outbox: hot.Outbox,
        server: str,
        cluster: bytes = b"",
        takesOrigin: bool = True,
        tracePeer: TracePeer | None = None,
        isNeighbour: bool = False,
    ) -> None:
        """
        C{name} is empty if the wire omits it. C{takesOrigin} tells whether leafnodes' clusters are
        named.
        """
        self.isNeighbour = isNeighbour
        super().__init__(account, server)
        self._name = name
        self.cluster = cluster
        self.takesOrigin = takesOrigin
        self.prefix = name + b" " if name else b""
        self.outbox = outbox
        self.tracePeer = tracePeer

    def peer(self) -> TracePeer:
        return self.tracePeer or FOREIGN

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        outbox = self.outbox
        if outbox.closed:
            return
        outbox.messages += 1
        outbox.messageBytes += len(message.body)
        account = self.grant.account
        origin = clusterIn(account, message.origin) if self.takesOrigin else b""
        outbox.write(route.messageFrame(self._name, message, queues, outbox.headers, origin))


class ModernTraffic:
    def __init__(
        self,
        link: Link,
        buses: LinkBuses,
        permissions: RoutePermissions,
        document: ServerDocument,
        account: str,
        replyRouter: GatewayReplyRouter | None,
        isNeighbour: bool = False,
    ) -> None:
        """
        @param document: the peer's INFO. It shows whether the peer understands the leafnode of
            interest and messages, and names it when interest ends.
        @param account: the one that the route is dedicated to; empty for none.
        @param replyRouter: takes answers that came from other clusters; C{None} without gateways.
        @param isNeighbour: whether the peer is a broker of this host, whose members of queue groups
            count as much as those here.
        """
        self._link = link
        self._isNeighbour = isNeighbour
        self._buses = buses
        self._permissions = permissions
        isTracing = link.outbox.headers and document.proto >= TRACING_PROTOCOL
        self._tracePeer = TracePeer(ROUTER, link.number, link.remoteName, isTracing)
        self._namesOrigin = document.lnocu
        self._takesOrigin = document.lnoc
        self._interestFilter = _NAMING if document.lnoc else None
        self._replyRouter = replyRouter
        self._dedicated = account.encode("utf-8", "surrogateescape")
        self._targets: dict[tuple[bytes, bytes], RouteAccount] = {}
        self._accounts: dict[tuple[bytes, bytes], tuple[RouteAccount, Bus]] = {}
        self._announcers: dict[str, InterestAdvertiser] = {}
        self.interest = RemoteInterest(buses.busOf, self._target, link)
        self.interest.permit(permissions)
        self.dialect = route.routeLines(self._dedicated)
        if hot.LinkLane is not None and link.context.fastLane:
            link.lane = hot.LinkLane(link.decoder, link.outbox, self._dedicated)
        self.handlers: dict[int, Handler] = {
            ops.RS_PLUS: partial(self._gained, False),
            ops.LS_PLUS: partial(self._gained, True),
            ops.RS_MINUS: partial(self._lost, False),
            ops.LS_MINUS: partial(self._lost, True),
            ops.RMSG: self._message,
            ops.HMSG: self._message,
            ops.LMSG: self._message,
        }

    def tell(self, accounts: Iterable[str]) -> None:
        wanted = dict.fromkeys(accounts)
        for name in [known for known in self._announcers if known not in wanted]:
            self._announcers.pop(name).end(True)
        for name in wanted:
            bus = self._buses.busOf(name)
            if bus is None or name in self._announcers:
                continue
            wire = b"" if self._dedicated else name.encode("utf-8", "surrogateescape")
            self._announcers[name] = InterestAdvertiser(
                bus,
                self._permissions,
                partial(self._tellGained, wire),
                partial(self._tellLost, wire),
                self._interestFilter,
            )

    def _tellGained(
        self, account: bytes, pattern: bytes, queue: bytes, weight: int, origin: bytes
    ) -> None:
        self._link.say(route.interestLine(account, pattern, queue, weight, origin))

    def _tellLost(self, account: bytes, pattern: bytes, queue: bytes, origin: bytes) -> None:
        if origin and not self._namesOrigin:
            self._link.say(route.unnamedLostLine(account, pattern, queue))
        else:
            self._link.say(route.lostLine(account, pattern, queue, origin))

    def permit(self, permissions: RoutePermissions) -> None:
        if permissions == self._permissions:
            return
        self._permissions = permissions
        for announcer in self._announcers.values():
            announcer.permit(permissions)
        self.interest.permit(permissions)

    def repeat(self) -> None:
        for announcer in self._announcers.values():
            announcer.permit(self._permissions)

    def forget(self, account: str) -> None:
        """Forget interest in an account, which the peer now sends over another connection."""
        self.interest.forget(account.encode("utf-8", "surrogateescape"))

    def accountsChanged(self) -> None:
        self._forgetAccounts()
        self.interest.accountsChanged()

    def end(self) -> None:
        announcers, self._announcers = self._announcers, {}
        for announcer in announcers.values():
            announcer.end(False)
        self.interest.clear()
        self._forgetAccounts()

    def _forgetAccounts(self) -> None:
        self._accounts.clear()
        if self._link.lane is not None:
            self._link.lane.forget()

    def _gained(self, isLeaf: bool, line: bytes) -> None:
        interest = route.splitInterest(line, isLeaf, self._dedicated)
        if interest is None:
            self._link.close(errors.BAD_ARGUMENTS)
        else:
            self.interest.gained(self._knownAs(interest, isLeaf))
            lane = self._link.lane
            if lane is not None and not self._link.context.tracing:
                for following in lane.interests():
                    self.interest.gained(following)

    def _lost(self, isLeaf: bool, line: bytes) -> None:
        interest = route.splitLost(line, isLeaf and self._namesOrigin, self._dedicated)
        if interest is None:
            self._link.close(errors.BAD_ARGUMENTS)
        else:
            self.interest.lost(self._knownAs(interest, isLeaf))

    def _knownAs(self, interest: route.LinkInterest, isLeaf: bool) -> route.LinkInterest:
        """Remove the origin of interest that a peer does not name when interest ends."""
        return (
            interest._replace(origin=_SOME_LEAF) if isLeaf and not self._namesOrigin else interest
        )

    def _message(self, *frame: Any) -> None:
        came = LinkMessage(*frame)
        place = came.account, came.origin
        known = self._accounts.get(place) or self._account(*place)
        if known is None:
            _log.debug(
                "{link} - Unknown account {account} for routed message on subject: {subject}",
                link=str(self._link),
                account=inQuotes(came.account),
                subject=inQuotes(came.subject),
            )
            return
        target, bus = known
        message = came.message(target)
        if self._replyRouter is None or not self._replyRouter.take(bus.account, message, True):
            bus.publishOver(message, self._link.later, target.peer)

    def wayTo(self, account: str) -> RouteAccount:
        """The way to the peer for an account, whatever the interest of the peer."""
        return self._target(account.encode("utf-8", "surrogateescape"), b"")

    def _account(self, name: bytes, origin: bytes) -> tuple[RouteAccount, Bus] | None:
        bus = self._buses.busOf(name.decode("utf-8", "surrogateescape"))
        if bus is None:
            return None
        known = self._accounts[name, origin] = self._target(name, origin), bus
        if self._link.lane is not None:
            self._link.lane.matchers[name] = bus.matcher
        return known

    def _target(self, name: bytes, origin: bytes) -> RouteAccount:
        """The target for an account, or for a leafnode cluster in it; always the same object."""
        target = self._targets.get((name, origin))
        if target is None:
            target = self._targets[name, origin] = RouteAccount(
                b"" if self._dedicated else name,
                name.decode("utf-8", "surrogateescape"),
                self._link.outbox,
                self._link.remoteName,
                origin,
                self._takesOrigin,
                self._tracePeer,
                self._isNeighbour,
            )
        return target
