"""
The keys that monitoring tools read of a server, according to their public sources: nats-top
(C{util} and C{nats-top.go}, 0.6), prometheus-nats-exporter (C{collector}, June 2026), nats-surveyor
(C{collector_statz.go}, April 2026), and the commands C{nats server list|info|report|ping} (July
2026). They are Go programs: a key with a value of another type ends their decoding of the whole
answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CLUSTER", "GATEWAYS", "JETSTREAM", "PLAIN", "STREAMING", "ExpectedAnswer"]

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_SPAN = re.compile(r"(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+")
_UPTIME = re.compile(r"(\d+y)?(\d+d)?(\d+h)?(\d+m)?\d+s")

#: The types of members. Go has no whole number for 1.5, and its durations have units.
_TYPES: Mapping[str, Callable[[Any], object]] = {
    "int": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "text": lambda value: isinstance(value, str),
    "flag": lambda value: isinstance(value, bool),
    "instant": lambda value: isinstance(value, str) and _INSTANT.fullmatch(value),
    "span": lambda value: isinstance(value, str) and _SPAN.fullmatch(value),
    "uptime": lambda value: isinstance(value, str) and _UPTIME.fullmatch(value),
    "texts": lambda value: isinstance(value, list) and all(isinstance(x, str) for x in value),
}


@dataclass(frozen=True)
class ExpectedAnswer:
    """
    One page, or one request with its options, and the keys of the answer that a tool reads.

    @ivar source: the path of a page, or the subject after C{$SYS.REQ.}.
    @ivar members: the paths of keys by the types of their values. C{rows[]} stands for each row of
        a list, and C{name{}} for each value of an object, or for each row of the lists that are its
        values. C{?} follows the path of a key that may be absent.
    """

    tool: str
    source: str
    members: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.tool} {self.source}"

    def problems(self, document: Any) -> list[str]:
        """
        The keys that the tool could not read. An empty list or object is a problem, because the
        server should have something to show.
        """
        problems = []
        for name, places in self.members.items():
            for place in places.split():
                for value in _at(document, place.split(".")):
                    if not _TYPES[name](value):
                        problems.append(f"{place} is no {name}: {value!r}")
        return problems


def _at(value: Any, tokens: list[str]) -> Iterator[Any]:
    if not tokens:
        yield value
        return
    token, *rest = tokens
    name = token.rstrip("?").removesuffix("[]").removesuffix("{}")
    inner = value.get(name) if isinstance(value, dict) else None
    if inner is None and token.endswith("?"):
        return
    rows = [inner]
    if "{}" in token:
        rows = list(inner.values()) if isinstance(inner, dict) else []
    if "[]" in token or (rows and isinstance(rows[0], list) and rest):
        rows = [item for row in rows for item in (row if isinstance(row, list) else ())]
    if not rows:
        yield f"nothing in {name}"
    for row in rows:
        yield from _at(row, rest)


_TRAFFIC = "in_msgs out_msgs in_bytes out_bytes"


def _below(head: str, names: str) -> str:
    return " ".join(f"{head}.{name}" for name in names.split())


_TOP_ROW = _below("connections[]", f"cid port subscriptions pending_bytes {_TRAFFIC}")
_SERVER = {"text": "server.name server.id server.host server.ver", "instant": "server.time"}
_COUNTS = "sent.msgs sent.bytes received.msgs received.bytes"

#: Of a server with clients and leafnodes.
PLAIN = [
    ExpectedAnswer(
        "nats-top",
        "/varz",
        {
            "number": "cpu",
            "int": f"mem slow_consumers {_TRAFFIC}",
            "text": "version",
            "uptime": "uptime",
            "instant": "now",
        },
    ),
    ExpectedAnswer(
        "nats-top",
        "/connz?limit=1024&sort=cid&subs=1",
        {
            "int": f"num_connections {_TOP_ROW}",
            "text": _below("connections[]", "ip name? lang? version?"),
            "uptime": "connections[].uptime",
            "instant": "connections[].last_activity",
            "texts": "connections[].subscriptions_list?",
        },
    ),
    ExpectedAnswer(
        "exporter",
        "/varz",
        {
            "text": "server_id server_name version",
            "instant": "start now config_load_time",
            "int": f"max_connections max_payload max_pending connections total_connections routes "
            f"remotes leafnodes subscriptions slow_consumers cores {_TRAFFIC} "
            "slow_consumer_stats.clients slow_consumer_stats.routes slow_consumer_stats.gateways "
            "slow_consumer_stats.leafs http_req_stats{}",
            "number": "cpu auth_timeout tls_timeout",
        },
    ),
    ExpectedAnswer(
        "exporter",
        "/connz?auth=true",
        {
            "int": f"num_connections total offset limit {_TOP_ROW}",
            "text": _below(
                "connections[]",
                "kind type? ip name? name_tag? account? lang? version? tls_version? "
                "tls_cipher_suite?",
            ),
            "instant": _below("connections[]", "start last_activity"),
            "span": "connections[].rtt",
            "uptime": _below("connections[]", "uptime idle"),
        },
    ),
    ExpectedAnswer(
        "exporter",
        "/subsz",
        {
            "int": "num_subscriptions num_cache num_inserts num_removes num_matches max_fanout",
            "number": "cache_hit_rate avg_fanout",
        },
    ),
    ExpectedAnswer(
        "exporter",
        "/leafz",
        {
            "int": "leafnodes "
            + _below("leafs[]", "port in_msgs out_msgs in_bytes out_bytes subscriptions"),
            "text": _below("leafs[]", "name account ip"),
            "span": "leafs[].rtt",
            "texts": "leafs[].subscriptions_list?",
        },
    ),
    ExpectedAnswer(
        "exporter",
        "/accstatz?unused=1",
        {
            "int": _below(
                "account_statz[]", f"conns leafnodes total_conns slow_consumers {_COUNTS}"
            ),
            "text": "account_statz[].acc",
        },
    ),
    ExpectedAnswer("exporter", "/accountz", {"texts": "accounts"}),
    ExpectedAnswer(
        "exporter",
        "/accountz?acc=A",
        {
            "text": "server_id account_detail.account_name account_detail.name_tag",
            "instant": "account_detail.update_time",
            "flag": _below("account_detail", "is_system? expired complete jetstream_enabled"),
            "int": _below(
                "account_detail", "leafnode_connections client_connections subscriptions"
            ),
        },
    ),
    *(
        ExpectedAnswer("exporter", f"/healthz{query}", {"text": "status"})
        for query in ("", "?js-enabled-only=true", "?js-server-only=true")
    ),
    ExpectedAnswer(
        "surveyor",
        "SERVER.PING",
        {
            **_SERVER,
            "instant": "server.time statsz.start",
            "int": _below(
                "statsz",
                "mem cores connections total_connections active_accounts subscriptions "
                f"slow_consumers active_servers {_COUNTS}",
            ),
            "number": "statsz.cpu",
            "flag": "server.jetstream",
        },
    ),
    ExpectedAnswer(
        "surveyor",
        "ACCOUNT.PING.STATZ",
        {
            **_SERVER,
            "int": _below(
                "data.account_statz[]",
                f"conns leafnodes total_conns num_subscriptions slow_consumers {_COUNTS} "
                + " ".join(
                    f"{way}.{kind}.{unit}"
                    for way in ("sent", "received")
                    for kind in ("gateways", "routes", "leafs")
                    for unit in ("msgs", "bytes")
                ),
            ),
            "text": _below("data.account_statz[]", "acc name"),
        },
        {"accounts": None, "include_unused": True},
    ),
    ExpectedAnswer("surveyor", "SERVER.PING.RAFTZ", _SERVER, {"group": "_meta_"}),
    ExpectedAnswer(
        "nats server list",
        "SERVER.PING",
        {
            **_SERVER,
            "int": "statsz.connections statsz.subscriptions statsz.mem statsz.slow_consumers",
            "text": f"{_SERVER['text']} server.cluster? server.domain?",
            "flag": "server.jetstream",
        },
    ),
    ExpectedAnswer("nats server ping", "SERVER.PING", {**_SERVER, "int": "statsz.active_servers"}),
    ExpectedAnswer(
        "nats server info",
        "SERVER.PING.VARZ",
        {
            **_SERVER,
            "text": _below("data", "server_id server_name version host git_commit? go ip?")
            + " data.cluster.name data.gateway.name data.gateway.host",
            "instant": "data.start",
            "uptime": "data.uptime",
            "flag": "data.auth_required? data.tls_required?",
            "texts": "data.connect_urls? data.ws_connect_urls? data.tags? data.cluster.urls?",
            "int": _below(
                "data",
                "port max_connections max_subscriptions? max_payload write_deadline cores mem "
                f"connections subscriptions slow_consumers gateway.port {_TRAFFIC}",
            ),
            "number": "data.cpu data.tls_timeout",
        },
        {"server_name": "mon"},
    ),
    ExpectedAnswer(
        "nats server report connections",
        "SERVER.PING.CONNZ",
        {
            **_SERVER,
            "int": "data.num_connections data.total data.offset data.limit "
            + " ".join(f"data.{key}" for key in _TOP_ROW.split()),
            "text": _below("data.connections[]", "kind ip name? account? reason? authorized_user?"),
            "instant": "data.connections[].start",
            "uptime": _below("data.connections[]", "uptime idle"),
            "texts": "data.connections[].subscriptions_list?",
        },
        {
            "sort": "subs",
            "auth": True,
            "subscriptions": True,
            "subscriptions_detail": False,
            "offset": 0,
            "limit": 2048,
            "cid": 0,
            "mqtt_client": "",
            "state": 2,
            "user": "",
            "acc": "",
            "filter_subject": "",
            "server_name": "",
            "cluster": "",
            "host": "",
            "tags": None,
            "domain": "",
        },
    ),
    ExpectedAnswer(
        "nats server report health",
        "SERVER.PING.HEALTHZ",
        {**_SERVER, "text": "server.name data.status", "int": "data.status_code"},
        {"js-enabled": False, "js-enabled-only": False, "js-server-only": False, "details": True},
    ),
    ExpectedAnswer(
        "nats server report leafnodes",
        "SERVER.PING.LEAFZ",
        {
            **_SERVER,
            "int": _below("data.leafs[]", f"id port subscriptions {_TRAFFIC}"),
            "text": _below("data.leafs[]", "name account ip compression?"),
            "flag": "data.leafs[].is_spoke",
            "span": "data.leafs[].rtt",
        },
    ),
]

#: Of a member of a cluster.
CLUSTER = [
    ExpectedAnswer(
        "exporter",
        "/routez",
        {
            "text": "server_id server_name "
            + _below("routes[]", "remote_id remote_name account? ip compression?"),
            "int": "num_routes " + _below("routes[]", f"rid subscriptions {_TRAFFIC}"),
            "span": "routes[].rtt",
            "uptime": "routes[].uptime",
        },
    ),
    ExpectedAnswer(
        "surveyor",
        "SERVER.PING",
        {
            "int": _below("statsz.routes[]", f"rid pending {_COUNTS}"),
            "text": "server.cluster statsz.routes[].name",
        },
    ),
    ExpectedAnswer(
        "nats server report routes",
        "SERVER.PING.ROUTEZ",
        {
            **_SERVER,
            "text": "server.cluster "
            + _below("data.routes[]", "remote_id remote_name account? ip compression?"),
            "int": _below("data.routes[]", f"rid port subscriptions {_TRAFFIC}"),
            "instant": "data.routes[].start",
            "span": "data.routes[].rtt",
        },
    ),
]

_REMOTE = f"cid pending_bytes port subscriptions {_TRAFFIC}"

#: Of a server with gateways.
GATEWAYS = [
    ExpectedAnswer(
        "exporter",
        "/gatewayz",
        {
            "text": "name",
            "flag": "outbound_gateways{}.configured inbound_gateways{}.configured",
            "int": _below("outbound_gateways{}.connection", _REMOTE),
            "instant": _below("outbound_gateways{}.connection", "start last_activity"),
            "span": "outbound_gateways{}.connection.rtt",
            "uptime": _below("outbound_gateways{}.connection", "uptime idle"),
        },
    ),
    ExpectedAnswer(
        "surveyor",
        "SERVER.PING",
        {
            "int": _below("statsz.gateways[]", f"gwid inbound_connections {_COUNTS}"),
            "text": "server.cluster statsz.gateways[].name",
        },
    ),
    ExpectedAnswer(
        "nats server report gateways",
        "SERVER.PING.GATEWAYZ",
        {
            **_SERVER,
            "text": "data.name data.outbound_gateways{}.connection.ip",
            "int": "data.port " + _below("data.outbound_gateways{}.connection", _REMOTE),
            "uptime": "data.outbound_gateways{}.connection.uptime",
            "span": "data.outbound_gateways{}.connection.rtt",
        },
        {"name": "", "accounts": True, "account_name": ""},
    ),
]

_USAGE = "memory storage reserved_memory reserved_storage api.total api.errors"
_CONSUMER = (
    "num_ack_pending num_redelivered num_waiting num_pending delivered.consumer_seq "
    "delivered.stream_seq ack_floor.consumer_seq ack_floor.stream_seq"
)
_STREAM = "state.messages state.bytes state.first_seq state.last_seq state.consumer_count"


def _streams(head: str) -> dict[str, str]:
    """The keys that are read of accounts, streams and consumers."""
    account = f"{head}account_details[]"
    stream = f"{account}.stream_detail[]"
    return {
        "int": f"{head}streams {head}consumers {head}messages {head}bytes "
        f"{head}config.max_memory {head}config.max_storage "
        + " ".join(f"{head}{key}" for key in _USAGE.split())
        + " "
        + _below(stream, f"{_STREAM} config.max_bytes config.max_msgs")
        + " "
        + _below(f"{stream}.consumer_detail[]?", _CONSUMER),
        "text": f"{account}.name {account}.id {stream}.name "
        f"{stream}.consumer_detail[]?.name {stream}.consumer_detail[]?.stream_name",
        "instant": f"{head}now {stream}.created",
    }


#: Of a server with JetStream.
JETSTREAM = [
    ExpectedAnswer("exporter", "/jsz?consumers=true&config=true&raft=true", _streams("")),
    ExpectedAnswer(
        "exporter",
        "/varz",
        {
            "int": _below("jetstream.config", "max_memory max_storage")
            + " "
            + _below("jetstream.stats", _USAGE)
            + " jetstream.stats.accounts jetstream.stats.ha_assets",
        },
    ),
    ExpectedAnswer(
        "surveyor",
        "SERVER.PING",
        {
            "int": _below("statsz.jetstream.config", "max_memory max_storage")
            + " "
            + _below("statsz.jetstream.stats", f"{_USAGE} accounts ha_assets"),
            "flag": "server.jetstream",
        },
    ),
    ExpectedAnswer(
        "surveyor",
        "SERVER.PING.JSZ",
        _streams("data."),
        {
            "account": "",
            "accounts": True,
            "streams": True,
            "consumer": True,
            "direct_consumer": False,
            "config": True,
            "leader_only": False,
            "offset": 0,
            "limit": 5000,
            "raft": True,
            "stream_leader_only": False,
        },
    ),
    ExpectedAnswer(
        "nats server report jetstream",
        "SERVER.PING.JSZ",
        {
            **_SERVER,
            "int": "data.streams data.consumers data.messages data.bytes "
            + " ".join(f"data.{key}" for key in _USAGE.split()),
            "text": "server.name data.config.store_dir",
        },
        {"account": "", "tags": None},
    ),
]

#: Of a broker of NATS Streaming.
STREAMING = [
    ExpectedAnswer(
        "exporter",
        "/streaming/serverz",
        {
            "int": "total_bytes total_msgs channels subscriptions clients",
            "text": "cluster_id server_id version go state role? start_time",
        },
    ),
    ExpectedAnswer(
        "exporter",
        "/streaming/channelsz?subs=1",
        {
            "text": "cluster_id channels[].name "
            + _below("channels[].subscriptions[]?", "client_id inbox ack_inbox durable_name?"),
            "instant": "now",
            "int": "offset limit count total "
            + _below("channels[]", "msgs bytes first_seq last_seq")
            + " "
            + _below(
                "channels[].subscriptions[]?", "max_inflight ack_wait last_sent pending_count"
            ),
            "flag": _below("channels[].subscriptions[]?", "is_durable is_offline is_stalled"),
        },
    ),
]
