"""
Listening sockets that are open before the reactor is loaded.

Loading Twisted takes a few hundred milliseconds. Programs that start a server and connect after a
fixed time (the test suites of several NATS clients do, after 250 or 500 ms) find a listening socket
with this, and their connections are accepted as soon as the broker is ready. The module imports
nothing beyond the standard library for the same reason.
"""

from __future__ import annotations

import socket

#: The host that stands for every address of this machine, including IPv6, as in nats-server.
ANYWHERE = "0.0.0.0"

#: The connections that may wait to be accepted: enough for a storm of reconnects.
BACKLOG = 4096


def takesBoth() -> bool:
    """Whether an IPv6 socket takes IPv4 too, which Linux may not (C{net.ipv6.bindv6only})."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            return not probe.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    except OSError:
        return False


def openSocket(host: str, port: int) -> socket.socket | None:
    """
    Listen on an IP address or L{ANYWHERE}; C{None} if that fails: listening again then shows the
    error.
    """
    isEverywhere = host == ANYWHERE and takesBoth()
    isIPv6 = isEverywhere or ":" in host
    try:
        return socket.create_server(
            ("::" if isEverywhere else host, port),
            family=socket.AF_INET6 if isIPv6 else socket.AF_INET,
            backlog=BACKLOG,
            dualstack_ipv6=isEverywhere,
        )
    except OSError:
        return None


def addressOf(opened: socket.socket) -> tuple[str, int]:
    """Host and port as in settings: L{ANYWHERE} for an IPv6 socket that takes both kinds."""
    host, port = opened.getsockname()[:2]
    if host == "::" and not opened.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
        host = ANYWHERE
    return host, port
