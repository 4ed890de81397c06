"""
News of members: who is told of a new one, and what that makes of it.

A news reaches everybody who can use it and does not go round in circles.

Each member that gets a connection to a new one tells the others, unless it dialled because it was
told itself. What a news says besides, its mode, keeps the number of messages down: one who was told
by a member that knows everybody need not tell anybody (C{DISABLED}); one who was told over a route
that was configured, so that the two sides of it may not know each other, must (C{OVERRIDE}).
(Observed of nats-server 2.15; older ones know no modes.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from natsbroker.routes.terms import RouteTarget
from natsbroker.wire.serverinfo import GossipMode, ServerDocument

if TYPE_CHECKING:
    from natsbroker.routes.route import Route

__all__ = ["isConfigured", "isNews", "modeFor", "reachable", "targetFrom"]


def isNews(route: Route, document: ServerDocument) -> bool:
    """
    Whether others are told of whom a route leads to.
    """
    target = route.target
    wasTold = route.isDialled and target is not None and not target.isConfigured
    if wasTold and target is not None and target.gossip != GossipMode.OVERRIDE:
        return False
    return document.gossip_mode != GossipMode.DISABLED


def modeFor(route: Route, listener: Route) -> GossipMode:
    """
    The mode in which somebody is told.

    @param route: leads to the new member.
    @param listener: leads to whoever is told.
    """
    leads = route if route.isDialled else listener
    if leads.target is not None and leads.target.isConfigured:
        return GossipMode.OVERRIDE
    return GossipMode.DEFAULT if route.isDialled else GossipMode.DISABLED


def reachable(document: ServerDocument, host: str) -> ServerDocument:
    """
    What a member said of itself, with where it can be dialled.

    @param host: where its connection comes from; empty where that is no address.
    """
    if document.ip or not host or not document.port:
        return document
    shown = f"[{host}]" if ":" in host else host
    return document.changed(ip=f"nats-route://{shown}:{document.port}/")


def targetFrom(document: ServerDocument, user: str, password: str, name: str) -> RouteTarget:
    """
    Whom to dial because of a news.

    @param user: as whom, if the member wants to know.
    @param password: of that user.
    @param name: whom its certificate is for, if it is dialled by an address.
    @raise ValueError: if the news does not say where it is.
    """
    parts = urlsplit(document.ip)
    host, port = parts.hostname, parts.port
    if not host or not port:
        raise ValueError(f"not the URL of a route: {document.ip!r}")
    if not document.auth_required:
        user = password = ""
    known = {each.value: each for each in GossipMode}
    gossip = known.get(document.gossip_mode, GossipMode.DEFAULT)
    return RouteTarget(host, port, user, password, False, document.route_account, gossip, name)


def isConfigured(document: ServerDocument, targets: Iterable[RouteTarget]) -> bool:
    """
    Whether the settings name a member, so that it is dialled anyway.
    """
    hosts = {document.host.lower(), (urlsplit(document.ip).hostname or "").lower()}
    return any(target.port == document.port and target.host.lower() in hosts for target in targets)
