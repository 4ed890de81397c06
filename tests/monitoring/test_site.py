"""Tests for L{natsbroker.monitoring.site}."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from natsbroker.monitoring.site import HEAD_TIMEOUT, MOST_CONNECTIONS, REQUEST_TIMEOUT, MonitorSite
from natsbroker.testing.transport import MemoryTransport

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Page:
    """
    A page that answers C{hello}, at once or when the test says so.

    @ivar open: the requests that are not answered yet.
    @ivar asked: how many requests there were.
    """

    def __init__(self, waits: bool = False) -> None:
        self._waits = waits
        self.open: list[Any] = []
        self.asked = 0

    def render(self, request: Any) -> None:
        """Answer."""
        self.asked += 1
        if self._waits:
            self.open.append(request)
        else:
            request.setHeader(b"Content-Length", b"5")
            request.write(b"hello")
            request.finish()


class Port:
    """
    A monitoring port in memory.
    """

    def __init__(self, waits: bool = False) -> None:
        self.clock = Clock()
        self.page = Page(waits)
        self.site = MonitorSite(self.page.render, self.clock)
        self.site.doStart()  # type: ignore[no-untyped-call]

    def dial(self) -> MemoryTransport:
        """Connect."""
        protocol: Any = self.site.buildProtocol(None)
        transport = MemoryTransport(self.clock, protocol)
        transport.connect()
        return transport

    def ask(self, *data: bytes) -> tuple[bytes, str]:
        """Send bytes on a new connection. Return the output, and how the connection ended."""
        transport = self.dial()
        for byte in data:
            transport.send(byte)
        self.clock.advance(0)
        return transport.take(), transport.closed


class TestRequests:
    """Requests that are served."""

    def test_keepAlive(self) -> None:
        """A request is answered, and the connection stays for the next one."""
        port = Port()
        transport = port.dial()
        for _ in range(3):
            transport.send(GET)
            port.clock.advance(0)
            assert transport.take().endswith(b"hello")
        assert transport.closed == ""

    def test_anySplit(self) -> None:
        """A request may arrive in single bytes."""
        answer, _ = Port().ask(*(GET[n : n + 1] for n in range(len(GET))))
        assert answer.startswith(b"HTTP/1.1 200 ")

    def test_pipelined(self) -> None:
        """Requests that come together are answered one after another."""
        answer, _ = Port().ask(GET * 5)
        assert answer.count(b"hello") == 5

    def test_http10(self) -> None:
        """A probe that speaks HTTP/1.0 is answered, and the connection closed."""
        answer, closed = Port().ask(b"GET / HTTP/1.0\r\n\r\n")
        assert answer.endswith(b"hello")
        assert closed == "lost"

    @pytest.mark.parametrize(
        "headers",
        [
            b"Content-Length: 5\r\n\r\nhello",
            b"Content-Length: 99999999999\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"Transfer-Encoding: identity\r\n\r\n",
        ],
    )
    def test_noBody(self, headers: bytes) -> None:
        """A request with a body is refused before the body is taken."""
        port = Port()
        answer, closed = port.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + headers)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert (closed, port.page.asked) == ("lost", 0)

    @pytest.mark.parametrize("method", [b"POST", b"PUT", b"get", b"BREW"])
    def test_otherMethod(self, method: bytes) -> None:
        """A request with a body and an unsupported method is refused for its method."""
        port = Port()
        head = b" / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
        answer, closed = port.ask(GET + method + head + b"hello")
        first, _, second = answer.partition(b"hello")
        assert first.startswith(b"HTTP/1.1 200 ")
        assert second.startswith(b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n")
        assert (closed, port.page.asked) == ("lost", 1)

    def test_emptyBody(self) -> None:
        """A request with a body of length 0 is served."""
        answer, _ = Port().ask(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")

    @pytest.mark.parametrize(
        "headers",
        [
            b"Content-Length: +5\r\n\r\nhello",
            b"Content-Length: 5, 5\r\n\r\nhello",
            b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked, identity\r\n\r\n",
            b"X-Folded: a\r\n b\r\n\r\n",
            b"X-Folded: a\r\n\tContent-Length: 5\r\n\r\nhello",
            b"No colon\r\n\r\n",
            b"Na me: x\r\n\r\n",
            b"X" * 9_000 + b": x\r\n" + b"Y" * 9_000 + b": x\r\n\r\n",
            b"X: x\r\n" * 200 + b"\r\n",
        ],
    )
    def test_smuggling(self, headers: bytes) -> None:
        """A request whose length is ambiguous is refused, and the connection closed."""
        port = Port()
        start = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
        answer, closed = port.ask(start + headers + GET)
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))
        assert answer.count(b"HTTP/1.1") == 1
        assert (closed, port.page.asked) == ("lost", 0)

    def test_endlessLine(self) -> None:
        """A line that does not end is not kept: the connection is closed."""
        answer, closed = Port().ask(*([b"G" * 10_000] * 3))
        assert (answer, closed) == (b"", "lost")

    @pytest.mark.parametrize(
        "line", [b"", b"GET", b"GET /", b"GET / HTTP/2.0", b"GET / x", b" GET / HTTP/1.1"]
    )
    def test_noRequest(self, line: bytes) -> None:
        """A malformed HTTP request is refused."""
        port = Port()
        answer, _ = port.ask(line + b"\r\n\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert port.page.asked == 0

    def test_http2(self) -> None:
        """HTTP/2 is not offered, and a connection that starts it is closed."""
        port = Port()
        assert port.site.acceptableProtocols() == [b"http/1.1"]
        answer, closed = port.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert (answer.count(b"HTTP/1.1 400 "), closed) == (1, "lost")

    def test_nothingAfterRefusal(self) -> None:
        """After a refusal, further input on the connection is ignored."""
        port = Port()
        transport = port.dial()
        transport.send(b"GET / HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        protocol: Any = transport._protocol
        protocol.dataReceived(b"x" * 100)
        protocol.dataReceived(GET)
        port.clock.advance(0)
        assert transport.take().count(b"HTTP/1.1") == 1
        assert port.page.asked == 0


class TestTime:
    """The time limits of a request."""

    def test_nothingComes(self) -> None:
        """A connection that sends nothing is closed after five seconds, as by nats-server."""
        port = Port()
        transport = port.dial()
        assert HEAD_TIMEOUT == 5.0
        port.clock.advance(HEAD_TIMEOUT - 0.1)
        assert transport.closed == ""
        port.clock.advance(0.2)
        assert transport.closed == "aborted"

    def test_dribble(self) -> None:
        """A connection that sends its request too slowly is closed."""
        port = Port()
        transport = port.dial()
        transport.send(b"GET / HTTP/1.1\r\n")
        for _ in range(int(HEAD_TIMEOUT) + 1):
            transport.send(b"X: y\r\n")
            port.clock.advance(1)
        assert transport.closed == "aborted"

    def test_dribbleLater(self) -> None:
        """A connection that sends its second request too slowly is closed."""
        port = Port()
        transport = port.dial()
        transport.send(GET)
        port.clock.advance(REQUEST_TIMEOUT - 1)
        transport.send(b"GET / HTTP/1.1\r\n")
        for _ in range(int(HEAD_TIMEOUT)):
            assert transport.closed == ""
            transport.send(b"X: y\r\n")
            port.clock.advance(1)
        assert transport.closed == "aborted"

    def test_eachRequestHasItsTime(self) -> None:
        """The time limit starts again after each answer."""
        port = Port()
        transport = port.dial()
        for _ in range(3):
            transport.send(GET)
            port.clock.advance(REQUEST_TIMEOUT - 1)
        assert transport.take().count(b"hello") == 3
        assert transport.closed == ""
        port.clock.advance(2)
        assert transport.closed == "aborted"

    def test_answerTakesTooLong(self) -> None:
        """A connection is closed if its answer takes too long."""
        port = Port(waits=True)
        transport = port.dial()
        port.clock.advance(HEAD_TIMEOUT - 1)
        transport.send(GET)
        port.clock.advance(REQUEST_TIMEOUT - 1)
        assert transport.closed == ""
        port.clock.advance(2)
        assert transport.closed == "aborted"

    def test_answerIsNotTaken(self) -> None:
        """A connection is closed if the client does not read the answer."""
        port = Port()
        transport = port.dial()
        transport.taking = False
        transport.send(GET)
        port.clock.advance(REQUEST_TIMEOUT + 1)
        assert transport.closed == "aborted"

    def test_noTimerIsLeft(self) -> None:
        """When all connections are closed no timer is left, not even the site's own."""
        port = Port()
        transport = port.dial()
        transport.send(GET)
        port.clock.advance(0)
        transport.hangUp()
        port.clock.advance(0)
        assert port.clock.getDelayedCalls() == []


