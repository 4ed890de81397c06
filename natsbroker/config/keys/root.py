"""
Every key of a configuration file: the root and the blocks that the broker reads today.

This module promises a table; it decides nothing.  It must never know what a key does.
The keys of features that are still to come stand in C{schema_links} and
C{schema_services}; L{natsbroker.config.unsupported} says which those are.

The names and spellings are those that nats-server 2.15 reads in C{server/opts.go}, and a
few of our own: C{router}, C{plugins}, C{services}, C{streaming}, C{fast_lane},
C{max_subject_shapes}, C{insecure_monitor} and C{authorization.plugin}.
"""

from __future__ import annotations

from collections.abc import Iterator

from natsbroker.config.keys.links import CLUSTER, GATEWAY, LEAFNODES
from natsbroker.config.keys.services import (
    ACCOUNT_JETSTREAM,
    AUTH_CALLOUT,
    EXPORTS,
    IMPORTS,
    JETSTREAM,
    MAPPINGS,
    MQTT,
    OCSP,
    OCSP_CACHE,
    OPERATORS,
    PROXIES,
    RESOLVER,
    TRACE,
    TRUSTED_KEYS,
    WEBSOCKET,
)
from natsbroker.config.keys.shared import (
    COUNT,
    FLAG,
    LIST,
    LOGIN,
    PERMISSIONS,
    STRINGS,
    TEXT,
    TIME,
    TLS_KEY,
    UNCHECKED,
    WAIT,
    WRITING,
)
from natsbroker.config.keys.streaming import STREAMING
from natsbroker.config.keys.types import (
    ADDRESS,
    BOOLEAN,
    DURATION,
    ENABLED,
    INTEGER,
    STRING,
    AnyType,
    BlockType,
    Key,
    ListType,
    MapType,
    Section,
    ValueType,
)

__all__ = ["ACCOUNT", "AUTHORIZATION", "LIMITS", "ROOT", "USER", "everySection"]

USER = Section(
    "authorization.users[]",
    {
        **LOGIN,
        "nkey": TEXT,
        "permissions": Key(BlockType(PERMISSIONS), aliases="permission authorization"),
        "allowed_connection_types": Key(STRING, STRINGS, aliases="connection_types clients"),
        "proxy_required": FLAG,
    },
)
_USERS = Key(ListType(Key(BlockType(USER)), "an array of maps"))

AUTHORIZATION = Section(
    "authorization",
    {
        **LOGIN,
        "token": TEXT,
        "timeout": WAIT,
        "users": _USERS,
        "default_permissions": Key(
            BlockType(PERMISSIONS), aliases="default_permission permissions"
        ),
        "auth_callout": Key(BlockType(AUTH_CALLOUT), aliases="auth_hook"),
        "proxy_required": FLAG,
        "plugin": TEXT,
    },
    opener="plugin",
)

LIMITS = Section(
    "accounts.*.limits",
    {
        "max_connections": Key(INTEGER, aliases="max_conn"),
        "max_subscriptions": Key(INTEGER, aliases="max_subs"),
        "max_payload": Key(INTEGER, aliases="max_pay"),
        "max_leafnodes": Key(INTEGER, aliases="max_leafs"),
    },
)

ACCOUNT = Section(
    "accounts.*",
    {
        "users": _USERS,
        "limits": Key(BlockType(LIMITS)),
        "default_permissions": Key(BlockType(PERMISSIONS)),
        "nkey": TEXT,
        "imports": IMPORTS,
        "exports": EXPORTS,
        "mappings": MAPPINGS,
        "jetstream": Key(BOOLEAN, ENABLED, BlockType(ACCOUNT_JETSTREAM)),
        "msg_trace": Key(STRING, BlockType(TRACE), aliases="trace_dest"),
    },
)

ROUTER = Section("router", {"plugin": TEXT}, opener="plugin")

_CLIENTS: dict[str, Key] = {
    "server_name": TEXT,
    "listen": Key(ADDRESS),
    "host": Key(STRING, aliases="net"),
    "port": COUNT,
    "client_advertise": TEXT,
    "tls": TLS_KEY,
    "allow_non_tls": FLAG,
    "no_header_support": FLAG,
    "disable_sublist_cache": Key(BOOLEAN, aliases="no_sublist_cache"),
    "no_fast_producer_stall": FLAG,
    "proxy_protocol": FLAG,
    "server_tags": LIST,
    "server_metadata": Key(MapType(TEXT, name="a map of strings")),
    "feature_flags": Key(MapType(FLAG, name="a map of booleans")),
}

