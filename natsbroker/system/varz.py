"""The page C{/varz}, in nats-server's order and units, without its disk semaphore."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from natsbroker.clients.info import FEATURE_FLAGS
from natsbroker.clients.state import BrokerState
from natsbroker.config.model import Settings
from natsbroker.links.registry import LinkRegistry
from natsbroker.monitoring.answers import JSON, PAUSE, Answer, bodyOf
from natsbroker.monitoring.formats import instant, nanoseconds, number, uptime
from natsbroker.monitoring.queries import Query

#: The connections that one step reads.
_STEP = 256

#: Seconds for a TLS handshake where no TLS is configured: nats-server's default.
_TLS_TIMEOUT = 2

_STALE = "Stale Connection"

_PARTS = ("gateway", "leaf", "mqtt", "websocket", "jetstream")
Document = dict[str, Any]


class Varz:
    """The page; C{contributions} of other services are functions by key."""

    def __init__(self, state: BrokerState, requests: Mapping[str, int]) -> None:
        self.contributions: dict[str, Callable[[], Any]] = {}
        self.statistics: dict[str, LinkRegistry[Any]] = {}
        self._state = state
        self._requests = requests

    def __call__(self, query: Query) -> Answer:
        return Answer(200, JSON, bodyOf(self.steps()))

    def steps(self) -> Generator[bytes, None, Document]:
        traffic = yield from self.traffic()
        state = self._state
        context, settings, process = state.context, state.settings, state.process
        info, limits, connections = context.info, context.settings, context.connections
        named = {"name": settings.clusterName} if settings.clusterName else {}
        monitoring, now, troubles = settings.monitoring, state.seconds(), self.troubles()
        document = {
            "server_id": info.server_id,
            "server_name": info.server_name,
            "version": info.version,
            "proto": 1,
            "git_commit": info.git_commit or None,
            "go": "",
            "host": info.host,
            "port": info.port,
            # With no_auth_user too, unlike INFO, which clients without a login read.
            "auth_required": info.auth_required or context.authorizer.deadline or None,
            "tls_required": info.tls_required or None,
            "tls_verify": info.tls_verify or None,
            "connect_urls": list(info.connect_urls) or None,
            "ws_connect_urls": list(info.ws_connect_urls) or None,
            "max_connections": limits.max_connections,
            "max_subscriptions": limits.max_subscriptions or None,
            "ping_interval": nanoseconds(limits.ping_interval),
            "ping_max": limits.ping_max,
            "http_host": monitoring.http_host,
            "http_port": monitoring.http_port,
            "http_base_path": monitoring.http_base_path.rstrip("/"),
            "https_port": monitoring.https_port,
            "auth_timeout": number(limits.authorization.timeout),
            "max_control_line": limits.max_control_line,
            "max_payload": limits.max_payload,
            "max_pending": limits.max_pending,
            "cluster": self.contribution("cluster", named),
            **{name: self.contribution(name, {}) for name in _PARTS},
            "tls_timeout": number(settings.tls.timeout) if settings.tls else _TLS_TIMEOUT,
            "write_deadline": nanoseconds(limits.write_deadline),
            "start": instant(state.startTime),
            "now": instant(now),
            "uptime": uptime(now - state.startTime),
            "mem": process.memory(),
            "cores": process.cores(),
            "gomaxprocs": 1,
            "cpu": number(process.percent()),
            "connections": len(connections),
            "total_connections": connections.total,
            **{name: self.contribution(name, 0) for name in ("routes", "remotes", "leafnodes")},
            **self.messages(traffic),
            "slow_consumers": sum(troubles["slow_consumer_stats"].values()),
            "stale_connections": sum(troubles["stale_connection_stats"].values()),
            "stalled_clients": connections.stalls,
            "subscriptions": sum(map(len, state.accounts)),
            "http_req_stats": dict(sorted(self._requests.items())),
            "config_load_time": instant(state.configLoadTime),
            "config_digest": settings.config_digest,
            "tags": list(settings.server_tags) or None,
            "metadata": dict(settings.server_metadata) or None,
            "feature_flags": dict(FEATURE_FLAGS),
            **_operators(settings),
            **_proxies(settings),
            "system_account": state.systemAccount or None,
            **troubles,
            "tls_cert_not_after": self.contribution("tls_cert_not_after", None) or None,
            "natsbroker": info.natsbroker,
            "reactor": self.contribution("reactor", None),
        }
        return {key: value for key, value in document.items() if value is not None}

    def traffic(self) -> Generator[bytes, None, list[int]]:
        """Messages in, bytes in, messages out and bytes out of all clients."""
        connections = self._state.context.connections
        sums = list(connections.closedTraffic)
        for place, session in enumerate(list(connections)):
            if place % _STEP == _STEP - 1:
                yield PAUSE
            for kind, count in enumerate(session.traffic):
                sums[kind] += count
        return sums

    def contribution(self, name: str, default: Any) -> Any:
        contribute = self.contributions.get(name)
        return default if contribute is None else contribute()

    def messages(self, traffic: list[int]) -> Document:
        inMessages, inBytes, outMessages, outBytes = traffic
        sums = [link.traffic for link in self.statistics.values()]
        links = [sum(counts) for counts in zip(*sums, strict=True)]
        inLinks, inLinkBytes, outLinks, outLinkBytes = links or (0, 0, 0, 0)
        return {
            "in_msgs": inMessages + inLinks,
            "in_bytes": inBytes + inLinkBytes,
            "in_client_msgs": inMessages,
            "in_client_bytes": inBytes,
            "out_msgs": outMessages + outLinks,
            "out_bytes": outBytes + outLinkBytes,
            "out_client_msgs": outMessages,
            "out_client_bytes": outBytes,
        }

    def troubles(self) -> Document:
        """The numbers of slow consumers and of stale connections, by kind."""
        connections = self._state.context.connections
        slow = {"clients": sum(connections.slow.values())}
        stale = {"clients": connections.ended.get(_STALE, 0)}
        for kind in ("routes", "gateways", "leafs"):
            statistics = self.statistics.get(kind)
            slow[kind], stale[kind] = (
                (0, 0) if statistics is None else (statistics.slow, statistics.stale)
            )
        return {"slow_consumer_stats": slow, "stale_connection_stats": stale}


def _proxies(settings: Settings) -> dict[str, Any]:
    if not settings.proxies:
        return {}
    return {"proxies": {"trusted": [{"key": key} for key in settings.proxies]}}


def _operators(settings: Settings) -> Document:
    if not settings.operator.operators:
        return {}
    from natsbroker.auth.operator.operators import shownOperators

    texts, claims = shownOperators(settings.operator)
    return {"trusted_operators_jwt": texts, "trusted_operators_claim": claims}
