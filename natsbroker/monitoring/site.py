"""
Connections of the monitoring port: what HTTP they may speak, and for how long.

Promises: HTTP/1.1 without bodies in requests; a request has five seconds to come, from the
connection's beginning or its first line, and thirty to be answered, and the next one thirty to
begin; there are only so many connections, and the one that has waited longest for its request
gives way to a new one, so that those who send nothing keep nobody out.
Must never know: pages.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import Site

__all__ = ["HEAD_TIMEOUT", "METHODS", "MOST_CONNECTIONS", "REQUEST_TIMEOUT", "MonitorSite"]

#: How long an answer may take to be made and taken, and how long a connection may be idle between
#: two requests.
REQUEST_TIMEOUT = 30.0

#: How long a request may take to come: its first from the beginning of the connection on, which is
#: nats-server's C{ReadHeaderTimeout}, and others from their first line on.
HEAD_TIMEOUT = 5.0

#: What may be done here.
METHODS = (b"GET", b"HEAD")
NOT_ALLOWED = b"405 Method Not Allowed\r\nAllow: GET, HEAD"

#: How many connections there may be.
MOST_CONNECTIONS = 128


class MonitorSite(Site):
    """
    The connections of the monitoring port.
    """

    noisy = False

    def __init__(self, resource: Resource, clock: IReactorTime) -> None:
        """
        @param resource: answers every request.
        @param clock: for timers.
        """
        super().__init__(resource, timeout=None, reactor=clock)  # type: ignore[no-untyped-call]
        self.protocol: Any = _Channel
        self._channels: dict[_Channel, None] = {}
        self._waiting: dict[_Channel, None] = {}

    def startFactory(self) -> None:
        """
        Nothing is logged for each request, so nothing is opened.
        """

    def stopFactory(self) -> None:
        """
        Cut the connections that are still there.
        """
        for channel in list(self._channels):
            channel.abort()

    def log(self, request: Any) -> None:
        """
        Requests are not logged: they are many, and say nothing.
        """

    def acceptableProtocols(self) -> list[bytes]:
        """
        HTTP/1.1 alone.
        """
        return [b"http/1.1"]

    def opened(self, channel: _Channel) -> None:
        """
        There is one more connection; if it is one too many, another gives way.
        """
        self._channels[channel] = None
        if len(self._channels) > MOST_CONNECTIONS:
            loser = next(iter(self._waiting), channel)
            self._waiting.pop(loser, None)
            loser.abort()

    def waits(self, channel: _Channel) -> None:
        """
        A connection waits for a request from now on.
        """
        self._waiting[channel] = None

    def works(self, channel: _Channel) -> None:
        """
        A connection got its request.
        """
        self._waiting.pop(channel, None)

    def gone(self, channel: _Channel) -> None:
        """
        There is one connection less.
        """
        self._channels.pop(channel, None)
        self._waiting.pop(channel, None)


class _Channel(HTTPChannel):
    """
    One connection.
    """

    maxHeaders = 100
    factory: MonitorSite

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deadline: IDelayedCall | None = None
        self._method = b""
        self._isRefused = False
        self._isIdle = False

    def connectionMade(self) -> None:
        """
        Wait for the first request.
        """
        super().connectionMade()  # type: ignore[no-untyped-call]
        self.factory.opened(self)
        self.factory.waits(self)
        self._limit(HEAD_TIMEOUT)

    def lineReceived(self, line: bytes) -> None:
        """
        Take a line of a request. One that begins with a blank continues a header in an obsolete way
        which others read otherwise: it is refused.
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
        """
        Take what comes while a request is answered.
        """
        if not self._isRefused:
            super().rawDataReceived(data)

    def allHeadersReceived(self) -> None:
        """
        The head of a request is there: refuse one with a body before any of it is taken.
        """
        super().allHeadersReceived()  # type: ignore[no-untyped-call]
        headers = self.requests[-1].requestHeaders
        if self.length != 0 or headers.hasHeader(b"Transfer-Encoding"):
            isKnown = self._method in METHODS
            self._refuse(b"413 Content Too Large" if isKnown else NOT_ALLOWED)

    def allContentReceived(self) -> None:
        """
        A request is there.
        """
        if self._isRefused:
            return
        self.factory.works(self)
        self._limit(REQUEST_TIMEOUT)
        super().allContentReceived()  # type: ignore[no-untyped-call]

    def requestDone(self, request: Any) -> None:
        """
        A request was answered.
        """
        self._isIdle = True
        self.factory.waits(self)
        self._limit(REQUEST_TIMEOUT)
        super().requestDone(request)  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """
        The connection is gone.
        """
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self.factory.gone(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    def abort(self) -> None:
        """
        Cut the connection.
        """
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
