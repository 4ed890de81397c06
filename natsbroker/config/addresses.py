"""
Hosts, ports and URLs of servers as configuration files write them, with nats-server's errors.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

_PORT = re.compile(r"[+-]?[0-9]{1,18}")


def splitAddress(text: str) -> tuple[str, int]:
    """Read C{host:port}, where an IPv6 address stands in brackets and the host may be empty."""
    host, colon, port = text.rpartition(":")
    if host.startswith("["):
        if not host.endswith("]") or "[" in host[1:] or "]" in host[:-1]:
            colon = ""
        host = host[1:-1]
    elif ":" in host or "[" in host or "]" in host:
        colon = ""
    if not colon or "[" in port or "]" in port:
        raise ValueError(f'could not parse address string "{text}"')
    if _PORT.fullmatch(port) is None:
        raise ValueError(f'could not parse port "{port}"')
    return host, int(port)


def checkPort(port: int) -> int:
    if not -1 <= port <= 65535:
        raise ValueError(f"invalid port {port}")
    return port


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class RemoteURL:
    """
    @ivar path: of the URL of a WebSocket; may be empty.
    """

    host: str
    port: int
    user: str = ""
    password: str | None = field(default=None, repr=False)
    isTLS: bool = False
    isWebSocket: bool = False
    path: str = ""

    def __str__(self) -> str:
        return joined(self.host, self.port)


_WEBSOCKET = ("ws", "wss")


def peerPort(parts: SplitResult, default: int) -> int:
    """
    @return: the port of a peer's URL. 0 stands for a port at which nobody can listen: nats-server
        accepts such a URL too, and fails when it dials.
    @raise ValueError: if it is no number.
    """
    digits = parts.netloc.rpartition("@")[2].rpartition(":")[2]
    if digits.isascii() and digits.isdigit() and not 0 < int(digits[:7]) <= 65535:
        return 0
    return default if parts.port is None else parts.port


def splitURL(
    url: str, what: str, schemes: Sequence[str], port: int, isPeer: bool = False
) -> RemoteURL:
    """
    Read the URL of a server. Errors contain nothing that could be a password.

    @param schemes: accepted besides C{tls}; a URL without a scheme has the first one.
    @param isPeer: whether any scheme and any number as a port are accepted, as by nats-server.
    @raise ValueError: for any other text.
    """
    try:
        parts = urlsplit(url if "//" in url else f"{schemes[0]}://{url}")
        scheme, host = parts.scheme.lower(), parts.hostname
        number = peerPort(parts, port) if isPeer else port if parts.port is None else parts.port
    except ValueError:
        raise ValueError(f"error parsing {what} url") from None
    isWebSocket = scheme in _WEBSOCKET
    if isWebSocket and not isPeer:
        raise ValueError(
            f"{what}s over WebSocket ({scheme}://) are not supported: use {schemes[0]}:// or tls://"
        )
    isKnown = isPeer or (scheme in (*schemes, "tls") and bool(number))
    if not host or not isKnown:
        raise ValueError(f"error parsing {what} url: it needs a host")
    password = parts.password
    return RemoteURL(
        host,
        number,
        unquote(parts.username or ""),
        None if password is None else unquote(password),
        scheme in ("tls", "wss"),
        isWebSocket,
        parts.path if isWebSocket else "",
    )


def syslogAddress(url: str) -> tuple[str, tuple[str, int] | str]:
    """
    Read the URL of a syslog daemon.

    @return: C{udp} or C{tcp} with a host and a port, or C{unix} with a path.
    @raise ValueError: for any other text.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("error parsing syslog url") from None
    if parts.scheme == "unix" and parts.path:
        return parts.scheme, parts.path
    if parts.scheme not in ("udp", "tcp"):
        raise ValueError(f'error invalid network type: "{parts.scheme}"')
    if not host or not port:
        raise ValueError("error parsing syslog url: it needs a host and a port")
    return parts.scheme, (host, port)


def syslogURL(url: str) -> str:
    """
    @param url: may be empty, for no daemon.
    """
    if url:
        syslogAddress(url)
    return url


def isLoopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def unspaced(name: str) -> str:
    if " " in name:
        raise ValueError("server name cannot contain spaces")
    return name


MOST_WORKERS = 64

AUTO = -1
"""The number of C{workers} for one on each core."""


def workerCount(value: int | str) -> int:
    """The number of C{workers}; C{AUTO} for one on each core."""
    if value == "auto":
        return AUTO
    try:
        count = int(value)
    except ValueError:
        raise ValueError("must be a number or auto") from None
    if not 0 < count <= MOST_WORKERS:
        raise ValueError(f"must be from 1 to {MOST_WORKERS}, or auto")
    return count
