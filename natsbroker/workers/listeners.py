"""
The listeners of the parent: for clients, and for the kinds of connection that workers share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from socket import socket
from typing import Any

from twisted.internet.error import CannotListenError

from natsbroker.config.model import RANDOM_PORT, Settings
from natsbroker.connections.listener import PortListener, addressEndpoint, urlOf
from natsbroker.links.listener import LinkPort
from natsbroker.runtime.failures import cannotListen
from natsbroker.workers.acceptor import OF_SERVERS, Acceptor
from natsbroker.workers.messages import (
    CLIENTS,
)

_KINDS = {
    "websocket": ("websocket", ""),
    "mqtt": ("mqtt", ""),
    "leafnodes": ("leafnode", "nats-leaf"),
    "gateway": ("gateway", "nats-gw"),
}
"""The kinds by configuration key, each with its name in errors, and with the scheme of its URLs
unless its settings have one."""


def portOf(settings: Settings, key: str) -> int:
    """The configured port of a kind; 0 for none, negative for one that the kernel chooses."""
    block = getattr(settings, key)
    return 0 if block is None else int(block.port)


class ParentListeners:
    """
    The listeners of the parent.

    @ivar clients: the listener for clients.
    """

    def __init__(
        self, reactor: Any, settings: Settings, acceptor: Acceptor, sockets: Mapping[str, socket]
    ) -> None:
        """
        @param sockets: sockets that listen already, by listener.
        @raise ValueError: if there is one for a listener that is not configured.
        """
        self._acceptor = acceptor
        opened = sockets.get(CLIENTS)
        self.clients = PortListener(
            addressEndpoint(reactor, settings.host, settings.port, opened=opened), acceptor
        )
        self._kinds: dict[str, LinkPort] = {}
        # Ports that the kernel chooses are opened at once, since workers need their numbers.
        self._later: dict[str, tuple[str, int]] = {}
        for key, (what, scheme) in _KINDS.items():
            if portOf(settings, key):
                block = getattr(settings, key)
                self._kinds[key] = LinkPort(
                    reactor,
                    block.host,
                    block.port,
                    acceptor,
                    what,
                    scheme or block.scheme,
                    sockets.get(key),
                )
                if key in OF_SERVERS and block.port > 0 and key not in sockets:
                    self._later[key] = block.host, block.port

        unknown = sockets.keys() - {CLIENTS, "monitoring", *self._kinds}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise ValueError(f"sockets for listeners that are no parent's of workers: {names}")

    async def open(self) -> None:
        """
        Open all listeners but those of L{openLater}.

        @raise natsbroker.runtime.failures.StartError: if an address is in use.
        """
        try:
            await self.clients.open()
        except CannotListenError as error:
            raise cannotListen(error) from error
        self._acceptor.attend(self.clients.port)
        for key in [key for key in self._kinds if key not in self._later]:
            await self._openKind(key)

    async def openLater(self) -> None:
        """
        Open the listeners at which other servers connect, now that workers are ready. A server
        gives up on a connection that is not answered, and tries again if there is no listener.

        @raise natsbroker.runtime.failures.StartError: if an address is in use.
        """
        for key in list(self._later):
            await self._openKind(key)
            del self._later[key]
        self._acceptor.changed()

    async def _openKind(self, key: str) -> None:
        port = self._kinds[key]
        await port.open()
        self._acceptor.attend(port.port, key)

    async def close(self) -> None:
        await self.clients.close()
        for port in self._kinds.values():
            await port.close()

    def addresses(self) -> dict[str, tuple[str, int]]:
        """The hosts and ports by listener, while they are open or will be."""
        listeners: dict[str, PortListener | LinkPort] = {CLIENTS: self.clients, **self._kinds}
        opened = {
            name: (listener.address.host, listener.address.port)
            for name, listener in listeners.items()
            if name not in self._later
        }
        return opened | self._later

    def problems(self, settings: Settings) -> Iterator[str]:
        """The reasons against new settings, which must keep the ports of kinds."""
        for key in _KINDS:
            wanted, port = portOf(settings, key), self._kinds.get(key)
            number = 0 if port is None else port.number
            if wanted != number and not (number and wanted == RANDOM_PORT):
                yield f"config reload not supported for {key}: port {number} to {wanted}"

    def urls(self, settings: Settings) -> dict[str, list[str]]:
        """The URLs for the ports file."""
        tls = settings.tls
        scheme = "tls" if tls is not None and not settings.allow_non_tls else "nats"
        address = self.clients.address
        clients = [] if address is None else [urlOf(scheme, address)]
        return {"nats": clients, **{key: port.urls() for key, port in self._kinds.items()}}


def withPorts(settings: Settings, addresses: Mapping[str, tuple[str, int]]) -> Settings:
    """The settings with the actual ports of kinds, some of which the kernel may have chosen."""
    blocks = {
        key: replace(getattr(settings, key), port=port)
        for key, (_, port) in addresses.items()
        if key in _KINDS
    }
    return replace(settings, **blocks)
