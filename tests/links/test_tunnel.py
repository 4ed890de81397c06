"""
Connections through an HTTP proxy.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from natsbroker.links.tunnel import TunnelEndpoint, TunnelRefused

AGREED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Peer(Protocol):
    """The protocol that uses the tunnel."""

    def __init__(self) -> None:
        self.came = b""
        self.isLost = False

    def dataReceived(self, data: bytes) -> None:
        self.came += data

    def connectionLost(self, reason: Any = None) -> None:
        self.isLost = True


class Proxy:
    """
    A proxy that the test plays, and a tunnel that connects through it.

    @ivar results: the connection, or its failure.
    """

    transport: Any

    def __init__(self, login: tuple[str, str] = ("", ""), isReached: bool = True) -> None:
        self.clock = Clock()
        self.reached: Deferred[Any] = Deferred()
        self.results: list[Any] = []
        endpoint = TunnelEndpoint(self.clock, self, "h.example:443", login, 2.0)  # type: ignore[arg-type]
        self.connecting = endpoint.connect(Factory.forProtocol(Peer))
        self.connecting.addBoth(self.results.append)
        if isReached:
            self.reach()

    def connect(self, factory: Any) -> Deferred[Any]:
        """Return the connection to the proxy, as an endpoint."""
        self.factory = factory
        return self.reached

    def reach(self) -> None:
        """Accept the connection."""
        protocol = self.factory.buildProtocol(None)
        self.transport = StringTransport()
        self.transport.protocol = protocol
        protocol.makeConnection(self.transport)
        self.reached.callback(protocol)

    def said(self) -> bytes:
        """The bytes that the proxy has received."""
        data: bytes = self.transport.value()
        self.transport.clear()
        return data

    def say(self, data: bytes) -> None:
        """Answer as the proxy."""
        self.transport.protocol.dataReceived(data)

    def hangUp(self) -> None:
        """Close the connection."""
        self.transport.protocol.connectionLost(Failure(ConnectionDone()))

    @property
    def error(self) -> str:
        """The error of the failed connection."""
        (failure,) = self.results
        assert isinstance(failure, Failure) and failure.check(TunnelRefused)
        return failure.getErrorMessage()


def test_asks() -> None:
    """The tunnel requests the peer by its name, with the configured login."""
    assert Proxy().said() == (b"CONNECT h.example:443 HTTP/1.1\r\nHost: h.example:443\r\n\r\n")
    asked = Proxy(("u", "p:\u00e4")).said()
    assert b"\r\nProxy-Authorization: Basic dTpwOsOk\r\n" in asked


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("rest", [b"", b"INFO {}\r\n"])
def test_passes(rest: bytes, size: int) -> None:
    """Bytes after the proxy's answer are the peer's, and the time limit ends with the answer."""
    proxy = Proxy()
    data = AGREED + rest
    for start in range(0, len(data), size):
        proxy.say(data[start : start + size])
    (peer,) = proxy.results
    assert isinstance(peer, Peer) and peer.came == rest
    proxy.said()
    proxy.say(b"more")
    assert peer.transport is not None
    peer.transport.write(b"said")
    proxy.clock.advance(3.0)
    assert peer.came == rest + b"more" and proxy.said() == b"said"
    assert not proxy.clock.getDelayedCalls()
    proxy.hangUp()
    assert peer.isLost


@pytest.mark.parametrize(
    "said, error",
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 5\r\n\r\nhello",
            "proxy CONNECT failed: 407 Proxy Authentication Required",
        ),
        (b"HTTP/1.1 201 Created\r\n\r\n", "proxy CONNECT failed: 201 Created"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "proxy CONNECT failed: 100 Continue"),
        (b"SSH-2.0-x\r\n\r\n", "failed to read proxy response"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20000, "the proxy's answer is too long"),
    ],
)
def test_refusal(said: bytes, error: str) -> None:
    """Any other answer fails the connection with its text."""
    proxy = Proxy()
    proxy.say(said)
    assert error in proxy.error
    assert proxy.transport.disconnected and not proxy.clock.getDelayedCalls()


def test_lateProxy() -> None:
    """A proxy that does not complete its answer in time fails the connection."""
    proxy = Proxy()
    for byte in b"HTTP":
        proxy.clock.advance(0.6)
        if not proxy.results:
            proxy.say(bytes([byte]))
    assert proxy.error == "failed to read proxy response: timeout"
    assert proxy.transport.disconnected


def test_closedProxy() -> None:
    """A proxy that closes the connection fails it."""
    proxy = Proxy()
    proxy.hangUp()
    assert "it closed the connection" in proxy.error and not proxy.clock.getDelayedCalls()


@pytest.mark.parametrize("isReached", [True, False])
def test_cancel(isReached: bool) -> None:
    """A connection attempt can be cancelled at any time."""
    proxy = Proxy(isReached=isReached)
    proxy.connecting.cancel()
    assert len(proxy.results) == 1 and isinstance(proxy.results[0], Failure)
    assert not proxy.clock.getDelayedCalls()
    if isReached:
        assert proxy.transport.disconnected
