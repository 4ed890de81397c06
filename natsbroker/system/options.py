"""
The options of requests to the system account: JSON with nats-server's keys, and parameters of
pages. Values of a wrong type are refused with nats-server's texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from natsbroker.monitoring.queries import Query
from natsbroker.wire.shapes import (
    BOOL,
    INT,
    STRING,
    UINT64,
    Field,
    ListOf,
    Shape,
    Struct,
    decodeLoosely,
)

#: What every request may say about the servers that shall answer.
_FILTER: dict[str, Shape] = {
    "server_name": STRING,
    "cluster": STRING,
    "host": STRING,
    "exact_match": BOOL,
    "tags": ListOf(STRING),
    "domain": STRING,
}

#: The states of connections as numbers; others select nothing.
_STATES = {0: "open", 1: "closed", 2: "all"}


@dataclass(frozen=True)
class PageOption:
    name: str
    shape: Shape


def _named(shape: Shape, *names: str) -> dict[str, PageOption]:
    return {name: PageOption(name, shape) for name in names}


_SUBSCRIPTIONS = {"subscriptions": PageOption("subs", BOOL)}
_DETAIL = {"subscriptions_detail": PageOption("subs=detail", BOOL)}
_PAGE = _named(INT, "offset", "limit")

OPTIONS: Mapping[str, Mapping[str, PageOption]] = {
    "VARZ": {},
    "CONNZ": {
        **_named(STRING, "sort", "user", "acc", "filter_subject", "mqtt_client"),
        **_named(BOOL, "auth"),
        **_SUBSCRIPTIONS,
        **_DETAIL,
        **_PAGE,
        "cid": PageOption("cid", UINT64),
        "state": PageOption("state", INT),
    },
    "SUBSZ": {
        **_PAGE,
        **_SUBSCRIPTIONS,
        **_named(STRING, "test"),
        "account": PageOption("acc", STRING),
    },
    "ROUTEZ": {**_SUBSCRIPTIONS, **_DETAIL},
    "GATEWAYZ": {
        "name": PageOption("gw_name", STRING),
        "accounts": PageOption("accs", BOOL),
        "account_name": PageOption("acc_name", STRING),
        **_SUBSCRIPTIONS,
        **_DETAIL,
    },
    "LEAFZ": {**_SUBSCRIPTIONS, "account": PageOption("acc", STRING)},
    "ACCOUNTZ": {"account": PageOption("acc", STRING)},
    "JSZ": {
        "account": PageOption("acc", STRING),
        **_named(BOOL, "accounts", "streams", "config", "raft"),
        "consumer": PageOption("consumers", BOOL),
        "direct_consumer": PageOption("direct-consumers", BOOL),
        "leader_only": PageOption("leader-only", BOOL),
        "stream_leader_only": PageOption("stream-leader-only", BOOL),
        **_PAGE,
    },
    "HEALTHZ": {
        **_named(BOOL, "js-enabled", "js-enabled-only", "js-server-only", "js-meta-only"),
        **_named(STRING, "account", "stream", "consumer"),
        **_named(BOOL, "details", "strict", "warnings"),
    },
    "PROFILEZ": {**_named(STRING, "name"), **_named(INT, "debug")},
    "IPQUEUESZ": {**_named(BOOL, "all"), **_named(STRING, "filter")},
    "RAFTZ": _named(STRING, "account", "group"),
}


#: Of requests that are no pages.
_OTHERS: Mapping[str, Mapping[str, PageOption]] = {
    "ACCSTATZ": {**_named(ListOf(STRING), "accounts"), **_named(BOOL, "include_unused")},
    "NSUBS": _named(STRING, "acc", "subject", "queue"),
    "KICK": _named(UINT64, "cid"),
    "LDM": _named(UINT64, "cid"),
}


#: How nats-server's errors name the options of a request, where that is not its subject's word.
_GO_NAMES = {"ACCSTATZ": "AccountStatz"}


@dataclass(frozen=True)
class ServerFilter:
    values: Mapping[str, Any]

    def admits(self, server: Mapping[str, Any], tags: Any, domain: str) -> bool:
        isExact = self.values.get("exact_match", False)
        for key, name in (("server_name", "name"), ("cluster", "cluster"), ("host", "host")):
            wanted, known = self.values.get(key, ""), server.get(name, "")
            if wanted and (wanted != known if isExact else wanted not in known):
                return False
        wantedTags = self.values.get("tags") or ()
        if any(each.lower() not in {tag.lower() for tag in tags} for each in wantedTags):
            return False
        return self.values.get("domain", "") in ("", domain)


@dataclass(frozen=True)
class SystemRequest:
    """A request with options by their wire keys, and the page's parameters for them."""

    options: Mapping[str, Any]
    servers: ServerFilter
    query: Query


def decodeRequest(kind: str, body: bytes) -> SystemRequest:
    """Read a kind's request; L{natsbroker.wire.gojson.JsonError} for a wrong type."""
    known = OPTIONS.get(kind) or _OTHERS.get(kind, {})
    fields = [Field(key, shape) for key, shape in _FILTER.items()]
    fields += [Field(key, option.shape) for key, option in known.items()]
    name = f"{_GO_NAMES.get(kind, kind.capitalize())}EventOptions"
    shape: Struct[dict[str, Any]] = Struct(name, dict, fields)
    values = decodeLoosely(body, shape) if body else {}
    query: dict[str, str] = {}
    for key, value in values.items():
        option = known.get(key)
        if option is not None and value:
            parameter, _, told = option.name.partition("=")
            query[parameter] = told or _text(option, value)
    return SystemRequest(values, ServerFilter(values), query)


def _text(option: PageOption, value: Any) -> str:
    if option.name == "state":
        return _STATES.get(value, "")
    return "1" if value is True else str(value)
