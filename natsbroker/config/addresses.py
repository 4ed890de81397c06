"""
Hosts and ports as configuration files write them.

This module promises a host and a port, or nats-server's complaint.  It must never know
which listener they are for.
"""

from __future__ import annotations

import re

_PORT = re.compile(r"[+-]?[0-9]{1,18}")


def splitAddress(text: str) -> tuple[str, int]:
    """
    Read C{host:port}, where an IPv6 address stands in brackets and the host may be empty.

    @raise ValueError: when it is anything else.
    """
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
    """
    Return the port if a listener can have it: 0 to 65535, or -1 for a random one.

    @raise ValueError: when it cannot.
    """
    if not -1 <= port <= 65535:
        raise ValueError(f"invalid port {port}")
    return port
