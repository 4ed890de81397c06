"""The client listeners of a broker. Either all of them listen or none. Connections outlive them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IStreamServerEndpoint
from twisted.internet.protocol import Factory

from natsbroker.clients.context import ClientContext
from natsbroker.clients.protocol import ClientFactory
from natsbroker.config.model import Settings, TLSSettings
from natsbroker.connections.listener import PortListener, endpointFor, urlOf
from natsbroker.connections.poller import SocketPoller
from natsbroker.runtime.failures import cannotListen

if TYPE_CHECKING:
    from natsbroker.clients.sslendpoints import SSLEndpoint
    from natsbroker.connections.tls import TLSTerms


class Listeners:
    def __init__(
        self,
        reactor: Any,
        context: ClientContext,
        endpoints: Iterable[str | IStreamServerEndpoint],
        terms: TLSTerms | None,
        settings: Settings = Settings(),  # noqa: B008 - an immutable value
    ) -> None:
        """
        @param terms: the terms of TLS; C{None} without TLS. An C{ssl:...} endpoint has its own
            terms, with the settings' policy.
        @raise ValueError: for a wrong description or file.
        """
        self._context = context
        self._isProxied = settings.proxy_protocol
        policy = settings.tls or TLSSettings()
        self._poller: SocketPoller | None = None
        self._listeners: list[PortListener] = []
        self._secured: dict[PortListener, SSLEndpoint] = {}
        for endpoint in endpoints:
            if isinstance(endpoint, str):
                listener = self._described(reactor, endpoint, terms, policy)
            else:
                listener = PortListener(endpoint, self._factoryFor(terms))
            self._listeners.append(listener)

    def _described(
        self, reactor: Any, description: str, terms: TLSTerms | None, policy: TLSSettings
    ) -> PortListener:
        from natsbroker.clients.sslendpoints import SSLEndpoint

        if not SSLEndpoint.isMeant(description):
            return PortListener(endpointFor(reactor, description), self._factoryFor(terms))
        described = SSLEndpoint.fromDescription(description)
        factory = self._factoryFor(described.terms(policy))
        listener = PortListener(described.endpoint(reactor), factory)
        self._secured[listener] = described
        return listener

    def _factoryFor(self, terms: TLSTerms | None) -> Factory:
        if terms is None:
            return ClientFactory(self._context, isProxied=self._isProxied)
        from natsbroker.clients.tls import TLSClientFactory

        return TLSClientFactory(self._context, terms, self._isProxied)

    def planTerms(
        self,
        terms: TLSTerms | None,
        policy: TLSSettings = TLSSettings(),  # noqa: B008 - an immutable value
    ) -> Callable[[], None]:
        """
        Prepare other terms for later connections, with the files of C{ssl:} endpoints.

        @return: a callable that puts them into force and cannot fail.
        @raise ValueError: if a file is not right; nothing has changed.
        """
        secured = {endpoint: self._secured[endpoint].terms(policy) for endpoint in self._secured}

        def apply() -> None:
            for listener in self._listeners:
                self._use(listener, secured.get(listener, terms))

        return apply

    def _use(self, listener: PortListener, terms: TLSTerms | None) -> None:
        from natsbroker.clients.tls import TLSClientFactory

        factory = listener.factory
        if terms is not None and isinstance(factory, TLSClientFactory):
            factory.terms = terms
        elif terms is not None or isinstance(factory, TLSClientFactory):
            listener.use(self._factoryFor(terms), self._poller)

    def __iter__(self) -> Iterator[PortListener]:
        return iter(self._listeners)

    async def open(self, poller: SocketPoller | None) -> None:
        """
        @param poller: for plain TCP ports; C{None} for Twisted's transports.
        @raise StartError: if a listener cannot listen. Then none does.
        """
        self._poller = poller
        try:
            for listener in self._listeners:
                await listener.open()
                if poller is not None:
                    listener.accelerate(poller)
        except CannotListenError as error:
            await self.close()
            raise cannotListen(error) from error

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()

    @property
    def isOpen(self) -> bool:
        return any(listener.port is not None for listener in self._listeners)

    def closed(self) -> list[str]:
        return [
            f"client listener {number}"
            for number, listener in enumerate(self._listeners, 1)
            if listener.port is None
        ]

    def urls(self) -> list[str]:
        urls = []
        for listener in self._listeners:
            if listener.port is not None:
                terms = getattr(listener.factory, "terms", None)
                isTLS = terms is not None and not terms.optional
                urls.append(urlOf("tls" if isTLS else "nats", listener.address))
        return urls

    def expiry(self) -> str | None:
        """The expiry of the certificate for clients; C{None} without TLS."""
        terms = [getattr(listener.factory, "terms", None) for listener in self._listeners]
        return next((known.creator.expiry for known in terms if known is not None), None)

    def firstAddress(self) -> tuple[str, int]:
        """Host and port of the first one; a UNIX socket's path and 0."""
        for listener in self._listeners:
            address = listener.address
            if address is not None:
                name = getattr(address, "name", None)
                return (address.host, address.port) if name is None else (str(name), 0)
        raise ValueError("the broker does not listen for clients")
