"""
The terms of gateway connections, which a reload replaces as a whole, and what INFO and CONNECT
contain. Their members have the names and order of nats-server; C{natsbroker} is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from natsbroker import __version__
from natsbroker.accounts.tracing import TRACING_PROTOCOL
from natsbroker.config.addresses import RemoteURL, joined
from natsbroker.config.model import Settings
from natsbroker.config.settings.gateways import Gateway
from natsbroker.config.settings.listeners import advertised
from natsbroker.config.settings.routes import splitRoute
from natsbroker.connections.hostaddresses import addressesOf
from natsbroker.links.hostcluster import HostCluster
from natsbroker.links.identity import (
    NOBODY,
    LinkIdentity,
    LinkLogin,
    identityAt,
    loginFor,
    loginToSay,
)
from natsbroker.links.settingsmapper import linkSettings, linkTLSFrom
from natsbroker.links.tls import LinkTLS
from natsbroker.wire.serverinfo import GatewayCommand

#: The protocol level of our INFO: accounts and message tracing.
_PROTO = TRACING_PROTOCOL

#: The longest PING interval, in seconds.
_LONGEST_SILENCE = 15.0


@dataclass(frozen=True, slots=True)
class GatewayTerms:
    """
    @ivar tls: for our listener, and for dialling clusters known from gossip.
    @ivar remoteTLS: for dialling the clusters in the settings, by name.
    @ivar tellsAll: we send all interest of every account at once.
    """

    settings: Settings
    block: Gateway
    tls: LinkTLS | None = None
    remoteTLS: Mapping[str, LinkTLS | None] = field(default_factory=dict)
    tellsAll: bool = False

    @property
    def login(self) -> LinkLogin:
        """The login of members of other clusters that dial us."""
        return loginFor(self.block, _placesIn(self.block))


def termsFrom(settings: Settings, block: Gateway, tellsAll: bool) -> GatewayTerms:
    tls = linkTLSFrom(block.tls)
    remoteTLS = {gateway.name: linkTLSFrom(gateway.tls) or tls for gateway in block.gateways}
    return GatewayTerms(settings, block, tls, remoteTLS, tellsAll)


def _placesIn(block: Gateway) -> Iterator[RemoteURL]:
    return (splitRoute(url) for remote in block.gateways for url in remote.urls)


def placeOf(text: str) -> RemoteURL:
    """Read the address of a gateway: C{host:port}, perhaps with a scheme."""
    parts = urlsplit(text if "//" in text else f"nats-gw://{text}")
    host, port = parts.hostname, parts.port
    if not host or not port:
        raise ValueError(f"not the address of a gateway: {text!r}")
    return RemoteURL(host, port)


def infoDocument(
    identity: LinkIdentity, terms: GatewayTerms, url: str, urls: Iterable[str]
) -> dict[str, Any]:
    """
    @param url: where we can be dialled, as C{host:port}.
    @param urls: where members of our cluster can be dialled.
    """
    return {
        **identity.head(_PROTO),
        "headers": not terms.settings.no_header_support,
        "auth_required": bool(terms.block.user),
        "tls_required": terms.tls is not None,
        "tls_verify": terms.tls is not None,
        "max_payload": terms.settings.max_payload,
        "gateway": terms.block.name,
        "gateway_urls": list(urls),
        "gateway_url": url,
        "gateway_nrp": True,
        "gateway_iom": terms.tellsAll,
        "natsbroker": __version__,
    }


def connectOptions(
    identity: LinkIdentity, terms: GatewayTerms, target: RemoteURL, hasTLS: bool
) -> dict[str, Any]:
    block = terms.block
    user, password = target.user, target.password or ""
    if not user:
        user, password = loginToSay(block.user, block.password, _placesIn(block))
    return {
        "echo": False,
        "verbose": False,
        "pedantic": False,
        "user": user,
        "pass": password,
        "tls_required": hasTLS,
        "headers": False,
        "name": identity.server_id,
        "gateway": block.name,
    }


def gossipDocument(
    serverId: str, name: str, urls: Iterable[str], serverName: str = ""
) -> dict[str, Any]:
    """An INFO with the URLs of another gateway."""
    return {
        **NOBODY,
        "server_id": serverId,
        "server_name": serverName,
        "gateway": name,
        "gateway_urls": list(urls),
        "gateway_cmd": int(GatewayCommand.GOSSIP),
    }


def placeFrom(gateway: Gateway, port: int) -> tuple[str, int]:
    """The host and port that are announced to other clusters."""
    if gateway.advertise:
        return advertised(gateway.advertise, port)
    return addressesOf(gateway.host)[0], port


def identityFrom(
    settings: Settings,
    gateway: Gateway,
    serverId: str,
    port: int,
    hostCluster: HostCluster | None = None,
) -> LinkIdentity:
    """Neighbours are members of one cluster, which other clusters tell apart."""
    host, port = placeFrom(gateway, port)
    if hostCluster is not None:
        settings = replace(settings, server_name=hostCluster.memberName(settings.server_name))
    return identityAt(settings, serverId, host, port, gateway=joined(host, port))


def gatewaySettings(settings: Settings, gateway: Gateway) -> Settings:
    made = linkSettings(settings, gateway)
    return replace(made, ping_interval=min(made.ping_interval, _LONGEST_SILENCE))
