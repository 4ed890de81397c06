"""
The connections of the monitoring port and their limits.

They speak HTTP/1.1; requests have no bodies. The head of a request may take five seconds, its
answer thirty, and a connection may be idle for thirty seconds. The number of connections is
bounded: a new one closes the connection that has waited longest for a request, so idle peers keep
no client out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, HTTPFactory, Request, datetimeToString

#: Seconds for an answer to be made and received, and for an idle connection.
REQUEST_TIMEOUT = 30.0

#: Seconds for the head of a request, as nats-server's C{ReadHeaderTimeout}: from the connection's
#: beginning for the first one, from its first line for others.
HEAD_TIMEOUT = 5.0

#: The methods that are allowed.
METHODS = (b"GET", b"HEAD")
NOT_ALLOWED = b"405 Method Not Allowed\r\nAllow: GET, HEAD"

#: The most connections at the same time.
MOST_CONNECTIONS = 128


class MonitorSite(HTTPFactory):
    """
    A site without C{twisted.web.server.Site}, whose module loads templates, XML and Perspective
    Broker. This takes longer than loading all of the pages.
    """

    noisy = False

    def __init__(self, render: Callable[[Request], object], clock: IReactorTime) -> None:
        """C{render} answers a request, now or later."""
        super().__init__(timeout=None, reactor=clock)  # type: ignore[arg-type]
        self.protocol: Any = _Channel
        self.render = render
        self._channels: dict[_Channel, None] = {}
        self._waiting: dict[_Channel, None] = {}

    def startFactory(self) -> None:
        """Open no log file: requests are not logged."""

    def stopFactory(self) -> None:
        for channel in list(self._channels):
            channel.abort()

    def log(self, request: Any) -> None:
        """Log no requests."""

    def acceptableProtocols(self) -> list[bytes]:
        return [b"http/1.1"]

    def opened(self, channel: _Channel) -> None:
        self._channels[channel] = None
        if len(self._channels) > MOST_CONNECTIONS:
            loser = next(iter(self._waiting), channel)
            self._waiting.pop(loser, None)
            loser.abort()

    def waits(self, channel: _Channel) -> None:
        self._waiting[channel] = None

    def works(self, channel: _Channel) -> None:
        self._waiting.pop(channel, None)

    def gone(self, channel: _Channel) -> None:
        self._channels.pop(channel, None)
        self._waiting.pop(channel, None)


class _Request(Request):
    def process(self) -> None:
        self.setHeader(b"Date", datetimeToString())  # type: ignore[no-untyped-call]
        self.channel.factory.render(self)


class _Channel(HTTPChannel):
    requestFactory = _Request
    maxHeaders = 100
    factory: MonitorSite

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deadline: IDelayedCall | None = None
        self._method = b""
        self._isRefused = False
        self._isIdle = False

    def connectionMade(self) -> None:
        super().connectionMade()  # type: ignore[no-untyped-call]
        self.factory.opened(self)
        self.factory.waits(self)
        self._limit(HEAD_TIMEOUT)

    def lineReceived(self, line: bytes) -> None:
        """
        Refuse a line that begins with a space, because servers disagree about such continuations of
        headers.
        """
        if self._isRefused:
            return
        if line[:1] in (b" ", b"\t"):
            self._refuse(b"400 Bad Request")
            return
        before = len(self.requests)
        if self._isIdle:
            self._isIdle = False
            self._limit(HEAD_TIMEOUT)
        super().lineReceived(line)  # type: ignore[no-untyped-call]
        if len(self.requests) > before:
            self._method = line.partition(b" ")[0]

    def rawDataReceived(self, data: bytes) -> None:
        if not self._isRefused:
            super().rawDataReceived(data)

    def allHeadersReceived(self) -> None:
        """Refuse a request with a body before reading any of it."""
        super().allHeadersReceived()  # type: ignore[no-untyped-call]
        headers = self.requests[-1].requestHeaders
        if self.length != 0 or headers.hasHeader(b"Transfer-Encoding"):
            isKnown = self._method in METHODS
            self._refuse(b"413 Content Too Large" if isKnown else NOT_ALLOWED)

    def allContentReceived(self) -> None:
        if self._isRefused:
            return
        self.factory.works(self)
        self._limit(REQUEST_TIMEOUT)
        super().allContentReceived()  # type: ignore[no-untyped-call]

    def requestDone(self, request: Any) -> None:
        self._isIdle = True
        self.factory.waits(self)
        self._limit(REQUEST_TIMEOUT)
        super().requestDone(request)  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self.factory.gone(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    def abort(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()

    def _limit(self, seconds: float) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.reset(seconds)
        else:
            self._deadline = self.factory.reactor.callLater(seconds, self.abort)

    def _refuse(self, status: bytes) -> None:
        self._isRefused = True
        transport: Any = self.transport
        transport.write(
            b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        transport.loseConnection()
