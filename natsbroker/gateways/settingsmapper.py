"""
The terms of gateway connections, made from the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from natsbroker.clients.listener import joined
from natsbroker.config.model import Settings
from natsbroker.gateways.settings import Gateway, RemoteGateway
from natsbroker.gateways.terms import GatewayTarget, GatewayTerms, RemoteClusterTerms
from natsbroker.links.context import LinkLimits
from natsbroker.links.dialling import DialTerms
from natsbroker.links.settings import advertised
from natsbroker.links.settingsmapper import backoffTerms, identityAt, limitsOf, linkTLSFrom
from natsbroker.links.tls import LinkTLS
from natsbroker.routes.settings import splitRoute
from natsbroker.routes.terms import LinkIdentity
from natsbroker.server.hostaddresses import addressesOf

#: The longest PING interval, in seconds.
_LONGEST_SILENCE = 15.0


def termsFrom(
    settings: Settings,
    gateway: Gateway,
    tls: LinkTLS | None,
    remoteTLS: Mapping[str, LinkTLS],
    tellsAll: bool,
) -> GatewayTerms:
    """
    @param tls: for clusters without an entry in C{remoteTLS}.
    @param tellsAll: the policy sends all interest of every account at once.
    """
    return GatewayTerms(
        name=gateway.name,
        user=gateway.user,
        password=gateway.password,
        remotes=tuple(
            RemoteClusterTerms(
                each.name,
                tuple(_targetFrom(each, url) for url in each.urls),
                remoteTLS.get(each.name, tls),
            )
            for each in gateway.gateways
        ),
        rejectsUnknown=gateway.reject_unknown_cluster,
        tls=tls,
        headers=not settings.no_header_support,
        maxPayload=settings.max_payload,
        tellsAll=tellsAll,
    )


def _targetFrom(remote: RemoteGateway, url: str) -> GatewayTarget:
    place = splitRoute(url, "gateway")
    return GatewayTarget(remote.name, place.host, place.port, place.user, place.password)


def remoteTLSFrom(gateway: Gateway) -> dict[str, LinkTLS]:
    """
    The TLS of clusters that have TLS settings.

    @raise natsbroker.connections.tlscontext.TLSSettingsError: if files or names are not right.
    """
    made = {each.name: linkTLSFrom(each.tls) for each in gateway.gateways}
    return {name: tls for name, tls in made.items() if tls is not None}


def placeFrom(gateway: Gateway, port: int) -> tuple[str, int]:
    """
    The host and port that are announced to other clusters.

    @param port: of our listener.
    """
    if gateway.advertise:
        return advertised(gateway.advertise, port)
    return addressesOf(gateway.host)[0], port


def identityFrom(settings: Settings, gateway: Gateway, serverId: str, port: int) -> LinkIdentity:
    """
    Our identity to other clusters.

    @param port: of our listener.
    """
    host, port = placeFrom(gateway, port)
    return identityAt(settings, serverId, host, port, gateway=joined(host, port))


def limitsFrom(settings: Settings, gateway: Gateway) -> LinkLimits:
    limits = limitsOf(settings, gateway)
    return replace(limits, ping_interval=min(limits.ping_interval, _LONGEST_SILENCE))


def dialTermsFrom(settings: Settings, gateway: Gateway, isImplicit: bool) -> DialTerms:
    """
    @param isImplicit: the cluster is known from gossip: the number of attempts is limited.
    """
    return backoffTerms(settings, gateway, not isImplicit)
