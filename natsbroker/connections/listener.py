"""Listening for clients, on plain TCP ports with the fast transport if possible."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from OpenSSL import SSL
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, execute, maybeDeferred, succeed
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint, serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint
from twisted.internet.protocol import Factory
from twisted.python.compat import nativeString
from zope.interface import implementer

from natsbroker.config.addresses import joined
from natsbroker.connections.opensocket import ANYWHERE, BACKLOG, takesBoth
from natsbroker.connections.poller import SocketPoller, installTransport

#: A socket that listens already, or the endpoint that stands for one of another process.
Opened: TypeAlias = "socket.socket | IStreamServerEndpoint"


def addressEndpoint(
    reactor: Any,
    host: str,
    port: int,
    backlog: int = BACKLOG,
    opened: Opened | None = None,
) -> IStreamServerEndpoint:
    """
    @param host: an address or a name; L{ANYWHERE} for all addresses, of IPv4 and IPv6.
    @param port: negative for one that the kernel chooses.
    @param opened: what listens there already; C{None} for nothing.
    """
    if isinstance(opened, socket.socket):
        return OpenSocketEndpoint(reactor, opened, host)
    if opened is not None:
        return opened
    if host == ANYWHERE:
        return AnywhereEndpoint(reactor, max(port, 0), backlog)
    make = TCP6ServerEndpoint if ":" in host else TCP4ServerEndpoint
    return make(reactor, max(port, 0), backlog=backlog, interface=host)


@implementer(IStreamServerEndpoint)
@dataclass(frozen=True, eq=False)
class AnywhereEndpoint:
    """
    Every address of this machine: one IPv6 socket for both kinds, as in nats-server; without IPv6
    an IPv4 socket. Its address is L{ANYWHERE} either way.
    """

    host: ClassVar[str] = ANYWHERE

    reactor: Any
    port: int
    backlog: int = BACKLOG
    both: Callable[[], bool] = takesBoth

    def listen(self, protocolFactory: Any) -> Deferred[IListeningPort]:
        return execute(self._listen, protocolFactory)

    def _listen(self, factory: Any) -> IListeningPort:
        interface = "::" if self.both() else ANYWHERE
        try:
            port: IListeningPort = self.reactor.listenTCP(
                self.port, factory, backlog=self.backlog, interface=interface
            )
        except CannotListenError as error:
            raise CannotListenError(ANYWHERE, error.port, error.socketError) from error
        return port


@implementer(IStreamServerEndpoint)
@dataclass(frozen=True, eq=False)
class OpenSocketEndpoint:
    """A socket that was opened in advance; closed when the reactor has it."""

    reactor: Any
    opened: socket.socket
    host: str

    def listen(self, protocolFactory: Any) -> Deferred[IListeningPort]:
        return execute(self._listen, protocolFactory)

    def _listen(self, factory: Any) -> IListeningPort:
        with self.opened as opened:
            opened.setblocking(False)
            port: IListeningPort = self.reactor.adoptStreamPort(
                opened.fileno(), opened.family, factory
            )
        return port


def endpointFor(reactor: Any, description: str) -> IStreamServerEndpoint:
    """
    @param description: such as C{tcp:4222:interface=127.0.0.1} or C{unix:/path}. The backlog is
        ours unless it names one.
    @raise ValueError: for a wrong description or file.
    """
    kind = description.partition(":")[0]
    if kind == "tls":
        raise ValueError(
            f"{description}: describe it as ssl:, or list its certificates in tls.certs"
        )
    if kind in ("tcp", "tcp6", "unix") and "backlog=" not in description:
        description = f"{description}:backlog={BACKLOG}"
    try:
        endpoint: IStreamServerEndpoint = serverFromString(reactor, description)
    except LookupError:
        raise ValueError(f"{description}: no such socket was passed to this process") from None
    except (OSError, TypeError, SSL.Error) as error:
        raise ValueError(f"{description}: {error}") from error
    return endpoint


class PortListener:
    def __init__(self, endpoint: IStreamServerEndpoint, factory: Factory) -> None:
        self.port: IListeningPort | None = None
        self._endpoint = endpoint
        self._factory = factory

    def open(self) -> Deferred[PortListener]:
        opening = maybeDeferred(self._endpoint.listen, self._factory)
        return opening.addCallback(self._opened)

    def _opened(self, port: IListeningPort) -> PortListener:
        self.port = port
        return self

    def close(self) -> Deferred[None]:
        port, self.port = self.port, None
        if port is None:
            return succeed(None)
        return maybeDeferred(port.stopListening).addCallback(lambda _: None)

    @property
    def address(self) -> Any:
        if self.port is None:
            return None
        address: Any = self.port.getHost()
        if getattr(self._endpoint, "host", "") == ANYWHERE:
            return IPv4Address("TCP", ANYWHERE, address.port)
        return address

    @property
    def factory(self) -> Factory:
        return self._factory

    def use(self, factory: Factory, poller: SocketPoller | None) -> None:
        """Use another factory for later connections."""
        self._factory = factory
        port: Any = self.port
        if port is None:
            return
        port.factory = factory
        vars(port).pop("transport", None)
        if poller is not None:
            self.accelerate(poller)

    def accelerate(self, poller: SocketPoller) -> bool:
        """Use the fast transport for later connections. Return whether the port uses it too."""
        factory: Any = self._factory
        if hasattr(factory, "poller"):
            factory.poller = poller
        return installTransport(self.port, poller)


def describe(address: Any) -> str:
    host = getattr(address, "host", None)
    if host is None:
        name = getattr(address, "name", b"") or b""
        return nativeString(name)
    return joined(host, address.port)


def urlOf(scheme: str, address: Any) -> str:
    where = describe(address)
    for anywhere, here in (("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")):
        if where.startswith(anywhere):
            where = here + where[len(anywhere) :]
    return f"{scheme}://{where}"
