"""
The settings of a broker as frozen values, with the names of the configuration file.
docs/reference/configuration.md has the meaning of each key.

Durations are floats in seconds, sizes are ints in bytes, and a port of C{-1} asks for a random
one. The defaults are those of nats-server 2.15 (C{server/const.go} and what C{/varz} of a server
without a configuration shows), except the monitoring host of settings that no file was read for,
which is loopback.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from natsbroker.config.addresses import isLoopback
from natsbroker.config.ocsp import OCSP, OCSPCache
from natsbroker.config.settings.authorization import (
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    AccountLimits,
    AccountSettings,
    AuthCallout,
    AuthorizationSettings,
    Permissions,
    SubjectPermission,
    User,
)
from natsbroker.config.settings.operator import OperatorMode, Resolver
from natsbroker.config.tls import TLSSettings
from natsbroker.subjects.permissions import ResponsePermission

if TYPE_CHECKING:
    from natsbroker.config.settings.accounts import SubjectMapping
    from natsbroker.config.settings.gateways import Gateway, InterestPolicy, RemoteGateway
    from natsbroker.config.settings.leafnodes import Leafnodes
    from natsbroker.config.settings.mqtt import MQTT
    from natsbroker.config.settings.routes import Cluster
    from natsbroker.config.settings.streaming import Streaming
    from natsbroker.config.settings.websocket import Websocket

__all__ = [
    "DEFAULT_PORT",
    "GLOBAL_ACCOUNT",
    "MQTT",
    "RANDOM_PORT",
    "SYSTEM_ACCOUNT",
    "AccountLimits",
    "AccountSettings",
    "AuthCallout",
    "AuthorizationSettings",
    "Cluster",
    "Gateway",
    "InterestPolicy",
    "JetStream",
    "Leafnodes",
    "Logging",
    "Monitoring",
    "OperatorMode",
    "Permissions",
    "RemoteGateway",
    "Resolver",
    "ResponsePermission",
    "RouterSettings",
    "Settings",
    "Streaming",
    "SubjectPermission",
    "TLSSettings",
    "User",
    "Websocket",
    "changed",
]

_Frozen = TypeVar("_Frozen")

DEFAULT_PORT = 4222
RANDOM_PORT = -1

LOCAL_SYSLOG = "local"
"""Stands for the syslog daemon of the machine, in place of a URL."""

_LOADED_LATE = {
    "Cluster": "routes",
    "Gateway": "gateways",
    "InterestPolicy": "gateways",
    "Leafnodes": "leafnodes",
    "MQTT": "mqtt",
    "RemoteGateway": "gateways",
    "Streaming": "streaming",
    "Websocket": "websocket",
}
"""The blocks that few configurations have, and the module of each: it loads with its first use,
since defining a frozen class costs a start half a millisecond."""


def __getattr__(name: str) -> Any:
    if name in _LOADED_LATE:
        return getattr(import_module(f"natsbroker.config.settings.{_LOADED_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


LOG_FORMATS = ("text", "json")


def logFormat(name: str) -> str:
    if name not in LOG_FORMATS:
        raise ValueError(f"must be {' or '.join(LOG_FORMATS)}")
    return name


@dataclass(frozen=True, slots=True)
class Logging:
    debug: bool = False
    trace: bool = False
    trace_verbose: bool = False
    trace_headers: bool = False
    log_format: str = "text"
    logtime: bool = True
    logtime_utc: bool = False
    logfile: str = ""
    logfile_size_limit: int = 0
    logfile_max_num: int = 0
    syslog: bool = False
    remote_syslog: str = ""
    max_traced_msg_len: int = 0

    @property
    def isTraced(self) -> bool:
        return self.trace or self.trace_verbose

    @property
    def collector(self) -> str:
        """
        The URL of the syslog daemon that takes the log; empty for none. A log file takes precedence
        over it, and a remote daemon over the local one, as with nats-server.
        """
        if self.logfile:
            return ""
        return self.remote_syslog or (LOCAL_SYSLOG if self.syslog else "")


@dataclass(frozen=True, slots=True)
class Monitoring:
    """
    @ivar insecure_monitor: whether other machines may reach the pages; C{None} warns of it.
    @ivar monitor_origins: of web pages that may read them; C{*} stands for all.
    """

    http_host: str = "127.0.0.1"
    http_port: int = 0
    https_port: int = 0
    http_base_path: str = "/"
    insecure_monitor: bool | None = None
    monitor_origins: tuple[str, ...] = ()

    @property
    def isReached(self) -> bool:
        """Whether pages are where other machines may reach them."""
        return bool(self.http_port or self.https_port) and not isLoopback(self.http_host)

    def portProblem(self, hasTLS: bool) -> str:
        """
        The reason why pages cannot be served; empty if they can. nats-server finds it at its start.
        """
        if self.http_port and self.https_port:
            return f"can't specify both HTTP ({self.http_port}) and HTTPs ({self.https_port}) ports"
        return "TLS cert and key required for HTTPS" if self.https_port and not hasTLS else ""


@dataclass(frozen=True, slots=True)
class JetStream:
    """
    The C{jetstream} block. Without JetStream of its own the broker passes requests to nats-servers
    in the same cluster, or beyond gateways and leafnodes.

    @ivar sync_interval: seconds; 0 for C{always}.
    @ivar default_domains: by account: the domain behind a leafnode that answers requests without a
        domain. An empty domain lets the requests of both sides pass.
    @ivar encryption_key: empty for streams in files that are not encrypted.
    @ivar unique_tag: has no effect: brokers place no replicas.
    """

    enabled: bool = False
    store_dir: str = ""
    backend: str = "lmdb"
    backend_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    max_memory_store: int = -1
    max_file_store: int = -1
    sync_interval: float = 0.0
    encryption_key: str = field(default="", repr=False)
    prev_encryption_key: str = field(default="", repr=False)
    cipher: str = "chacha"
    unique_tag: str = ""
    strict: bool = True
    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window: float = 0.0
    default_max_consumers: int = 0
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: float = 0.0
    domain: str = ""
    will_extend: bool = False
    default_domains: Mapping[str, str] = field(default_factory=dict)

    @property
    def isSet(self) -> bool:
        return self != JetStream()

    @property
    def isTemporary(self) -> bool:
        """
        Whether streams in files are in the folder for temporary files, because no other is named.
        """
        isNamed = self.store_dir or self.backend_options.get("dir")
        return self.enabled and self.backend == "lmdb" and not isNamed


@dataclass(frozen=True, slots=True)
class RouterSettings:
    plugin: str = ""
    options: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """
    @ivar proxies: the public keys of those that are trusted.
    @ivar feature_flags: have no effect, as C{prof_port}.
    @ivar accounts: by name; the global and the system account are there when configured.
    @ivar operator: operator mode, in which users have JWTs and operators issue accounts.
    @ivar workers: processes that are this server together; negative for one on each core.
    @ivar deferred: checked values of top-level keys whose feature is not built yet.
    @ivar places: C{file:line:column} of each key by its dotted path; not compared.
    """

    server_name: str = ""
    host: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    client_advertise: str = ""
    max_connections: int = 65536
    max_subscriptions: int = 0
    max_sub_tokens: int = 0
    max_control_line: int = 4096
    max_payload: int = 1048576
    max_pending: int = 67108864
    max_closed_clients: int = 10000
    ping_interval: float = 120.0
    ping_max: int = 2
    write_deadline: float = 10.0
    lame_duck_duration: float = 120.0
    lame_duck_grace_period: float = 10.0
    no_header_support: bool = False
    no_fast_producer_stall: bool = False
    disable_sublist_cache: bool = False
    connect_error_reports: int = 3600
    reconnect_error_reports: int = 1
    server_tags: tuple[str, ...] = ()
    server_metadata: Mapping[str, str] = field(default_factory=dict)
    ocsp: OCSP = field(default_factory=OCSP)
    ocsp_cache: OCSPCache = field(default_factory=OCSPCache)
    proxy_protocol: bool = False
    proxies: tuple[str, ...] = ()
    feature_flags: Mapping[str, bool] = field(default_factory=dict)
    prof_port: int = 0
    pidfile: str = ""
    ports_file_dir: str = ""
    logging: Logging = field(default_factory=Logging)
    monitoring: Monitoring = field(default_factory=Monitoring)
    tls: TLSSettings | None = None
    allow_non_tls: bool = False
    authorization: AuthorizationSettings = field(default_factory=AuthorizationSettings)
    no_auth_user: str = ""
    accounts: Mapping[str, AccountSettings] = field(default_factory=dict)
    mappings: tuple[SubjectMapping, ...] = ()
    system_account: str = SYSTEM_ACCOUNT
    no_system_account: bool = False
    operator: OperatorMode = field(default_factory=OperatorMode)
    router: RouterSettings = field(default_factory=RouterSettings)
    plugins: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    services: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    streaming: Streaming | None = None
    cluster: Cluster | None = None
    gateway: Gateway | None = None
    leafnodes: Leafnodes | None = None
    websocket: Websocket | None = None
    mqtt: MQTT | None = None
    jetstream: JetStream = field(default_factory=JetStream)
    fast_lane: bool = True
    max_subject_shapes: int = 1024
    workers: int = 1
    deferred: Mapping[str, object] = field(default_factory=dict, repr=False)
    config_file: str = field(default="", compare=False)
    config_digest: str = field(default="", compare=False)
    places: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def clusterName(self) -> str:
        """
        The name of the cluster, or of the gateway where there is no cluster, as in nats-server;
        empty if neither is configured, or the members agree on one.
        """
        if self.cluster is not None:
            return self.cluster.name
        return "" if self.gateway is None else self.gateway.name

    @property
    def isMember(self) -> bool:
        return self.cluster is not None and bool(self.cluster.isOn)

    @property
    def usesTLS(self) -> bool:
        blocks: list[Any] = [self, self.cluster, self.gateway, self.leafnodes]
        blocks += [self.websocket, self.mqtt]
        blocks += getattr(self.gateway, "gateways", ())
        blocks += getattr(self.leafnodes, "remotes", ())
        return any(block is not None and block.tls is not None for block in blocks)

    @property
    def isOpenBesideSystem(self) -> bool:
        """
        Whether only the system account has users, and nothing says who everybody else is: they are
        guests of the global account, as in nats-server. An C{authorization} block, even an empty
        one, closes the broker to them (CVE-2023-47090).
        """
        authorization = self.authorization
        isSaid = authorization.defined or authorization.token or self.no_auth_user
        if (
            isSaid
            or self.operator.isOn
            or not self.accounts.keys()
            <= {
                self.system_account,
                GLOBAL_ACCOUNT,
            }
        ):
            return False
        return {user.account for user in self.users()} == {self.system_account}

    def at(self, key: str) -> str:
        """A key behind its place in the file; the key alone if it is not in a file."""
        place = self.places.get(key)
        return f"{place}: {key}" if place else key

    def placed(self, key: str, text: str) -> str:
        """An error behind the place of its key in the file; unchanged if the key has no place."""
        return f"{self.at(key)}: {text}" if key in self.places else text

    def users(self) -> Iterator[User]:
        yield from self.authorization.users
        for account in self.accounts.values():
            yield from account.users


def changed(settings: _Frozen, path: str, value: object) -> _Frozen:
    """
    @param path: the dotted attribute that is to change; a block that is not there is made.
    """
    name, _, below = path.partition(".")
    frozen: Any = settings
    if below:
        inner = frozen[name] if isinstance(frozen, Mapping) else getattr(frozen, name)
        if inner is None:
            inner = getattr(sys.modules[__name__], name.capitalize())()
        value = changed(inner, below, value)
    made: Any
    if isinstance(frozen, Mapping):
        made = {**frozen, name: value}
    else:
        made = replace(frozen, **{name: value})
    return cast(_Frozen, made)
