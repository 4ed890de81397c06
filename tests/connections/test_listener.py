"""
Listening for clients.
"""

from __future__ import annotations

import socket
from typing import Any

import pytest
from twisted.internet import tcp
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactor

from natsbroker.clients.protocol import ClientFactory
from natsbroker.connections.listener import (
    AnywhereEndpoint,
    PortListener,
    addressEndpoint,
    describe,
    endpointFor,
    urlOf,
)
from natsbroker.connections.opensocket import BACKLOG

FACTORY = Factory()


def memory() -> Any:
    """A reactor that only records calls."""
    return MemoryReactor()


class TestEndpoints:
    """Endpoints made from addresses and descriptions."""

    @pytest.mark.parametrize(
        ("host", "port", "listened"), [("127.0.0.1", 4222, 4222), ("::1", 0, 0), ("::", -1, 0)]
    )
    def test_address(self, host: str, port: int, listened: int) -> None:
        """
        An address gets an endpoint with a long backlog. For a negative port the kernel chooses one.
        """
        reactor = memory()
        PortListener(addressEndpoint(reactor, host, port), FACTORY).open()
        assert reactor.tcpServers == [(listened, FACTORY, BACKLOG, host)]

    @pytest.mark.parametrize(("both", "interface"), [(True, "::"), (False, "0.0.0.0")])
    def test_anywhere(self, both: bool, interface: str) -> None:
        """
        A listener on all interfaces has one socket for IPv6 and IPv4 if the machine permits that,
        or only an IPv4 socket. The reported address is the same.
        """
        reactor = memory()
        listener = PortListener(AnywhereEndpoint(reactor, 4222, both=lambda: both), FACTORY)
        listener.open()
        assert reactor.tcpServers == [(4222, FACTORY, BACKLOG, interface)]
        assert describe(listener.address) == "0.0.0.0:4222"
        assert isinstance(addressEndpoint(reactor, "0.0.0.0", -1), AnywhereEndpoint)

    def test_anywhereTaken(self) -> None:
        """A port in use is reported with the configured address."""
        reactor = memory()

        def listenTCP(*arguments: Any, **more: Any) -> Any:
            raise CannotListenError(more["interface"], 4222, OSError(98, "Address already in use"))

        reactor.listenTCP = listenTCP
        failures: list[Any] = []
        PortListener(addressEndpoint(reactor, "0.0.0.0", 4222), FACTORY).open().addErrback(
            failures.append
        )
        error = failures[0].value
        assert (error.interface, error.port, error.socketError.errno) == ("0.0.0.0", 4222, 98)

    def test_description(self) -> None:
        """An endpoint given as a description is opened."""
        reactor = memory()
        PortListener(endpointFor(reactor, "tcp:4222:interface=127.0.0.1"), FACTORY).open()
        assert reactor.tcpServers == [(4222, FACTORY, BACKLOG, "127.0.0.1")]

    def test_addressWithBacklog(self) -> None:
        """The backlog of an address can be given."""
        reactor = memory()
        PortListener(addressEndpoint(reactor, "127.0.0.1", 1, 7), FACTORY).open()
        assert reactor.tcpServers == [(1, FACTORY, 7, "127.0.0.1")]

    def test_descriptionWithBacklog(self) -> None:
        """The backlog of a description replaces the given one."""
        reactor = memory()
        PortListener(endpointFor(reactor, "tcp:4222:backlog=5"), FACTORY).open()
        assert reactor.tcpServers == [(4222, FACTORY, 5, "")]

    def test_unix(self) -> None:
        """A description of a Unix socket makes an endpoint."""
        reactor = memory()
        PortListener(endpointFor(reactor, "unix:/run/n.sock"), FACTORY).open()
        assert reactor.unixServers[0][0] == "/run/n.sock"

    @pytest.mark.parametrize(
        "text",
        [
            *("nowhere:1", "", "tcp:1:bogus=2", "tls:/folder:4222", "unix:/x:mode=9"),
            *("systemd:domain=INET:index=7", "systemd:domain=INET:name=nobody"),
        ],
    )
    def test_unusableTextIsRefused(self, text: str) -> None:
        """A text that is not a description of an endpoint is refused."""
        with pytest.raises(ValueError):
            endpointFor(memory(), text)


