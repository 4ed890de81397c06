"""The traffic of a connection that another cluster dialled: its messages, and our interest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from twisted.logger import Logger

from natsbroker import hot
from natsbroker.accounts.account import GatewayBus
from natsbroker.accounts.tracing import GATEWAY, TracePeer
from natsbroker.advisories import GatewayUnwanted
from natsbroker.connections.labels import inQuotes
from natsbroker.gateways.advertiser import GatewayAdvertiser
from natsbroker.links.gatewayreplies import GatewayDependencies, GatewayReplyRouter
from natsbroker.links.link import Handler, Link
from natsbroker.links.origins import PeerOrigin
from natsbroker.wire import ops
from natsbroker.wire.dialects.gateway import accountLine
from natsbroker.wire.dialects.linklines import LinkMessage
from natsbroker.wire.serverinfo import ServerDocument

_log = Logger(namespace="natsbroker")

#: The most unknown accounts that are remembered as refused.
_MOST_UNKNOWN = 10_000


class GatewayOrigin(PeerOrigin):
    __slots__ = ()

    ORIGIN = "Gateway"


class _Account(NamedTuple):
    name: str
    bus: GatewayBus
    origin: GatewayOrigin
    advertiser: GatewayAdvertiser


class InboundTraffic:
    """
    Delivers each message once in this cluster, and to one member of each chosen queue group. The
    sender learns of unwanted messages.
    """

    def __init__(
        self, dependencies: GatewayDependencies, replyRouter: GatewayReplyRouter, link: Any
    ) -> None:
        self._notify = dependencies.notify
        self._link: Link = link
        self._name: str = link.gateway
        self._document: ServerDocument = link.document
        self._buses = dependencies.buses
        self._policy = dependencies.policy
        self._ourName = dependencies.ourName
        self._replyRouter = replyRouter
        self._now = dependencies.now
        self._accounts: dict[bytes, _Account] = {}
        self._unknown: dict[bytes, None] = {}
        if hot.LinkLane is not None and link.context.fastLane:
            link.lane = hot.LinkLane(link.decoder, link.outbox, b"", True)
        self.handlers: dict[int, Handler] = {ops.RMSG: self._message, ops.HMSG: self._message}

    def accountsChanged(self) -> None:
        buses: dict[bytes, Any] = {
            name.encode("utf-8", "surrogateescape"): self._buses.busOf(name)
            for name in self._buses.names()
        }
        accounts = self._accounts
        for name in [
            account for account in accounts if accounts[account].bus is not buses.get(account)
        ]:
            accounts.pop(name).advertiser.end()
        new = [name for name in buses if name not in accounts and buses[name] is not None]
        for name in new:
            accounts[name] = self._account(name, buses[name])
        self._offer()
        if new:
            self.reconsider()

    def reconsider(self) -> None:
        for known in self._accounts.values():
            if self._policy.introduces(self._name, known.name, self._document.gateway_iom):
                known.advertiser.sendAll(self._now())

    def _account(self, wire: bytes, bus: GatewayBus) -> _Account:
        name = wire.decode("utf-8", "surrogateescape")
        isRefused = wire in self._unknown
        self._unknown.pop(wire, None)
        advertiser = GatewayAdvertiser(
            wire, self._ourName, self._link.say, self._link.context.batch, isRefused
        )
        advertiser.begin(bus)
        return _Account(name, bus, GatewayOrigin(name, self._document.server_name), advertiser)

    def _offer(self) -> None:
        lane = self._link.lane
        if lane is not None:
            lane.forget()
            lane.matchers.update(
                {name: account.bus.matcher for name, account in self._accounts.items()}
            )
            lane.advertisers.update(
                {name: account.advertiser for name, account in self._accounts.items()}
            )

    def figures(self) -> dict[str, Mapping[str, Any]]:
        return {account.name: account.advertiser.figures() for account in self._accounts.values()}

    def interests(self, account: str) -> Iterable[tuple[bytes, bytes]]:
        known = self._accounts.get(account.encode("utf-8", "surrogateescape"))
        return () if known is None else known.advertiser.interests()

    def end(self) -> None:
        accounts, self._accounts = self._accounts, {}
        for account in accounts.values():
            account.advertiser.end()
        self._offer()

    def _message(self, *frame: Any) -> None:
        came = LinkMessage(*frame)
        subject, size = came.subject, len(came.body)
        known = self._accounts.get(came.account)
        if known is None:
            self._refuseAccount(came.account, subject, size)
            return
        message = came.message(known.origin)
        if self._replyRouter.take(known.name, message, False):
            return
        advertiser = known.advertiser
        if not advertiser.isAll and not known.bus.isWanted(subject):
            isTold = advertiser.sendNoInterest(
                subject, lambda count: self._switches(known, count), self._now()
            )
            if not came.queues:
                self._unwanted(known.name, subject, size, isTold)
        known.bus.publishOver(message, self._link.later, self._peer)

    def _peer(self) -> TracePeer:
        return TracePeer(GATEWAY, self._link.number, self._link.remoteName)

    def _unwanted(self, account: str, subject: bytes, size: int, isTold: bool) -> None:
        self._notify(GatewayUnwanted(self._name, account, subject, size, isTold))

    def _switches(self, account: _Account, refusals: int) -> bool:
        return self._policy.switches(self._name, account.name, refusals)

    def _refuseAccount(self, account: bytes, subject: bytes, size: int) -> None:
        _log.debug(
            "{link} - Unknown account {account} for gateway message on subject: {subject}",
            link=str(self._link),
            account=inQuotes(account),
            subject=inQuotes(subject),
        )
        isTold = account not in self._unknown
        self._unwanted(account.decode("utf-8", "surrogateescape"), subject, size, isTold)
        if not isTold:
            return
        if len(self._unknown) >= _MOST_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]
        self._unknown[account] = None
        self._link.say(accountLine(account, False))
