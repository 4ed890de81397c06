"""
Where one kind of link is listened for.

A place that is taken is told in nats-server's words; where none is wanted, nothing
listens, and everything else holds all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Factory

from natsbroker.clients.listener import PortListener, addressEndpoint, describe, urlOf
from natsbroker.server.start import StartError, listenDetail

__all__ = ["LinkPort", "ended"]


class LinkPort:
    """
    One place, or none.
    """

    def __init__(
        self, reactor: Any, host: str, port: int, factory: Factory, what: str, scheme: str
    ) -> None:
        """
        @param port: 0 for nowhere; negative for one that the kernel chooses.
        @param factory: makes the protocols of connections.
        @param what: names the port where it is told that it is taken.
        @param scheme: of its URL.
        """
        self._wanted = port
        self._what = what
        self._scheme = scheme
        self._listener: PortListener | None = None
        if port:
            self._listener = PortListener(addressEndpoint(reactor, host, port), factory)

    async def open(self) -> None:
        """
        Listen.

        @raise StartError: if the place is taken.
        """
        if self._listener is None:
            return
        try:
            await self._listener.open()
        except CannotListenError as error:
            raise StartError(
                f"Error listening on {self._what} port: {self._wanted} - {listenDetail(error)}"
            ) from error

    async def close(self) -> None:
        """
        Listen no more; connections that there are stay.
        """
        if self._listener is not None:
            await self._listener.close()

    @property
    def _address(self) -> Any:
        return None if self._listener is None else self._listener.address

    @property
    def number(self) -> int:
        """
        Where it listens; 0 while it does not.
        """
        address = self._address
        return 0 if address is None else int(address.port)

    def urls(self) -> list[str]:
        """
        Where it listens, as URLs.
        """
        address = self._address
        return [] if address is None else [urlOf(self._scheme, address)]

    def __str__(self) -> str:
        """
        Where it listens, as people read it; no text while it does not.
        """
        address = self._address
        return "" if address is None else describe(address)


async def ended(close: Callable[[Callable[[], None]], None]) -> None:
    """
    End all links of one kind, and wait until they are gone.

    @param close: ends them, and calls what it is given when there is none.
    """
    gone: Deferred[None] = Deferred()
    close(lambda: gone.callback(None))
    await gone
