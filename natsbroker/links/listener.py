"""The listener of one kind of link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Factory

from natsbroker.connections.listener import Opened, PortListener, addressEndpoint, describe, urlOf
from natsbroker.runtime.failures import StartError, listenDetail


class LinkPort:
    """A listening port, or none. Its text is the address; empty while it does not listen."""

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        factory: Factory,
        what: str,
        scheme: str,
        opened: Opened | None = None,
    ) -> None:
        """
        @param port: 0 for none; negative for one that the kernel chooses.
        @param what: names the port in errors.
        @param opened: see L{addressEndpoint}.
        """
        self._wanted = port
        self._what = what
        self._scheme = scheme
        self._factory = factory
        self._listener: PortListener | None = None
        if port:
            endpoint = addressEndpoint(reactor, host, port, opened=opened)
            self._listener = PortListener(endpoint, factory)

    @property
    def expiry(self) -> str:
        """When the certificate that is shown here expires; empty without TLS."""
        tls = getattr(self._factory, "tls", None)
        return "" if tls is None else str(tls.expiry)

    async def open(self) -> None:
        """Raise L{StartError} if the address is in use, in nats-server's words."""
        if self._listener is None:
            return
        try:
            await self._listener.open()
        except CannotListenError as error:
            raise StartError(
                f"Error listening on {self._what} port: {self._wanted} - {listenDetail(error)}"
            ) from error

    async def close(self) -> None:
        """Stop listening. Connections stay."""
        if self._listener is not None:
            await self._listener.close()

    @property
    def address(self) -> Any:
        return None if self._listener is None else self._listener.address

    @property
    def port(self) -> Any:
        """The port of Twisted's; C{None} while there is none."""
        return None if self._listener is None else self._listener.port

    @property
    def number(self) -> int:
        address = self.address
        return 0 if address is None else int(address.port)

    def urls(self) -> list[str]:
        address = self.address
        return [] if address is None else [urlOf(self._scheme, address)]

    def __str__(self) -> str:
        address = self.address
        return "" if address is None else describe(address)


async def ended(close: Callable[[Callable[[], None]], None]) -> None:
    gone: Deferred[None] = Deferred()
    close(lambda: gone.callback(None))
    await gone
