"""
The C{cluster} block as frozen values, with the defaults of nats-server 2.15. Durations are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from natsbroker.auth.settings import Permissions
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.tls import TLSSettings
from natsbroker.links.compression import Compression
from natsbroker.links.compressionsettings import ACCEPTED

DIALECTS = ("modern", "classic", "auto")
"""What may be spoken with other servers."""


def splitRoute(url: str, what: str = "route") -> RemoteURL:
    """
    Errors show no part of the URL, since it may hold a password.

    @param what: what an error calls it.
    @raise ValueError: if it is no URL of a route.
    """
    try:
        parts = urlsplit(url if "//" in url else f"nats-route://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"error parsing {what} url") from None
    if not host or not port:
        raise ValueError(f"error parsing {what} url: it needs a host and a port")
    password = parts.password and unquote(parts.password)
    return RemoteURL(host, port, unquote(parts.username or ""), password)


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    A C{cluster} block.

    @ivar name: empty for one that is made up.
    @ivar port: where routes are listened for; 0 for nowhere, -1 for a random one.
    @ivar user: that members must send; empty for none.
    @ivar timeout: seconds in which they must send it; 0 for the default.
    @ivar permissions: C{publish} is what is imported, and C{subscribe} what is exported.
    @ivar advertise: C{host} or C{host:port} that other members dial.
    @ivar no_advertise: do not tell clients of other servers.
    @ivar connect_retries: further attempts to reach a server that others told of.
    @ivar pool_size: connections to each server; -1 for one without pooling.
    @ivar accounts: those with connections of their own.
    @ivar ping_interval: seconds; 0 for the clients', up to 30.
    @ivar ping_max: 0 for the clients'.
    @ivar write_deadline: seconds; 0 for the clients'.
    @ivar dialect: what is spoken on routes, one of L{DIALECTS}.
    @ivar insecure_listen: the operator accepts that anybody who reaches the port is a member.
    """

    name: str = ""
    host: str = "0.0.0.0"
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 0.0
    permissions: Permissions | None = None
    routes: tuple[str, ...] = field(default=(), repr=False)
    tls: TLSSettings | None = None
    advertise: str = ""
    no_advertise: bool = False
    connect_retries: int = 0
    connect_backoff: bool = False
    pool_size: int = 3
    accounts: tuple[str, ...] = ()
    ping_interval: float = 0.0
    ping_max: int = 0
    write_deadline: float = 0.0
    compression: Compression = ACCEPTED
    dialect: str = "modern"
    insecure_listen: bool = False
