"""Connections through an HTTP proxy with C{CONNECT}."""

from __future__ import annotations

import base64
from typing import Any

import h11
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import (
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

#: The most bytes of headers of an answer.
_LARGEST = 1 << 14


class TunnelRefused(ConnectError):
    def __init__(self, text: str) -> None:
        super().__init__(string=text)  # type: ignore[no-untyped-call]
        self.text = text

    def __str__(self) -> str:
        return self.text


@implementer(IStreamClientEndpoint)
class TunnelEndpoint:
    """An endpoint that connects to a peer through a proxy. The peer's name is resolved there."""

    def __init__(
        self,
        reactor: IReactorTime,
        proxy: IStreamClientEndpoint,
        target: str,
        login: tuple[str, str],
        timeout: float,
    ) -> None:
        """
        @param proxy: connects to the proxy.
        @param target: the peer as C{host:port}.
        @param login: the user and the password for the proxy; empty for none.
        @param timeout: in seconds, for the proxy's answer.
        """
        self._reactor = reactor
        self._proxy = proxy
        self._target = target
        self._login = login
        self._timeout = timeout

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:
        answered: Deferred[Any] = Deferred(lambda _: tunnel.abandon())
        tunnel = _Tunnel(self._reactor, self._timeout, protocolFactory, self._request(), answered)
        reaching: Deferred[Any] = self._proxy.connect(Factory.forProtocol(lambda: tunnel))
        return reaching.addCallback(lambda _: answered)

    def _request(self) -> bytes:
        headers = [("Host", self._target)]
        user, password = self._login
        if user:
            text = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
            headers.append(("Proxy-Authorization", f"Basic {text}"))
        request = h11.Request(method="CONNECT", target=self._target, headers=headers)
        http = h11.Connection(h11.CLIENT)
        return (http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b"")


class _Tunnel(Protocol):
    """The protocol of the connection until the proxy has answered; then the peer's takes over."""

    def __init__(
        self,
        reactor: IReactorTime,
        timeout: float,
        factory: IProtocolFactory,
        request: bytes,
        answered: Deferred[Any],
    ) -> None:
        self._reactor = reactor
        self._timeout = timeout
        self._timer: Any = None
        self._factory = factory
        self._request = request
        self._answered: Deferred[Any] | None = answered
        self._head = b""

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.write(self._request)
        self._timer = self._reactor.callLater(self._timeout, self._late)

    def dataReceived(self, data: bytes) -> None:
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if len(head) > _LARGEST:
            self._fail(TunnelRefused("the proxy's answer is too long"))
        elif end:
            self._read(head + end, rest)

    def _read(self, head: bytes, rest: bytes) -> None:
        http = h11.Connection(h11.CLIENT)
        http.send(h11.Request(method="CONNECT", target="x", headers=[("Host", "x")]))
        try:
            http.receive_data(head)
            answer = http.next_event()
        except h11.RemoteProtocolError as error:
            self._fail(TunnelRefused(f"failed to read proxy response: {error}"))
            return
        status = getattr(answer, "status_code", 0)
        if not isinstance(answer, h11.Response) or status != 200:
            reason = bytes(getattr(answer, "reason", b"")).decode("latin-1")
            self._fail(TunnelRefused(f"proxy CONNECT failed: {status} {reason}".strip()))
            return
        self._handOver(rest)

    def _handOver(self, rest: bytes) -> None:
        answered, self._answered = self._answered, None
        self._stopTimer()
        transport: Any = self.transport
        above: Any = self._factory.buildProtocol(transport.getPeer())
        if answered is None or above is None:
            transport.abortConnection()
            return
        transport.protocol = above
        above.makeConnection(transport)
        if rest:
            above.dataReceived(rest)
        answered.callback(above)

    def _late(self) -> None:
        self._timer = None
        self._fail(TunnelRefused("failed to read proxy response: timeout"))

    def _stopTimer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def abandon(self) -> None:
        self._answered = None
        self._abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._fail(TunnelRefused("failed to read proxy response: it closed the connection"))

    def _fail(self, error: Exception) -> None:
        answered, self._answered = self._answered, None
        self._abort()
        if answered is not None:
            answered.errback(error)

    def _abort(self) -> None:
        self._stopTimer()
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()
