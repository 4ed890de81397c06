"""
The terms of gateway connections, and what INFO and CONNECT contain.

Frozen values, which a reload replaces as a whole. The members of INFO and CONNECT have the names
and order of nats-server; one is ours, C{natsbroker}.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from natsbroker import __version__
from natsbroker.links.tls import LinkTLS, isAddress
from natsbroker.routes.terms import NOBODY, LinkIdentity
from natsbroker.wire.serverinfo import GatewayCommand

#: The protocol level of our INFO: accounts, without message tracing.
_PROTO = 2


@dataclass(frozen=True, slots=True)
class GatewayTarget:
    """
    A member of another cluster to dial.

    @ivar gateway: the name of that cluster's gateway.
    @ivar host: a name or an address.
    @ivar user: for the login; empty for the user of our settings.
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
        C{host:port}.
        """
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True, slots=True)
class RemoteClusterTerms:
    """
    Another cluster in the settings.

    @ivar name: of its gateway.
    @ivar tls: for dialling its members; C{None} without.
    """

    name: str
    targets: tuple[GatewayTarget, ...]
    tls: LinkTLS | None = None


@dataclass(frozen=True, slots=True)
class GatewayTerms:
    """
    The settings of our gateway that its connections use.

    @ivar name: of our gateway.
    @ivar user: for gateways that dial us; empty for no login.
    @ivar password: of that user.
    @ivar remotes: the clusters in the settings.
    @ivar rejectsUnknown: no others are accepted or dialled.
    @ivar tls: for our listener, and for dialling clusters known from gossip.
    @ivar headers: whether we understand headers.
    @ivar maxPayload: of our clients.
    @ivar tellsAll: we send all interest of every account at once.
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
    Read the address of a gateway: C{host:port}, perhaps with a scheme.

    @param name: of the gateway.
    @raise ValueError: if the text is no address.
    """
    parts = urlsplit(text if "//" in text else f"nats-gw://{text}")
    host, port = parts.hostname, parts.port
    if not host or not port:
        raise ValueError(f"not the place of a gateway: {text!r}")
    return GatewayTarget(name, host, port)


def certifiedName(target: GatewayTarget, others: Iterable[GatewayTarget]) -> str:
    """
    The name that the certificate of a dialled member must have: its host name, or for an IP address
    the first host name that is known of its cluster.
    """
    if not isAddress(target.host):
        return target.host
    return next((each.host for each in others if not isAddress(each.host)), target.host)


def infoDocument(
    identity: LinkIdentity, terms: GatewayTerms, url: str, urls: Iterable[str]
) -> dict[str, Any]:
    """
    Our INFO.

    @param url: where we can be dialled, as C{host:port}.
    @param urls: where members of our cluster can be dialled.
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
        "natsbroker": __version__,
    }


def connectOptions(
    identity: LinkIdentity, terms: GatewayTerms, target: GatewayTarget, hasTLS: bool
) -> dict[str, Any]:
    """
    Our CONNECT.
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


def gossipDocument(
    serverId: str, name: str, urls: Iterable[str], serverName: str = ""
) -> dict[str, Any]:
    """
    An INFO with the URLs of another gateway.

    @param serverId: of the sender.
    @param name: of the gateway.
    @param serverName: of the sender.
    """
    return {
        **NOBODY,
        "server_id": serverId,
        "server_name": serverName,
        "gateway": name,
        "gateway_urls": list(urls),
        "gateway_cmd": int(GatewayCommand.GOSSIP),
    }
