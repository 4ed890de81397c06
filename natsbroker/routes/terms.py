"""
The settings of a cluster as routes use them, and the INFO and CONNECT that follow from them.

Members of INFO and CONNECT have the names and the order of nats-server; C{natsbroker} is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from natsbroker import __version__
from natsbroker.accounts.tracing import TRACING_PROTOCOL
from natsbroker.auth.defaultauthorizer import patternsOf
from natsbroker.config.addresses import RemoteURL, joined
from natsbroker.config.model import Settings
from natsbroker.config.settings.authorization import SubjectPermission
from natsbroker.config.settings.listeners import advertised
from natsbroker.config.settings.routes import Cluster, splitRoute
from natsbroker.connections.hostaddresses import addressesOf
from natsbroker.links.hostcluster import HostCluster
from natsbroker.links.identity import LinkIdentity, LinkLogin, identityAt, loginFor, loginToSay
from natsbroker.links.interest import RoutePermissions
from natsbroker.links.settingsmapper import linkSettings
from natsbroker.routes.dialects import CLASSIC_TOO, RouteDialect
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.compression import NO_COMPRESSION, Compression
from natsbroker.wire.serverinfo import GossipMode

#: The key in INFO of the id that a member and its neighbours have towards clients.
HOST = "natsbroker_host"

#: The protocol level in our INFO: accounts on routes, and the tracing of messages.
_PROTO = TRACING_PROTOCOL

#: The same in the classic dialect: that a second INFO may follow the first.
_CLASSIC_PROTO = 1


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """
    @ivar host: for a neighbour the path of its socket.
    @ivar port: 0 for a neighbour.
    @ivar isConfigured: whether the settings name it; else another member announced it.
    @ivar name: the name in its certificate, if that is not the host.
    """

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    isConfigured: bool = True
    account: str = ""
    gossip: GossipMode = GossipMode.DEFAULT
    name: str = ""

    def forAccount(self, account: str) -> RouteTarget:
        """The INFO for a connection that is dedicated to an account."""
        return replace(self, account=account)

    @property
    def isNeighbour(self) -> bool:
        return not self.port and self.host.startswith("/")

    def __str__(self) -> str:
        return self.host if self.isNeighbour else joined(self.host, self.port)


@dataclass(frozen=True, slots=True)
class ClusterTerms:
    """
    @ivar isDynamic: the name was generated, and gives way to another.
    @ivar login: the login of members that dial us.
    @ivar user: the user for dialling, with C{password}.
    @ivar permissions: the permissions of routes.
    @ivar shownPermissions: the permissions in our INFO, under C{import} and C{export}.
    @ivar poolSize: how many connections to each member are shared among accounts; negative for one
        connection for everything.
    @ivar dedicated: accounts that have a connection of their own to each member.
    @ivar advertises: whether other members learn the addresses for our clients, and our clients
        those of others.
    """

    name: str
    isDynamic: bool = False
    login: LinkLogin = field(default_factory=LinkLogin)
    user: str = ""
    password: str = field(default="", repr=False)
    permissions: RoutePermissions = field(default_factory=RoutePermissions)
    shownPermissions: Mapping[str, Any] = field(default_factory=dict)
    poolSize: int = 3
    dedicated: tuple[str, ...] = ()
    targets: tuple[RouteTarget, ...] = ()
    advertises: bool = True
    headers: bool = True
    maxPayload: int = 1 << 20
    hasTLS: bool = False
    dialect: RouteDialect = RouteDialect.MODERN
    compression: Compression = NO_COMPRESSION

    def amongNeighbours(self) -> ClusterTerms:
        """
        The terms of routes that do not leave the machine: one route each, without restrictions.
        """
        return ClusterTerms(
            self.name,
            self.isDynamic,
            poolSize=-1,
            targets=self.targets,
            advertises=False,
            headers=self.headers,
            maxPayload=self.maxPayload,
        )


#: The cluster of neighbours that no settings name; no other server learns of it.
PRIVATE_CLUSTER = Cluster(name="neighbours", pool_size=-1, no_advertise=True)


def infoDocument(identity: LinkIdentity, terms: ClusterTerms, **connection: Any) -> dict[str, Any]:
    if terms.dialect is RouteDialect.CLASSIC:
        return _classicDocument(identity, terms, connection)
    return {
        **identity.head(_PROTO),
        "headers": terms.headers,
        "auth_required": bool(terms.login.user),
        "tls_required": terms.hasTLS,
        "tls_verify": terms.hasTLS,
        "max_payload": terms.maxPayload,
        "ip": identity.ip,
        "cluster": terms.name,
        "cluster_dynamic": terms.isDynamic,
        **terms.shownPermissions,
        "gateway_url": identity.gateway_url,
        "lnoc": True,
        "lnocu": True,
        "route_pool_size": max(terms.poolSize, 0),
        **connection,
        CLASSIC_TOO: terms.dialect is RouteDialect.AUTO,
        "natsbroker": __version__,
    }


def _classicDocument(
    identity: LinkIdentity, terms: ClusterTerms, connection: Mapping[str, Any]
) -> dict[str, Any]:
    """The INFO for links that only speak the classic dialect."""
    return {
        **identity.head(_CLASSIC_PROTO),
        "auth_required": bool(terms.login.user),
        "ssl_required": terms.hasTLS,
        "tls_required": terms.hasTLS,
        "tls_verify": terms.hasTLS,
        "max_payload": terms.maxPayload,
        "ip": identity.ip,
        **terms.shownPermissions,
        **{name: connection[name] for name in _CLASSIC_CONNECTION if name in connection},
        "natsbroker": __version__,
    }


#: The keys that belong to the connection in an INFO of the classic dialect.
_CLASSIC_CONNECTION = ("connect_urls", "ldm", "gossip_mode")


def connectOptions(
    identity: LinkIdentity, terms: ClusterTerms, target: RouteTarget
) -> dict[str, Any]:
    login = {
        "echo": True,
        "verbose": False,
        "pedantic": False,
        "user": target.user,
        "pass": target.password,
        "tls_required": terms.hasTLS,
    }
    if terms.dialect is RouteDialect.CLASSIC:
        return {**login, "name": identity.server_id}
    return {
        **login,
        "headers": terms.headers,
        "name": identity.server_id,
        "cluster": terms.name,
        "cluster_dynamic": terms.isDynamic,
        "lnoc": True,
    }


#: The longest that a route is silent before it is sent a PING, in seconds.
_LONGEST_SILENCE = 30.0


def termsFrom(
    settings: Settings, cluster: Cluster, name: str, hostCluster: HostCluster | None = None
) -> ClusterTerms:
    """
    @param name: of the cluster, where the settings name none.
    """
    near = () if hostCluster is None else hostCluster.lower()
    permissions, shown = _permissions(cluster)
    places = [splitRoute(url) for url in cluster.routes]
    user, password = loginToSay(cluster.user, cluster.password, places)
    # In the classic dialect there is one connection to each member, which is not compressed.
    isClassic = cluster.dialect == "classic"
    poolSize = -1 if isClassic else cluster.pool_size
    return ClusterTerms(
        name=cluster.name or name,
        isDynamic=not cluster.name,
        login=loginFor(cluster, places),
        user=user,
        password=password,
        permissions=permissions,
        shownPermissions=shown,
        poolSize=poolSize,
        dedicated=_dedicated(settings, cluster) if poolSize > 0 else (),
        targets=(
            *(_targetFrom(place, user, password) for place in places),
            *(RouteTarget(path, 0) for path in near),
        ),
        advertises=not cluster.no_advertise,
        headers=not settings.no_header_support,
        maxPayload=settings.max_payload,
        hasTLS=cluster.tls is not None,
        dialect=RouteDialect(cluster.dialect),
        compression=NO_COMPRESSION if isClassic else cluster.compression,
    )


def _dedicated(settings: Settings, cluster: Cluster) -> tuple[str, ...]:
    """The accounts with dedicated connections. With a pool, the system account is one."""
    names = dict.fromkeys(cluster.accounts)
    if not settings.no_system_account:
        names[settings.system_account] = None
    return tuple(names)


def _targetFrom(place: RemoteURL, user: str, password: str) -> RouteTarget:
    """
    @param user: as C{password}, for a URL without a login.
    """
    if place.user:
        user, password = place.user, place.password or ""
    return RouteTarget(place.host, place.port, user, password)


def _permissions(cluster: Cluster) -> tuple[RoutePermissions, dict[str, Any]]:
    permissions = cluster.permissions
    if permissions is None:
        return RoutePermissions(), {}
    imports, exports = permissions.publish, permissions.subscribe
    shown = {"import": imports, "export": exports}
    return (
        RoutePermissions(
            None if imports is None else PermissionSet(*patternsOf(imports)),
            None if exports is None else SubscribePermissions(*patternsOf(exports)),
        ),
        {name: _shown(permission) for name, permission in shown.items() if permission is not None},
    )


def _shown(permission: SubjectPermission) -> dict[str, list[str]]:
    lists = {"allow": list(permission.allow or ()), "deny": list(permission.deny)}
    return {name: patterns for name, patterns in lists.items() if patterns}


def identityFrom(
    settings: Settings,
    cluster: Cluster,
    serverId: str,
    port: int,
    hostCluster: HostCluster | None = None,
) -> LinkIdentity:
    """
    A neighbour names its address itself: to neighbours, who tell other members of it, it has none.
    """
    host, ip = cluster.host, ""
    if hostCluster is not None:
        settings = replace(settings, server_name=hostCluster.memberName(settings.server_name))
    if cluster.advertise:
        host, port = advertised(cluster.advertise, port)
    elif hostCluster is not None:
        host = addressesOf(host)[0]
    if port and (cluster.advertise or hostCluster is not None):
        ip = f"nats-route://{joined(host, port)}/"
    return identityAt(settings, serverId, host, port, ip)


def routeSettings(settings: Settings, cluster: Cluster) -> Settings:
    return replace(
        linkSettings(settings, cluster),
        ping_interval=min(cluster.ping_interval or settings.ping_interval, _LONGEST_SILENCE),
        ping_max=cluster.ping_max or settings.ping_max,
    )
