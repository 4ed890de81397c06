"""
The options of requests to the system account: JSON with nats-server's keys, and the parameters of
pages that they stand for. Values of a wrong type are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from natsbroker.monitoring.queries import Query
from natsbroker.wire.text import decoded, whole

#: The type of an option, or the numbers that it may have. A list has strings.
OptionKind = type | range

_INT = range(-(1 << 63), 1 << 63)
_UINT = range(1 << 64)

#: The options of every request that choose the servers which answer.
_FILTER: dict[str, OptionKind] = {
    "server_name": str,
    "cluster": str,
    "host": str,
    "exact_match": bool,
    "tags": list,
    "domain": str,
}

#: The states of connections as numbers; others select nothing.
_STATES = {0: "open", 1: "closed", 2: "all"}


@dataclass(frozen=True)
class PageOption:
    name: str
    kind: OptionKind


def _named(kind: OptionKind, *names: str) -> dict[str, PageOption]:
    return {name: PageOption(name, kind) for name in names}


_SUBSCRIPTIONS = {"subscriptions": PageOption("subs", bool)}
_DETAIL = {"subscriptions_detail": PageOption("subs=detail", bool)}
_PAGE = _named(_INT, "offset", "limit")

OPTIONS: Mapping[str, Mapping[str, PageOption]] = {
    "VARZ": {},
    "CONNZ": {
        **_named(str, "sort", "user", "acc", "filter_subject", "mqtt_client"),
        **_named(bool, "auth"),
        **_SUBSCRIPTIONS,
        **_DETAIL,
        **_PAGE,
        "cid": PageOption("cid", _UINT),
        "state": PageOption("state", _INT),
    },
    "SUBSZ": {
        **_PAGE,
        **_SUBSCRIPTIONS,
        **_named(str, "test"),
        "account": PageOption("acc", str),
    },
    "ROUTEZ": {**_SUBSCRIPTIONS, **_DETAIL},
    "GATEWAYZ": {
        "name": PageOption("gw_name", str),
        "accounts": PageOption("accs", bool),
        "account_name": PageOption("acc_name", str),
        **_SUBSCRIPTIONS,
        **_DETAIL,
    },
    "LEAFZ": {**_SUBSCRIPTIONS, "account": PageOption("acc", str)},
    "ACCOUNTZ": {"account": PageOption("acc", str)},
    "JSZ": {
        "account": PageOption("acc", str),
        **_named(bool, "accounts", "streams", "config", "raft"),
        "consumer": PageOption("consumers", bool),
        "direct_consumer": PageOption("direct-consumers", bool),
        "leader_only": PageOption("leader-only", bool),
        "stream_leader_only": PageOption("stream-leader-only", bool),
        **_PAGE,
    },
    "HEALTHZ": {
        **_named(bool, "js-enabled", "js-enabled-only", "js-server-only", "js-meta-only"),
        **_named(str, "account", "stream", "consumer"),
        **_named(bool, "details", "strict", "warnings"),
    },
    "PROFILEZ": {**_named(str, "name"), **_named(_INT, "debug")},
    "IPQUEUESZ": {**_named(bool, "all"), **_named(str, "filter")},
    "RAFTZ": _named(str, "account", "group"),
}


#: Of requests that are no pages.
_OTHERS: Mapping[str, Mapping[str, PageOption]] = {
    "ACCSTATZ": {**_named(list, "accounts"), **_named(bool, "include_unused")},
    "NSUBS": _named(str, "acc", "subject", "queue"),
    "KICK": _named(_UINT, "cid"),
    "LDM": _named(_UINT, "cid"),
}


class BadOptions(ValueError):
    """A request whose options cannot be read."""


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
        if any(demanded.lower() not in {tag.lower() for tag in tags} for demanded in wantedTags):
            return False
        return self.values.get("domain", "") in ("", domain)


@dataclass(frozen=True)
class SystemRequest:
    """A request with options by their wire keys, and the page's parameters for them."""

    options: Mapping[str, Any]
    servers: ServerFilter
    query: Query


def decodeRequest(kind: str, body: bytes) -> SystemRequest:
    """
    @param kind: the last token of the subject.
    @raise BadOptions: if it is not JSON, or a value has a wrong type.
    """
    known = OPTIONS.get(kind) or _OTHERS.get(kind, {})
    kinds = {**_FILTER, **{key: option.kind for key, option in known.items()}}
    values = _valuesOf(body, kinds) if body else {}
    query: dict[str, str] = {}
    for key, value in values.items():
        option = known.get(key)
        if option is not None and value:
            parameter, _, told = option.name.partition("=")
            query[parameter] = told or _text(option, value)
    return SystemRequest(values, ServerFilter(values), query)


def _valuesOf(body: bytes, kinds: Mapping[str, OptionKind]) -> dict[str, Any]:
    try:
        document = json.loads(whole(decoded(body)))
    except (ValueError, RecursionError) as error:
        raise BadOptions(f"the request is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadOptions("the request is not an object")
    values = {key.lower(): value for key, value in document.items() if value is not None}
    for key in kinds.keys() & values.keys():
        if not _fits(values[key], kinds[key]):
            raise BadOptions(f"the value of {key} has a wrong type or is out of range")
    return {key: values[key] for key in values if key in kinds}


def _fits(value: Any, kind: OptionKind) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    if isinstance(kind, range):
        return type(value) is int and value in kind
    return isinstance(value, kind)


def _text(option: PageOption, value: Any) -> str:
    if option.name == "state":
        return _STATES.get(value, "")
    return "1" if value is True else str(value)