_LIMITS: dict[str, Key] = {
    "max_connections": Key(INTEGER, aliases="max_conn"),
    "max_subscriptions": Key(INTEGER, aliases="max_subs"),
    "max_sub_tokens": Key(INTEGER, aliases="max_subscription_tokens"),
    "max_control_line": COUNT,
    "max_payload": COUNT,
    "max_pending": COUNT,
    "max_closed_clients": COUNT,
    "ping_interval": TIME,
    "ping_max": COUNT,
    **WRITING,
    "lame_duck_duration": Key(DURATION),
    "lame_duck_grace_period": Key(DURATION),
    "connect_error_reports": COUNT,
    "reconnect_error_reports": COUNT,
    "max_subject_shapes": COUNT,
}

_OPERATION: dict[str, Key] = {
    "debug": FLAG,
    "trace": FLAG,
    "trace_verbose": FLAG,
    "trace_headers": FLAG,
    "logtime": FLAG,
    "logtime_utc": FLAG,
    "logfile": Key(STRING, aliases="log_file"),
    "logfile_size_limit": Key(INTEGER, aliases="log_size_limit"),
    "logfile_max_num": Key(INTEGER, aliases="log_max_num"),
    "max_traced_msg_len": COUNT,
    "syslog": FLAG,
    "remote_syslog": TEXT,
    "pidfile": Key(STRING, aliases="pid_file"),
    "ports_file_dir": TEXT,
    "prof_port": COUNT,
    "prof_block_rate": COUNT,
    "http": Key(ADDRESS),
    "https": Key(ADDRESS),
    "http_port": Key(INTEGER, aliases="monitor_port"),
    "https_port": COUNT,
    "http_base_path": TEXT,
    "insecure_monitor": FLAG,
    "fast_lane": FLAG,
}

_ACCESS: dict[str, Key] = {
    "authorization": Key(BlockType(AUTHORIZATION)),
    "no_auth_user": TEXT,
    "accounts": Key(MapType(Key(BlockType(ACCOUNT)), variables=True), STRINGS),
    "mappings": MAPPINGS,
    "system_account": Key(STRING, aliases="system"),
    "no_system_account": Key(BOOLEAN, aliases="no_system no_sys_acc"),
    "proxies": Key(BlockType(PROXIES)),
    "operator": OPERATORS,
    "trusted_keys": TRUSTED_KEYS,
    "resolver": Key(STRING, BlockType(RESOLVER), aliases="account_resolver accounts_resolver"),
    "resolver_tls": TLS_KEY,
    "resolver_preload": Key(MapType(TEXT, name="a map of strings")),
    "resolver_pinned_accounts": LIST,
    "default_sentinel": TEXT,
    "ocsp": Key(BOOLEAN, BlockType(OCSP)),
    "ocsp_cache": Key(BOOLEAN, BlockType(OCSP_CACHE)),
}

_SERVICES: dict[str, Key] = {
    "router": Key(BlockType(ROUTER)),
    "plugins": Key(MapType(Key(UNCHECKED), name="a map of maps")),
    "services": Key(MapType(Key(UNCHECKED), name="a map of maps")),
    "cluster": Key(BlockType(CLUSTER)),
    "gateway": Key(BlockType(GATEWAY)),
    "leafnodes": Key(BlockType(LEAFNODES), aliases="leaf"),
    "jetstream": Key(BOOLEAN, ENABLED, BlockType(JETSTREAM)),
    "store_dir": Key(STRING, aliases="storedir"),
    "default_js_domain": Key(MapType(TEXT, name="a map of strings")),
    "streaming": Key(BlockType(STREAMING)),
    "websocket": Key(BlockType(WEBSOCKET), aliases="ws"),
    "mqtt": Key(BlockType(MQTT)),
}

ROOT = Section("top level", {**_CLIENTS, **_LIMITS, **_OPERATION, **_ACCESS, **_SERVICES})


def everySection(start: Section = ROOT) -> Iterator[Section]:
    """
    Yield a section and every section below it, each once, in the order of the tables.
    """
    seen: list[Section] = []
    waiting = [start]
    while waiting:
        section = waiting.pop(0)
        if any(section is other for other in seen):
            continue
        seen.append(section)
        yield section
        for key in section.keys.values():
            waiting.extend(_below(key))


def _below(key: Key) -> Iterator[Section]:
    for kind in key.types:
        yield from _within(kind)


def _within(kind: AnyType) -> Iterator[Section]:
    if isinstance(kind, ValueType):
        return
    if isinstance(kind, BlockType):
        yield kind.section
    else:
        yield from _below(kind.item)
