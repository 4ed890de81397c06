"""
The C{cluster} block as frozen values, with the defaults of nats-server 2.15. Durations are seconds.
docs/reference/configuration.md has the meaning of each key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from natsbroker.config.addresses import RemoteURL, peerPort
from natsbroker.config.settings.authorization import Permissions
from natsbroker.config.settings.compression import ACCEPTED
from natsbroker.config.settings.listeners import ListenerSettings
from natsbroker.wire.compression import Compression

DIALECTS = ("modern", "classic", "auto")
"""The protocols with other servers."""


def splitRoute(url: str, what: str = "route") -> RemoteURL:
    """
    A port that is missing is 0, where nobody listens. Errors show no part of the URL, since it may
    hold a password.

    @param what: the name of the URL in an error.
    @raise ValueError: if it is no URL of a route.
    """
    try:
        parts = urlsplit(url if "//" in url else f"nats-route://{url}")
        host, port = parts.hostname, peerPort(parts, 0)
    except ValueError:
        raise ValueError(f"error parsing {what} url") from None
    if not host:
        raise ValueError(f"error parsing {what} url: it needs a host")
    password = parts.password and unquote(parts.password)
    return RemoteURL(host, port, unquote(parts.username or ""), password)


@dataclass(frozen=True, slots=True)
class Cluster(ListenerSettings):
    """
    @ivar permissions: C{publish} holds for imported subjects, and C{subscribe} for exported ones.
    @ivar ping_interval: 0 for that of clients, but at most 30; a C{ping_max} of 0 for that of
        clients.
    """

    permissions: Permissions | None = None
    routes: tuple[str, ...] = field(default=(), repr=False)
    no_advertise: bool = False
    pool_size: int = 3
    accounts: tuple[str, ...] = ()
    ping_interval: float = 0.0
    ping_max: int = 0
    compression: Compression = ACCEPTED
    dialect: str = "modern"
