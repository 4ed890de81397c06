"""
The settings of a cluster as routes use them, and the INFO and CONNECT that follow from them.

Members of INFO and CONNECT have the names and the order of nats-server; C{natsbroker} is added.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from natsbroker import NATS_VERSION, __version__
from natsbroker.links.compression import NO_COMPRESSION, Compression
from natsbroker.routes.dialects import CLASSIC_TOO, RouteDialect
from natsbroker.routes.interest import RoutePermissions
from natsbroker.wire.serverinfo import GossipMode

#: What our INFO claims to understand: accounts on routes, and not the tracing of messages.
_PROTO = 2

#: The same in the classic dialect: that a second INFO may follow the first.
_CLASSIC_PROTO = 1


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """
    This broker, as other servers see it.

    @ivar host: where we listen for them.
    @ivar ip: where they are to dial us, as a URL; empty for where they see us.
    @ivar gateway_url: where other clusters are to dial us; empty without a gateway.
    """

    server_id: str
    server_name: str
    host: str = "0.0.0.0"
    port: int = 0
    ip: str = ""
    gateway_url: str = ""

    def head(self, proto: int) -> dict[str, Any]:
        """
        What an INFO of every kind of link begins with.

        @param proto: what it claims to understand.
        """
        return {
            "server_id": self.server_id,
            "server_name": self.server_name,
            "version": NATS_VERSION,
            "proto": proto,
            "go": "",
            "host": self.host,
            "port": self.port,
        }


#: What an INFO begins with that is about no server.
NOBODY = {**LinkIdentity("", "", "").head(0), "version": "", "headers": False, "max_payload": 0}


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """
    A member to dial.

    @ivar isConfigured: whether the settings name it; else another member announced it.
    @ivar account: the account that the connection is dedicated to; empty for none.
    @ivar gossip: the mode of the announcement.
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
        """
        The same for a connection that is dedicated to an account.
        """
        return replace(self, account=account)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterTerms:
    """
    The settings of routes. A reload replaces the whole.

    @ivar isDynamic: the name was generated, and gives way to another.
    @ivar permissions: what passes.
    @ivar shownPermissions: the same for our INFO, under C{import} and C{export}.
    @ivar poolSize: how many connections to each member are shared among accounts; negative for one
        connection for everything.
    @ivar dedicated: accounts that have a connection of their own to each member.
    @ivar advertises: whether others learn where our clients connect, and our clients where else
        they could.
    @ivar maxPayload: what our clients may send.
    """

    name: str
    isDynamic: bool = False
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


def isLogin(wanted: tuple[str, str], user: str, password: str) -> bool:
    """
    Whether the credentials of a peer are right, if any are required. The time that it takes does
    not depend on how much of them is right.

    @param wanted: the user and the password; an empty user for none.
    """
    if not wanted[0]:
        return True
    isRightUser = _isSame(user, wanted[0])
    return _isSame(password, wanted[1]) and isRightUser


def _isSame(said: str, wanted: str) -> bool:
    """
    Compare any two strings, also those that JSON can have and UTF-8 can not.
    """
    return hmac.compare_digest(
        said.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass")
    )


def infoDocument(identity: LinkIdentity, terms: ClusterTerms, **connection: Any) -> dict[str, Any]:
    """
    @param connection: the members that belong to the connection.
    """
    if terms.dialect is RouteDialect.CLASSIC:
        return _classicDocument(identity, terms, connection)
    return {
        **identity.head(_PROTO),
        "headers": terms.headers,
        "auth_required": bool(terms.user),
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
    """
    The same where only the classic dialect is spoken.
    """
    return {
        **identity.head(_CLASSIC_PROTO),
        "auth_required": bool(terms.user),
        "ssl_required": terms.hasTLS,
        "tls_required": terms.hasTLS,
        "tls_verify": terms.hasTLS,
        "max_payload": terms.maxPayload,
        "ip": identity.ip,
        **terms.shownPermissions,
        **{name: connection[name] for name in _CLASSIC_CONNECTION if name in connection},
        "natsbroker": __version__,
    }


#: What belongs to the connection in an INFO of the classic dialect.
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
