"""The page C{/leafz} with nats-server's parameters and keys; and its part of C{/varz}."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from natsbroker.clients.state import BrokerState
from natsbroker.config.addresses import joined
from natsbroker.config.settings.leafnodes import RemoteLeaf, splitRemote
from natsbroker.config.settings.listeners import timeToLogin
from natsbroker.config.tls import TLSSettings
from natsbroker.monitoring.answers import JSON, Answer, Listing, bodyOf
from natsbroker.monitoring.formats import instant, nanoseconds, number, roundTrip
from natsbroker.monitoring.queries import Query, flag, text
from natsbroker.monitoring.rows import Row, subscriptionMembers, trafficMembers
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Kind

if TYPE_CHECKING:
    from natsbroker.leafnodes.registry import LeafLink
    from natsbroker.leafnodes.service import LeafnodeService
    from natsbroker.system.pages import ServerPages

#: The bytes that a subscription counts besides its text.
_EACH = 8


class Leafz:
    def __init__(self, state: BrokerState) -> None:
        self.leafs: Iterable[LeafLink] = ()
        self._state = state

    def contribute(self, service: LeafnodeService, monitoring: ServerPages) -> None:
        leafs = self.leafs = service.leafs
        monitoring.varz.statistics["leafs"] = leafs
        monitoring.varz.contributions |= {
            "leaf": lambda: _varz(service),
            "leafnodes": lambda: len(leafs),
        }
        monitoring.connz.leafnodes = lambda: leafs
        monitoring.accountz.countLeafnodes = self._countIn
        monitoring.accstatz.countLeafnodes = self._countIn
        monitoring.accstatz.leafTraffic = self._trafficIn

    def __call__(self, query: Query) -> Answer:
        steps = self.steps(flag(query, "subs"), text(query, "acc"))
        return Answer(200, JSON, bodyOf(steps), isLong=True)

    def steps(self, isListed: bool, account: str = "") -> Generator[bytes, None, Listing]:
        """Rows of an account's leafnodes; empty for all."""
        # The account is noted first, because a leafnode that ends while rows are made loses its
        # account.
        wanted = [(leaf, leaf.account) for leaf in self.leafs if account in ("", leaf.account)]
        head: Row = {
            "server_id": self._state.context.info.server_id,
            "now": instant(self._state.seconds()),
            "leafnodes": len(wanted),
        }
        yield b""
        return Listing(head, "leafs", _rows(wanted, isListed))

    def _countIn(self, account: str) -> int:
        return sum(leaf.account == account for leaf in self.leafs)

    def _trafficIn(self, account: str) -> tuple[int, int, int, int]:
        sums = [0, 0, 0, 0]
        for leaf in self.leafs:
            if leaf.account == account:
                for kind, count in enumerate(leaf.counts):
                    sums[kind] += count
        return sums[0], sums[1], sums[2], sums[3]


def _rows(leafs: list[tuple[LeafLink, str]], isListed: bool) -> Iterator[Row | None]:
    for leaf, account in leafs:
        row: Row = {"id": leaf.number, "name": leaf.name, "is_spoke": leaf.kind is Kind.HUB}
        if leaf.isIsolated:
            row["is_isolated"] = True
        row |= {
            "account": account,
            "ip": leaf.host,
            "port": leaf.port,
            "rtt": roundTrip(leaf.roundTrip),
            **trafficMembers(leaf.counts, leaf.subscriptions),
        }
        if isListed and leaf.subscriptions:
            interest = () if leaf.traffic is None else tuple(leaf.traffic.interest)
            patterns = (held.pattern for held in interest)
            sized = ((len(pattern) + _EACH, decoded(pattern)) for pattern in patterns)
            row |= yield from subscriptionMembers(sized, leaf.subscriptions)
        row["compression"] = leaf.compression.level
        if leaf.grant is not None and leaf.grant.proxy:
            row["proxy"] = {"key": leaf.grant.proxy}
        yield row


def _varz(service: LeafnodeService) -> dict[str, Any]:
    block = service.block
    tls = block.tls
    listens = bool(service.port)
    told = {
        "host": block.host if listens else "",
        "port": service.port,
        "auth_timeout": number(timeToLogin(block.timeout, block.tls)) if listens else 0,
        "tls_timeout": number((tls or TLSSettings()).timeout) * listens,
        "tls_required": tls is not None and listens,
        "tls_verify": tls is not None and tls.verify and listens,
        "remotes": [_remote(remote) for remote in block.remotes],
        "write_deadline": nanoseconds(block.write_deadline),
        "tls_cert_not_after": service.expiry if listens else "",
    }
    return {key: value for key, value in told.items() if value}


def _remote(remote: RemoteLeaf) -> dict[str, Any]:
    places = map(splitRemote, remote.urls)
    denied = {"exports": list(remote.deny_exports), "imports": list(remote.deny_imports)}
    told = {
        "local_account": remote.localAccount,
        "tls_timeout": 0 if remote.tls is None else number(remote.tls.timeout),
        "urls": [joined(url.host, url.port) for url in places],
        "deny": {key: value for key, value in denied.items() if value},
    }
    return {key: value for key, value in told.items() if value}
