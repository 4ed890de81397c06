"""
The page C{/gatewayz}: the connections between this cluster and others.

The parameters, refusals and keys are those of nats-server's page in its order. For each account the
page shows the decisions of the policy: the mode, the known wanted and unwanted subjects, and (our
addition) how often and when the mode has changed. Without gateways the page is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from natsbroker.clients.state import BrokerState
from natsbroker.config.settings.listeners import timeToLogin
from natsbroker.config.tls import TLSSettings
from natsbroker.monitoring.answers import JSON, PAUSE, Answer, bodyOf
from natsbroker.monitoring.formats import instant, number
from natsbroker.monitoring.queries import Query, flag, text
from natsbroker.monitoring.rows import (
    askedFor,
    durations,
    peerMembers,
    subscriptionRow,
    trafficMembers,
)
from natsbroker.wire.text import decoded

if TYPE_CHECKING:
    from natsbroker.gateways.registry import GatewayLink, GatewayRegistry
    from natsbroker.gateways.service import GatewayService
    from natsbroker.system.pages import ServerPages

#: nats-server's words for its modes.
_MODES = {
    "optimistic": "Optimistic",
    "transitioning": "Transitioning",
    "interest-only": "Interest-Only",
}

#: The most subscriptions of an account that are listed.
_LISTED = 4096

Document = dict[str, Any]


class _Wanted:
    def __init__(self, query: Query) -> None:
        self.subs, self.subsDetail = askedFor(query)
        self.account = text(query, "acc_name")
        self.accounts = flag(query, "accs") or bool(self.account)
        self.gateway = text(query, "gw_name")

    def takes(self, gateway: str) -> bool:
        return self.gateway in ("", gateway)


class Gatewayz:
    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.gateways: GatewayPages | None = None

    def contribute(self, service: GatewayService, monitoring: ServerPages) -> None:
        registry = service.gateways
        pages = GatewayPages(registry, service.switchAfter, service.advice.rowFor)
        self.gateways = pages
        monitoring.varz.contributions["gateway"] = pages.varz
        monitoring.statsz.gateways = lambda: (registry.outbound, list(registry.inbound.values()))
        monitoring.varz.contributions.setdefault("cluster", lambda: {"name": service.clusterName})
        monitoring.varz.statistics["gateways"] = registry

    def __call__(self, query: Query) -> Answer:
        return Answer(200, JSON, bodyOf(self.steps(_Wanted(query))))

    def steps(self, wanted: _Wanted) -> Generator[bytes, None, Document]:
        state, gateways = self._state, self.gateways
        now = state.seconds()
        page: Document = {"server_id": state.context.info.server_id, "now": instant(now)}
        if gateways is None:
            return {**page, "outbound_gateways": {}, "inbound_gateways": {}}
        page |= {"name": gateways.name, "host": gateways.host, "port": gateways.port}
        outbound: Document = {}
        inbound: Document = {}
        for name, link in gateways.outbound():
            if wanted.takes(name):
                outbound[name] = self._row(link, wanted, now)
                yield PAUSE
        for name, link in gateways.inbound():
            if wanted.takes(name):
                inbound.setdefault(name, []).append(self._row(link, wanted, now))
                yield PAUSE
        isUnknown = bool(wanted.gateway) and not outbound
        return {
            **page,
            "outbound_gateways": None if isUnknown else outbound,
            "inbound_gateways": inbound,
        }

    def _row(self, link: LinkPage, wanted: _Wanted, now: float) -> Document:
        row: Document = {
            "configured": link.isConfigured,
            "connection": _connection(link, now),
        }
        accounts = _accounts(link, wanted) if wanted.accounts else []
        return {**row, "accounts": accounts} if accounts else row


def _connection(page: LinkPage, now: float) -> Document:
    link = page.link
    row = {
        "cid": link.number,
        "kind": "Gateway",
        **peerMembers(link),
        **durations(link, now),
        "pending_bytes": link.outbox.pending,
        **trafficMembers(link.counts, page.countInterest()),
    }
    return {**row, "name": page.peerId} if page.peerId else row


def _accounts(link: LinkPage, wanted: _Wanted) -> list[Document]:
    accounts: Iterable[tuple[str, Mapping[str, Any]]] = link.accounts().items()
    return [
        _account(link, name, figures, wanted)
        for name, figures in accounts
        if wanted.account in ("", name)
    ]


def _account(link: LinkPage, name: str, figures: Mapping[str, Any], wanted: _Wanted) -> Document:
    mode = str(figures["mode"])
    row: Document = {"name": name, "interest_mode": _MODES.get(mode, mode)}
    counts = {
        "no_interest_count": figures.get("no_interest", 0),
        "interest_only_threshold": link.switchAfter,
        "num_subs": figures.get("interest", 0) + figures.get("queues", 0),
        "num_queue_subs": figures.get("queues", 0),
    }
    row |= {key: count for key, count in counts.items() if count}
    if wanted.subs or wanted.subsDetail:
        listed = [
            interest for interest, _ in zip(link.interests(name), range(_LISTED), strict=False)
        ]
        if listed and wanted.subs:
            row["subscriptions_list"] = [decoded(pattern) for pattern, _ in listed]
        elif listed:
            row["subscriptions_list_detail"] = [
                subscriptionRow(pattern, queue, b"", 0, 0) for pattern, queue in listed
            ]
    if figures.get("switches"):
        row["switches"] = figures["switches"]
        row["last_switch"] = instant(figures["switched"])
    if figures.get("advice"):
        row["advice"] = figures["advice"]
    return row


#: Gives the advice about a gateway and an account.
Advice = Callable[[str, str], Mapping[str, Any] | None]


@dataclass(eq=False)
class LinkPage:
    link: GatewayLink
    switchAfter: int
    advice: Advice = lambda gateway, account: None

    @property
    def isConfigured(self) -> bool:
        link = self.link
        return link.cluster is not None and not link.cluster.isImplicit

    @property
    def peerId(self) -> str:
        document = self.link.document
        return "" if document is None else document.server_id

    def countInterest(self) -> int:
        if self.link.cluster is None:
            return 0
        counts = self.accounts().values()
        return sum(count.get("interest", 0) + count.get("queues", 0) for count in counts)

    def accounts(self) -> Mapping[str, Mapping[str, Any]]:
        traffic = self.link.traffic
        figures: Mapping[str, Mapping[str, Any]] = {} if traffic is None else traffic.figures()
        if self.link.cluster is not None:
            return figures
        advised = {name: self.advice(self.link.gateway, name) for name in figures}
        return {
            name: {**row, "advice": advised[name]} if advised[name] else row
            for name, row in figures.items()
        }

    def interests(self, account: str) -> Iterable[tuple[bytes, bytes]]:
        traffic = self.link.traffic
        if traffic is None or self.link.cluster is None:
            return ()
        interests: Iterable[tuple[bytes, bytes]] = traffic.interests(account)
        return interests


@dataclass(eq=False)
class GatewayPages:
    gateways: GatewayRegistry
    switchAfter: int
    advice: Advice = lambda gateway, account: None

    @property
    def name(self) -> str:
        return self.gateways.terms.block.name

    @property
    def host(self) -> str:
        return self.gateways.identity.host

    @property
    def port(self) -> int:
        return self.gateways.identity.port

    def outbound(self) -> Iterable[tuple[str, LinkPage]]:
        links = self.gateways.outbound.items()
        return [(name, LinkPage(link, self.switchAfter)) for name, link in links]

    def inbound(self) -> Iterable[tuple[str, LinkPage]]:
        links = list(self.gateways.inbound.values())
        return [(link.gateway, LinkPage(link, self.switchAfter, self.advice)) for link in links]

    def varz(self) -> dict[str, Any]:
        gateway, links = self.gateways.terms.block, self.gateways.terms.tls
        tls = gateway.tls
        own = {
            "name": gateway.name,
            "host": gateway.host,
            "port": self.gateways.identity.port if gateway.port < 0 else gateway.port,
            "auth_timeout": number(timeToLogin(gateway.timeout, gateway.tls)),
            "tls_timeout": number((tls or TLSSettings()).timeout),
            "tls_required": tls is not None,
            "tls_verify": tls is not None,
            "advertise": gateway.advertise,
            "connect_retries": gateway.connect_retries,
            "gateways": [self._remote(remote.name) for remote in gateway.gateways],
            "reject_unknown": gateway.reject_unknown_cluster,
            "tls_cert_not_after": "" if links is None else links.expiry,
        }
        return {key: value for key, value in own.items() if value}

    def _remote(self, name: str) -> dict[str, Any]:
        remote = self.gateways.remotes.get(name)
        if remote is None:
            return {"name": name, "urls": self.gateways.gossip.urls()}
        tls = remote.tls(self.gateways.terms)
        timeout = {} if tls is None else {"tls_timeout": number(tls.settings.timeout)}
        return {"name": name, **timeout, "urls": remote.addresses}