class TestNumber:
    """The limit of connections."""

    def test_oldestGivesWay(self) -> None:
        """At the limit, a new connection replaces the one that has been idle for longest."""
        port = Port()
        transports = [port.dial() for _ in range(MOST_CONNECTIONS)]
        transports[0].send(GET)
        port.clock.advance(0)
        new = port.dial()
        new.send(GET)
        port.clock.advance(0)
        assert new.take().endswith(b"hello")
        assert [n for n, transport in enumerate(transports) if transport.closed] == [1]

    def test_flood(self) -> None:
        """Any number of idle connections does not keep a request from being answered."""
        port = Port()
        for _ in range(3 * MOST_CONNECTIONS):
            port.dial()
            port.clock.advance(0)
        assert port.ask(GET)[0].endswith(b"hello")

    def test_floodAtOnce(self) -> None:
        """Many connections in one turn of the reactor replace the oldest ones, one each."""
        port = Port()
        transports = [port.dial() for _ in range(MOST_CONNECTIONS + 10)]
        port.clock.advance(0)
        assert [n for n, transport in enumerate(transports) if transport.closed] == list(range(10))

    def test_allAtWork(self) -> None:
        """At the limit, if all connections wait for answers, a new one is closed."""
        port = Port(waits=True)
        transports = [port.dial() for _ in range(MOST_CONNECTIONS)]
        for transport in transports:
            transport.send(GET)
        new = port.dial()
        port.clock.advance(0)
        assert new.closed == "aborted"
        assert not any(transport.closed for transport in transports)

    def test_stop(self) -> None:
        """Closing the port closes its connections."""
        port = Port()
        transports = [port.dial() for _ in range(3)]
        port.site.doStop()  # type: ignore[no-untyped-call]
        port.clock.advance(0)
        assert {transport.closed for transport in transports} == {"aborted"}
        assert port.clock.getDelayedCalls() == []
