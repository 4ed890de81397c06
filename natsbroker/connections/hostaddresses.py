"""The addresses at which other machines reach a listener."""

from __future__ import annotations

import fcntl
import socket
import struct

from natsbroker.config.addresses import isLoopback, joined
from natsbroker.config.model import Settings
from natsbroker.config.settings.listeners import advertised

_ANYWHERE = ("0.0.0.0", "::", "")

_SIOCGIFADDR = 0x8915
"""Linux's request for the address of a network interface. The libraries for that (ifaddr,
netifaces) would be a dependency for these ten lines."""


def clientUrls(settings: Settings, host: str, port: int) -> tuple[str, ...]:
    if settings.client_advertise:
        return (joined(*advertised(settings.client_advertise, port)),)
    return tuple(joined(address, port) for address in addressesOf(host))


def addressesOf(host: str) -> list[str]:
    if host not in _ANYWHERE:
        return [host]
    addresses = [address for _, name in socket.if_nameindex() if (address := _addressOf(name))]
    return (
        [candidate for candidate in addresses if not isLoopback(candidate)]
        or addresses
        or ["127.0.0.1"]
    )


def _addressOf(interface: str) -> str:
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