class TestListener:
    """A listener at one address."""

    def test_openAndClose(self) -> None:
        """A listener has an address while it is open."""
        listener: Any = PortListener(addressEndpoint(memory(), "127.0.0.1", 4000), FACTORY)
        assert listener.address is None
        opened: list[Any] = []
        listener.open().addCallback(opened.append)
        assert opened == [listener]
        assert describe(listener.address) == "0.0.0.0:4000"
        closed: list[Any] = []
        listener.close().addCallback(closed.append)
        assert closed == [None]
        assert listener.address is None

    def test_closeTwice(self) -> None:
        """Closing twice does nothing."""
        closed: list[Any] = []
        listener = PortListener(addressEndpoint(memory(), "127.0.0.1", 4000), FACTORY)
        listener.close().addCallback(closed.append)
        assert closed == [None]

    def test_fails(self) -> None:
        """An error of the endpoint reaches the caller of open."""

        class Taken:
            def listen(self, factory: Any) -> Any:
                raise CannotListenError("h", 1, OSError())

        failures: list[Any] = []
        PortListener(Taken(), FACTORY).open().addErrback(failures.append)  # type: ignore[arg-type]
        assert failures[0].check(CannotListenError)

    def test_use(self) -> None:
        """A new factory makes later connections, and the port loses its fast transport."""
        listener = PortListener(addressEndpoint(memory(), "127.0.0.1", 4000), FACTORY)
        listener.open()
        port: Any = listener.port
        port.transport = "fast"
        other = Factory()
        listener.use(other, None)
        assert listener.factory is other
        assert port.factory is other
        assert "transport" not in vars(port)

    def test_useBeforeOpening(self) -> None:
        """A new factory can be set before the listener is open."""
        reactor = memory()
        listener = PortListener(addressEndpoint(reactor, "127.0.0.1", 4000), FACTORY)
        other = Factory()
        listener.use(other, None)
        listener.open()
        assert reactor.tcpServers[0][1] is other


class TestAcceleration:
    """Ports that the poller accelerates."""

    HUB: Any = object()

    def accelerated(self, factory: Factory, port: Any) -> bool:
        """Whether the poller accelerates a port."""
        listener = PortListener(addressEndpoint(memory(), "h", 1), factory)
        listener.port = port
        return listener.accelerate(self.HUB)

    def test_plain(self) -> None:
        """The poller accelerates a plain TCP port for clients."""
        factory = ClientFactory(None)  # type: ignore[arg-type]
        port: Any = tcp.Port(0, factory, reactor=memory())
        assert self.accelerated(factory, port)
        assert "transport" in vars(port)

    def test_otherFactory(self) -> None:
        """The poller does not accelerate a port whose factory wraps its protocols."""

        class Between(ClientFactory):
            pass

        factory = Between(None)  # type: ignore[arg-type]
        port: Any = tcp.Port(0, factory, reactor=memory())
        assert not self.accelerated(factory, port)
        assert "transport" not in vars(port)

    def test_otherPort(self) -> None:
        """The poller does not accelerate a port that is not TCP."""
        assert not self.accelerated(ClientFactory(None), object())  # type: ignore[arg-type]


class TestNames:
    """Addresses as texts and as URLs."""

    @pytest.mark.parametrize(
        ("address", "text"),
        [
            (IPv4Address("TCP", "127.0.0.1", 1), "127.0.0.1:1"),
            (IPv6Address("TCP", "::1", 1), "[::1]:1"),
            (UNIXAddress(b"/run/n.sock"), "/run/n.sock"),
            (UNIXAddress(None), ""),
        ],
    )
    def test_describe(self, address: Any, text: str) -> None:
        """An address is shown as host and port, or as a path."""
        assert describe(address) == text

    @pytest.mark.parametrize(
        ("address", "text"),
        [
            (IPv4Address("TCP", "10.0.0.1", 1), "nats://10.0.0.1:1"),
            (IPv4Address("TCP", "0.0.0.0", 1), "nats://127.0.0.1:1"),
            (IPv6Address("TCP", "::", 1), "nats://[::1]:1"),
        ],
    )
    def test_url(self, address: Any, text: str) -> None:
        """The URL of a port is one that programs on this machine can use."""
        assert urlOf("nats", address) == text


def test_reusesAddresses() -> None:
    """A port that was just closed can be listened on again (Twisted sets the option)."""
    port: Any = tcp.Port(0, FACTORY, interface="127.0.0.1", reactor=memory())
    port.startListening()
    try:
        assert port.socket.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    finally:
        port.socket.close()
