"""
Where others can reach what we listen on.

Promises: an address or a name that somebody on another machine can dial, where there is one.
"""

from __future__ import annotations

import fcntl
import socket
import struct

from natsbroker.clients.listener import joined
from natsbroker.config.addresses import isLoopback
from natsbroker.config.model import Settings
from natsbroker.links.settings import advertised

__all__ = ["addressesOf", "clientUrls"]

_ANYWHERE = ("0.0.0.0", "::", "")

#: Linux's request for the address of a network interface.
_SIOCGIFADDR = 0x8915


def clientUrls(settings: Settings, host: str, port: int) -> tuple[str, ...]:
    """
    Where clients can connect to us, as C{host:port}.

    @param host: where they are listened for.
    """
    if settings.client_advertise:
        return (joined(*advertised(settings.client_advertise, port)),)
    return tuple(joined(each, port) for each in addressesOf(host))


def addressesOf(host: str) -> list[str]:
    """
    Where others can reach a listener on a host: itself, or the addresses of this machine.
    """
    if host not in _ANYWHERE:
        return [host]
    found = [address for name in _interfaces() if (address := _addressOf(name))]
    return [each for each in found if not isLoopback(each)] or found or ["127.0.0.1"]


def _interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def _addressOf(interface: str) -> str:
    """
    The IPv4 address of a network interface; no text if it has none.
    """
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
