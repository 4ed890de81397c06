"""
The terms, identity and limits of routes, made from the settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from natsbroker.auth.settings import SubjectPermission
from natsbroker.clients.listener import joined
from natsbroker.config.model import Settings
from natsbroker.links.compression import NO_COMPRESSION, Compression
from natsbroker.links.context import LinkLimits
from natsbroker.links.settings import advertised
from natsbroker.links.settingsmapper import (
    identityAt,
    limitsOf,
)
from natsbroker.routes.dialects import RouteDialect
from natsbroker.routes.interest import RoutePermissions
from natsbroker.routes.settings import Cluster, splitRoute
from natsbroker.routes.terms import ClusterTerms, LinkIdentity, RouteTarget
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions

#: The longest that a route is silent before it is sent a PING, in seconds.
_LONGEST_SILENCE = 30.0


def termsFrom(settings: Settings, cluster: Cluster, name: str) -> ClusterTerms:
    """
    @param name: of the cluster, where the settings name none.
    """
    permissions, shown = _permissions(cluster)
    return ClusterTerms(
        name=cluster.name or name,
        isDynamic=not cluster.name,
        user=cluster.user,
        password=cluster.password,
        permissions=permissions,
        shownPermissions=shown,
        poolSize=_poolSize(cluster),
        dedicated=_dedicated(settings, cluster),
        targets=tuple(map(_targetFrom(cluster), cluster.routes)),
        advertises=not cluster.no_advertise,
        headers=not settings.no_header_support,
        maxPayload=settings.max_payload,
        hasTLS=cluster.tls is not None,
        dialect=RouteDialect(cluster.dialect),
        compression=_compression(cluster),
    )


def _compression(cluster: Cluster) -> Compression:
    """
    How routes are compressed: in the classic dialect, not at all.
    """
    return NO_COMPRESSION if cluster.dialect == "classic" else cluster.compression


def _poolSize(cluster: Cluster) -> int:
    """
    How many connections there are to each member: in the classic dialect, one.
    """
    return -1 if cluster.dialect == "classic" else cluster.pool_size


def _dedicated(settings: Settings, cluster: Cluster) -> tuple[str, ...]:
    """
    Accounts with connections of their own: with a pool, the system account is one.
    """
    if _poolSize(cluster) <= 0:
        return ()
    names = dict.fromkeys(cluster.accounts)
    if not settings.no_system_account:
        names[settings.system_account] = None
    return tuple(names)


def _targetFrom(cluster: Cluster) -> Any:
    def target(url: str) -> RouteTarget:
        place = splitRoute(url)
        if place.user:
            return RouteTarget(place.host, place.port, place.user, place.password or "")
        return RouteTarget(place.host, place.port, cluster.user, cluster.password)

    return target


def _permissions(cluster: Cluster) -> tuple[RoutePermissions, dict[str, Any]]:
    permissions = cluster.permissions
    if permissions is None:
        return RoutePermissions(), {}
    told, taken = permissions.publish, permissions.subscribe
    shown = {"import": told, "export": taken}
    return (
        RoutePermissions(
            None if told is None else PermissionSet(*_patterns(told)),
            None if taken is None else SubscribePermissions(*_patterns(taken)),
        ),
        {name: _shown(each) for name, each in shown.items() if each is not None},
    )


def _patterns(permission: SubjectPermission) -> tuple[list[bytes] | None, list[bytes]]:
    allow, deny = permission.allow, permission.deny
    return None if allow is None else list(map(_bytes, allow)), list(map(_bytes, deny))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _shown(permission: SubjectPermission) -> dict[str, list[str]]:
    lists = {"allow": list(permission.allow or ()), "deny": list(permission.deny)}
    return {name: patterns for name, patterns in lists.items() if patterns}


def identityFrom(settings: Settings, cluster: Cluster, serverId: str, port: int) -> LinkIdentity:
    """
    @param port: where routes are listened for.
    """
    host, ip = cluster.host, ""
    if cluster.advertise:
        host, port = advertised(cluster.advertise, port)
        ip = f"nats-route://{joined(host, port)}/"
    return identityAt(settings, serverId, host, port, ip)


def linkLimitsFrom(settings: Settings, cluster: Cluster) -> LinkLimits:
    return replace(
        limitsOf(settings, cluster),
        ping_interval=min(cluster.ping_interval or settings.ping_interval, _LONGEST_SILENCE),
        ping_max=cluster.ping_max or settings.ping_max,
    )
