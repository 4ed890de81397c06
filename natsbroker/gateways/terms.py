"""
How a cluster is joined to others by gateways, and what is said of that.

Frozen values, which a reload replaces as a whole; the members of INFO and CONNECT have
the real server's names and order, and one of our own, C{natsbroker}.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from natsbroker.links.tls import LinkTLS, isAddress
from natsbroker.routes.terms import LinkIdentity
from natsbroker.wire.serverinfo import GatewayCommand

__all__ = [
    "GatewayTarget",
    "GatewayTerms",
    "RemoteClusterTerms",
    "certifiedName",
    "connectOptions",
    "gossipDocument",
    "infoDocument",
    "placeOf",
]

#: What our INFO claims to understand: accounts, and not the tracing of messages.
_PROTO = 2


@dataclass(frozen=True, slots=True)
class GatewayTarget:
    """
    A member of another cluster to dial.

    @ivar gateway: the name of that cluster's gateway.
    @ivar host: a name or an address.
    @ivar user: as whom; empty for whom our own settings name.
    @ivar password: of that user.
    """

    gateway: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def place(self) -> str:
        """
        Where it is, as C{host:port}.
        """
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True, slots=True)
class RemoteClusterTerms:
    """
    Another cluster that the settings name.

    @ivar name: of its gateway.
    @ivar targets: where its members are.
    @ivar tls: how they are dialled; C{None} for without.
    """

    name: str
    targets: tuple[GatewayTarget, ...]
    tls: LinkTLS | None = None


@dataclass(frozen=True, slots=True)
class GatewayTerms:
    """
    How we are joined to other clusters. A reload replaces the whole.

    @ivar name: what others call our cluster.
    @ivar user: as whom others dial us; empty for anybody.
    @ivar password: of that user.
    @ivar remotes: the clusters that the settings name.
    @ivar rejectsUnknown: whether there may be no others.
    @ivar tls: how we are dialled, and how those are dialled of whom others told us.
    @ivar headers: whether we understand headers.
    @ivar maxPayload: what our clients may send.
    @ivar tellsAll: whether we tell all interest of every account at once.
    """

    name: str
    user: str = ""
    password: str = field(default="", repr=False)
    remotes: tuple[RemoteClusterTerms, ...] = ()
    rejectsUnknown: bool = False
    tls: LinkTLS | None = None
    headers: bool = True
    maxPayload: int = 1 << 20
    tellsAll: bool = False


def placeOf(name: str, text: str) -> GatewayTarget:
    """
    Read where somebody says that a gateway is: C{host:port}, perhaps with a scheme.

    @param name: of the gateway.
    @raise ValueError: if it is not that.
    """
    parts = urlsplit(text if "//" in text else f"nats-gw://{text}")
    host, port = parts.hostname, parts.port
    if not host or not port:
        raise ValueError(f"not the place of a gateway: {text!r}")
    return GatewayTarget(name, host, port)


def certifiedName(target: GatewayTarget, others: Iterable[GatewayTarget]) -> str:
    """
    Whom the certificate of somebody whom we dial must be for: the host, and for an address the
    first name that is known of that cluster.
    """
    if not isAddress(target.host):
        return target.host
    return next((each.host for each in others if not isAddress(each.host)), target.host)


def infoDocument(
    identity: LinkIdentity, terms: GatewayTerms, url: str, urls: Iterable[str]
) -> dict[str, Any]:
    """
    What our INFO says.

    @param url: where we can be dialled, as C{host:port}.
    @param urls: where members of our cluster can be dialled, likewise.
    """
    return {
        **identity.head(_PROTO),
        "headers": terms.headers,
        "auth_required": bool(terms.user),
        "tls_required": terms.tls is not None,
        "tls_verify": terms.tls is not None,
        "max_payload": terms.maxPayload,
        "gateway": terms.name,
        "gateway_urls": list(urls),
        "gateway_url": url,
        "gateway_nrp": True,
        "gateway_iom": terms.tellsAll,
        "natsbroker": identity.natsbroker,
    }


def connectOptions(
    identity: LinkIdentity, terms: GatewayTerms, target: GatewayTarget, hasTLS: bool
) -> dict[str, Any]:
    """
    What our CONNECT says to whom we dialled.
    """
    hasUser = bool(target.user)
    return {
        "echo": False,
        "verbose": False,
        "pedantic": False,
        "user": target.user if hasUser else terms.user,
        "pass": target.password if hasUser else terms.password,
        "tls_required": hasTLS,
        "headers": False,
        "name": identity.server_id,
        "gateway": terms.name,
    }


_NOBODY = {
    "server_id": "",
    "server_name": "",
    "version": "",
    "proto": 0,
    "go": "",
    "host": "",
    "port": 0,
    "headers": False,
    "max_payload": 0,
}


def gossipDocument(
    serverId: str, name: str, urls: Iterable[str], serverName: str = ""
) -> dict[str, Any]:
    """
    What tells somebody of another gateway.

    @param serverId: who says it.
    @param name: of the gateway.
    @param urls: where it can be dialled.
    @param serverName: the name of who says it.
    """
    return {
        **_NOBODY,
        "server_id": serverId,
        "server_name": serverName,
        "gateway": name,
        "gateway_urls": list(urls),
        "gateway_cmd": int(GatewayCommand.GOSSIP),
    }
