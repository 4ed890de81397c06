"""
The table of keys: the root, and the blocks of users and accounts.

The names and spellings are those that nats-server 2.15 reads in C{server/opts.go}, and a
few of our own: C{router}, C{plugins}, C{services}, C{streaming}, C{fast_lane},
C{log_format}, C{max_subject_shapes}, C{workers}, C{insecure_monitor}, C{monitor_origins} and
C{authorization.plugin}.

A new key is a row here, a field of its frozen block, and the code that uses it. The row has the
spellings, the types, the range, the field where that has another name, and what a reload may do;
the field has the default. Sessions and links hold the frozen blocks themselves. For the reference
manual, C{python -m tests.reference} writes the row; its sentence is written there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import cache

from natsbroker.config.addresses import syslogURL, unspaced
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
    PROXIES,
    RESOLVER,
    STREAMING,
    TRACE,
    WEBSOCKET,
)
from natsbroker.config.keys.types import (
    ADDRESS,
    ANY_MAP,
    BOOLEAN,
    DURATION,
    ENABLED,
    INTEGER,
    LIST,
    LOGIN,
    NATURAL,
    NATURAL_TIME,
    PERMISSIONS,
    PROXY_REQUIRED,
    SECRET,
    SINGLE_LOGIN,
    STRING,
    STRINGS,
    TLS_KEY,
    WAIT,
    WORKERS,
    WRITING,
    BlockSchema,
    Key,
    ListType,
    MapType,
    arrayOf,
    filled,
    natural,
    sizeOf32Bits,
    unsigned,
)
from natsbroker.config.model import logFormat
from natsbroker.config.settings.authorization import UNLIMITED
from natsbroker.wire.durations import durationText

USER = BlockSchema(
    "authorization.users[]",
    **LOGIN,
    nkey=SECRET,
    permissions=Key(PERMISSIONS, aliases="permission authorization"),
    allowed_connection_types=Key(STRING, STRINGS, aliases="connection_types clients"),
    proxy_required=PROXY_REQUIRED,
)
_USERS = Key(arrayOf(USER))

AUTHORIZATION = BlockSchema(
    "authorization",
    "plugin",
    **SINGLE_LOGIN,
    token=Key(STRING, check=filled, isSecret=True),
    timeout=Key(*WAIT.types, check=unsigned),
    users=_USERS,
    default_permissions=Key(PERMISSIONS, aliases="default_permission permissions"),
    auth_callout=Key(AUTH_CALLOUT, aliases="auth_hook"),
    proxy_required=PROXY_REQUIRED,
    plugin=Key(STRING),
)


def _limit(value: int) -> int:
    if value < UNLIMITED:
        raise ValueError(f"{value} is less than {UNLIMITED}, which means no limit")
    return value


LIMITS = BlockSchema(
    "accounts.*.limits",
    max_connections=Key(INTEGER, aliases="max_conn", check=_limit),
    max_subscriptions=Key(INTEGER, aliases="max_subs", check=_limit),
    max_payload=Key(INTEGER, aliases="max_pay", check=_limit),
    max_leafnodes=Key(INTEGER, aliases="max_leafs", check=_limit),
)

ACCOUNT = BlockSchema(
    "accounts.*",
    users=_USERS,
    limits=Key(LIMITS),
    default_permissions=Key(PERMISSIONS),
    nkey=SECRET,
    imports=IMPORTS,
    exports=EXPORTS,
    mappings=MAPPINGS,
    jetstream=Key(BOOLEAN, ENABLED, ACCOUNT_JETSTREAM),
    msg_trace=Key(STRING, TRACE, aliases="trace_dest"),
)

ROUTER = BlockSchema("router", "plugin", plugin=Key(STRING))


def _tokens(number: int) -> int:
    if number > 255:
        raise ValueError("value is too big")
    if number <= 0:
        raise ValueError("value can not be negative")
    return number


def _lameDuckDuration(seconds: float) -> float:
    if seconds < 30.0:
        shown = durationText(seconds)
        raise ValueError(f"invalid lame_duck_duration of {shown}, minimum is 30 seconds")
    return seconds


def _gracePeriod(seconds: float) -> float:
    if seconds < 0:
        raise ValueError("invalid lame_duck_grace_period, needs to be positive")
    return seconds


def origins(given: str | list[str]) -> list[str]:
    """Check origins of web pages, as a browser sends them."""
    checked = [given] if isinstance(given, str) else given
    for origin in checked:
        if origin != "*" and re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+", origin) is None:
            raise ValueError(f'"{origin}" is not an origin such as "https://example.com", or "*"')
    return checked


def basePath(path: str) -> str:
    return "/" + posixpath.normpath("/" + path).lstrip("/")


ROOT = BlockSchema(
    "top level",
    server_name=Key(STRING, check=unspaced, restart="ServerName"),
    listen=Key(ADDRESS),
    host=Key(STRING, aliases="net", restart="Host"),
    port=Key(INTEGER, restart="Port"),
    client_advertise=Key(STRING),
    tls=TLS_KEY,
    allow_non_tls=Key(BOOLEAN, restart="AllowNonTLS"),
    no_header_support=Key(BOOLEAN, restart="NoHeaderSupport"),
    disable_sublist_cache=Key(BOOLEAN, aliases="no_sublist_cache", restart="NoSublistCache"),
    no_fast_producer_stall=Key(BOOLEAN),
    proxy_protocol=Key(BOOLEAN, restart="ProxyProtocol"),
    server_tags=Key(*LIST.types),
    server_metadata=Key(MapType(Key(STRING), name="a map of strings")),
    feature_flags=Key(MapType(Key(BOOLEAN), name="a map of booleans")),
    max_connections=Key(
        INTEGER, aliases="max_conn", check=lambda value: value if value > 0 else -1
    ),
    max_subscriptions=Key(INTEGER, aliases="max_subs", check=lambda value: max(value, 0)),
    max_sub_tokens=Key(INTEGER, aliases="max_subscription_tokens", check=_tokens),
    max_control_line=Key(INTEGER, check=sizeOf32Bits),
    max_payload=Key(INTEGER, check=sizeOf32Bits),
    max_pending=NATURAL,
    max_closed_clients=Key(INTEGER, check=natural, restart="MaxClosedClients"),
    ping_interval=NATURAL_TIME,
    ping_max=NATURAL,
    **WRITING,
    lame_duck_duration=Key(DURATION, check=_lameDuckDuration),
    lame_duck_grace_period=Key(DURATION, check=_gracePeriod),
    connect_error_reports=NATURAL,
    reconnect_error_reports=NATURAL,
    max_subject_shapes=Key(INTEGER, check=natural, restart="MaxSubjectShapes"),
    workers=Key(WORKERS, restart="Workers"),
    debug=Key(BOOLEAN),
    trace=Key(BOOLEAN),
    trace_verbose=Key(BOOLEAN),
    trace_headers=Key(BOOLEAN),
    logtime=Key(BOOLEAN),
    logtime_utc=Key(BOOLEAN),
    logfile=Key(STRING, aliases="log_file"),
    logfile_size_limit=Key(INTEGER, aliases="log_size_limit", check=natural),
    logfile_max_num=Key(INTEGER, aliases="log_max_num", check=natural),
    max_traced_msg_len=NATURAL,
    log_format=Key(STRING, check=logFormat),
    syslog=Key(BOOLEAN),
    remote_syslog=Key(STRING, check=syslogURL),
    pidfile=Key(STRING, aliases="pid_file"),
    ports_file_dir=Key(STRING),
    prof_port=Key(INTEGER),
    prof_block_rate=Key(INTEGER),
    http=Key(ADDRESS, restart="HTTPHost", field="monitoring.http_host"),
    https=Key(ADDRESS),
    http_port=Key(
        INTEGER, aliases="monitor_port", restart="HTTPPort", field="monitoring.http_port"
    ),
    https_port=Key(INTEGER, restart="HTTPSPort", field="monitoring.https_port"),
    http_base_path=Key(
        STRING, check=basePath, restart="HTTPBasePath", field="monitoring.http_base_path"
    ),
    insecure_monitor=Key(BOOLEAN, restart="InsecureMonitor", field="monitoring.insecure_monitor"),
    monitor_origins=Key(*LIST.types, check=origins, field="monitoring.monitor_origins"),
    fast_lane=Key(BOOLEAN, restart="FastLane"),
    authorization=Key(AUTHORIZATION),
    no_auth_user=Key(STRING),
    accounts=Key(MapType(Key(ACCOUNT), variables=True), STRINGS),
    mappings=MAPPINGS,
    system_account=Key(STRING, aliases="system", restart="SystemAccount"),
    no_system_account=Key(BOOLEAN, aliases="no_system no_sys_acc", restart="NoSystemAccount"),
    proxies=Key(PROXIES),
    operator=Key(
        STRING,
        STRINGS,
        aliases="operators roots root root_operators root_operator",
        restart="TrustedOperators",
        field="operator.operators",
    ),
    trusted_keys=Key(
        *LIST.types, aliases="trusted", restart="TrustedKeys", field="operator.trusted_keys"
    ),
    resolver=Key(
        STRING,
        RESOLVER,
        aliases="account_resolver accounts_resolver",
        restart="AccountResolver",
        field="operator.resolver",
    ),
    resolver_tls=Key(
        *TLS_KEY.types, restart="AccountResolverTLSConfig", field="operator.resolver_tls"
    ),
    resolver_preload=Key(MapType(Key(STRING), name="a map of strings"), isSecret=True),
    resolver_pinned_accounts=Key(
        *LIST.types, restart="ResolverPinnedAccounts", field="operator.resolver_pinned_accounts"
    ),
    default_sentinel=Key(STRING),
    ocsp=Key(BOOLEAN, OCSP),
    ocsp_cache=Key(BOOLEAN, OCSP_CACHE, restart="OCSPCacheConfig"),
    router=Key(ROUTER, restart="Router"),
    plugins=Key(MapType(Key(ANY_MAP), name="a map of maps")),
    services=Key(MapType(Key(ANY_MAP), name="a map of maps")),
    cluster=Key(CLUSTER),
    gateway=Key(GATEWAY),
    leafnodes=Key(LEAFNODES, aliases="leaf"),
    jetstream=Key(BOOLEAN, ENABLED, JETSTREAM),
    store_dir=Key(STRING, aliases="storedir", field="jetstream.store_dir"),
    default_js_domain=Key(
        MapType(Key(STRING), name="a map of strings"), field="jetstream.default_domains"
    ),
    streaming=Key(STREAMING, restart="Streaming"),
    websocket=Key(WEBSOCKET, aliases="ws"),
    mqtt=Key(MQTT),
)


def everySection(start: BlockSchema = ROOT) -> Iterator[BlockSchema]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        section = waiting.pop(0)
        if section.title in seen:
            continue
        seen.add(section.title)
        yield section
        for key in section.keys.values():
            waiting.extend(_sectionsOf(key))


def _sectionsOf(key: Key) -> Iterator[BlockSchema]:
    for kind in key.types:
        if isinstance(kind, BlockSchema):
            yield kind
        elif isinstance(kind, (ListType, MapType)):
            yield from _sectionsOf(kind.item)


def keyAt(path: str) -> Key:
    *blocks, name = path.split(".")
    section = ROOT
    for title in blocks:
        section = next(_sectionsOf(section.keys[title]), BlockSchema(""))
    return section.keys[name]


@cache
def restarts() -> Mapping[str, str]:
    """
    @return: nats-server's names of the options that a reload cannot change, by their dotted
        attribute of the settings. One covers everything below it.
    """
    restartsByField: dict[str, str] = {}
    for section in everySection():
        above = "" if section is ROOT else f"{section.title}."
        for name, key in section.keys.items():
            if key.restart:
                restartsByField[key.field or f"{above}{name}"] = key.restart
    return restartsByField


@cache
def secrets() -> frozenset[str]:
    return frozenset(
        name for section in everySection() for name, key in section.keys.items() if key.isSecret
    )
