"""
What the settings say of the cluster, as the network layer wants it.

Promises: pure functions, save for L{clientUrls}, which asks the machine for its addresses, and
L{linkTLSFrom}, which reads certificates.
Must never know: connections.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Any

from natsbroker import __version__
from natsbroker.config.cluster import Cluster, splitRoute
from natsbroker.config.identity import SubjectPermission
from natsbroker.config.linkblocks import advertised
from natsbroker.config.loopback import isLoopback
from natsbroker.config.model import TLS, Settings
from natsbroker.hosting.identity import NATS_VERSION
from natsbroker.hosting.tls import bothContextsFrom
from natsbroker.net.clusterterms import ClusterTerms, Identity, RouteTarget
from natsbroker.net.dialects import RouteDialect
from natsbroker.net.dialling import DialTerms
from natsbroker.net.linkcontext import LinkLimits
from natsbroker.net.linktls import LinkTLS
from natsbroker.net.listen import joined
from natsbroker.net.routeinterest import RoutePermissions
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions

__all__ = [
    "addressesOf",
    "clientUrls",
    "dialTermsFrom",
    "identityFrom",
    "linkLimitsFrom",
    "linkTLSFrom",
    "termsFrom",
]

#: The longest that a route is silent before it is sent a PING, in seconds.
_LONGEST_SILENCE = 30.0

#: How long a member may take to say who it is, in seconds, unless the settings say.
_HANDSHAKE = 2.0

#: The longest pause between two attempts to dial, in seconds.
_LONGEST_PAUSE = 30.0

_ANYWHERE = ("0.0.0.0", "::", "")

#: Linux's request for the address of a network interface.
_SIOCGIFADDR = 0x8915


def termsFrom(settings: Settings, cluster: Cluster, name: str) -> ClusterTerms:
    """
    How the broker takes part.

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
    )


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
            return RouteTarget(place.host, place.port, place.user, place.password)
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


def identityFrom(settings: Settings, cluster: Cluster, serverId: str, port: int) -> Identity:
    """
    Who we are to other members.

    @param port: where routes are listened for.
    """
    host, ip = cluster.host, ""
    if cluster.advertise:
        host, port = advertised(cluster.advertise, port)
        ip = f"nats-route://{joined(host, port)}/"
    return Identity(
        server_id=serverId,
        server_name=settings.server_name or serverId,
        version=NATS_VERSION,
        natsbroker=__version__,
        host=host,
        port=port,
        ip=ip,
    )


def linkLimitsFrom(settings: Settings, cluster: Cluster) -> LinkLimits:
    """
    The limits of routes.
    """
    handshake = cluster.timeout
    if not handshake:
        handshake = _HANDSHAKE if cluster.tls is None else cluster.tls.timeout + 1.0
    default = LinkLimits()
    return LinkLimits(
        handshake=handshake,
        ping_interval=min(cluster.ping_interval or settings.ping_interval, _LONGEST_SILENCE),
        ping_max=cluster.ping_max or settings.ping_max,
        max_control_line=settings.max_control_line * 16,
        max_payload=max(default.max_payload, settings.max_payload),
        max_pending=settings.max_pending,
        write_deadline=cluster.write_deadline or settings.write_deadline,
        stall=not settings.no_fast_producer_stall,
    )


def dialTermsFrom(settings: Settings, cluster: Cluster, isConfigured: bool) -> DialTerms:
    """
    How members are dialled.

    @param isConfigured: whether the settings name the member: then it is dialled until it answers.
    """
    default = DialTerms()
    return DialTerms(
        longest=_LONGEST_PAUSE if cluster.connect_backoff else default.pause,
        retries=-1 if isConfigured else cluster.connect_retries,
        reports=settings.connect_error_reports,
    )


def linkTLSFrom(tls: TLS | None) -> LinkTLS | None:
    """
    How TLS is done on routes.

    @raise natsbroker.hosting.tls.TLSError: if the files or names are not right.
    """
    if tls is None:
        return None
    answering, dialling = bothContextsFrom(tls)
    return LinkTLS(answering, dialling, tls.timeout, tls.insecure, tls.pinned_certs)


def clientUrls(settings: Settings, host: str, port: int) -> tuple[str, ...]:
    """
    Where clients can connect to us, as C{host:port}.

    @param host: where they are listened for.
    """
    if settings.client_advertise:
        return (joined(*advertised(settings.client_advertise, port)),)
    return tuple(joined(each, port) for each in addressesOf(host))


def addressesOf(host: str) -> list[str]:
    """
    Where others can reach a listener on a host: itself, or the addresses of this machine.
    """
    if host not in _ANYWHERE:
        return [host]
    found = [address for name in _interfaces() if (address := _addressOf(name))]
    return [each for each in found if not isLoopback(each)] or found or ["127.0.0.1"]


def _interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def _addressOf(interface: str) -> str:
    """
    The IPv4 address of a network interface; no text if it has none.
    """
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
