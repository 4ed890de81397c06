"""
What the settings say of gateways, as the network layer wants it.

Pure functions, save for L{remoteTLSFrom}, which reads certificates, and L{placeFrom},
which may ask the machine for its addresses.
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

__all__ = ["dialTermsFrom", "identityFrom", "limitsFrom", "placeFrom", "remoteTLSFrom", "termsFrom"]

#: The longest that a gateway is silent before it is sent a PING, in seconds.
_LONGEST_SILENCE = 15.0


def termsFrom(
    settings: Settings,
    gateway: Gateway,
    tls: LinkTLS | None,
    remoteTLS: Mapping[str, LinkTLS],
    tellsAll: bool,
) -> GatewayTerms:
    """
    How the broker is joined to other clusters.

    @param tls: how TLS is done, unless C{remoteTLS} has something for the cluster's name.
    @param tellsAll: whether the policy tells all interest of every account at once.
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
    How those clusters are dialled that have TLS settings of their own.

    @raise natsbroker.connections.tlscontext.TLSSettingsError: if files or names are not right.
    """
    made = {each.name: linkTLSFrom(each.tls) for each in gateway.gateways}
    return {name: tls for name, tls in made.items() if tls is not None}


def placeFrom(gateway: Gateway, port: int) -> tuple[str, int]:
    """
    Where other clusters are told to dial us.

    @param port: where gateways are listened for.
    """
    if gateway.advertise:
        return advertised(gateway.advertise, port)
    return addressesOf(gateway.host)[0], port


def identityFrom(settings: Settings, gateway: Gateway, serverId: str, port: int) -> LinkIdentity:
    """
    Who we are to other clusters.

    @param port: where gateways are listened for.
    """
    host, port = placeFrom(gateway, port)
    return identityAt(settings, serverId, host, port, gateway=joined(host, port))


def limitsFrom(settings: Settings, gateway: Gateway) -> LinkLimits:
    """
    The limits of gateways.
    """
    limits = limitsOf(settings, gateway)
    return replace(limits, ping_interval=min(limits.ping_interval, _LONGEST_SILENCE))


def dialTermsFrom(settings: Settings, gateway: Gateway, isImplicit: bool) -> DialTerms:
    """
    How clusters are dialled.

    @param isImplicit: whether others told of the cluster: then it is not dialled for ever.
    """
    return backoffTerms(settings, gateway, not isImplicit)
