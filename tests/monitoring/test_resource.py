"""Tests for L{natsbroker.monitoring.resource}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from natsbroker.monitoring.resource import MOST_LONG_ANSWERS, monitorSite
from natsbroker.monitoring.slices import SLICE
from natsbroker.testing.transport import MemoryTransport
from tests.conftest import FlushLoggedErrors
from tests.monitoring.staging import Response, parsed


@dataclass
class Answer:
    """
    An answer as the model gives it.
    """

    status: int = 200
    contentType: str = "application/json"
    body: Iterator[bytes] = field(default_factory=lambda: iter([b"{}"]))
    isLong: bool = False
    policy: str = "default-src 'none'"


class Model:
    """
    Pages in the test's hands.

    @ivar answers: what is answered, by path; an exception is raised.
    @ivar asked: paths and parameters.
    """

    def __init__(self, host: str = "127.0.0.1", **answers: Any) -> None:
        self.clock = Clock()
        self.host = host
        self.origins: tuple[str, ...] = ()
        self.answers = {f"/{name}": answer for name, answer in answers.items()}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def answer(self, path: str, query: Mapping[str, str]) -> Answer | None:
        self.asked.append((path, dict(query)))
        answer = self.answers.get(path)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer


class Port:
    """
    The monitoring port in memory.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.site = monitorSite(cast(Any, model))

    def dial(self) -> MemoryTransport:
        """Connect."""
        protocol: Any = self.site.buildProtocol(None)
        transport = MemoryTransport(self.model.clock, protocol)
        transport.connect()
        return transport

    def get(self, path: str, method: str = "GET", host: str | None = "localhost") -> Response:
        """Ask, and wait for the answer."""
        transport = self.dial()
        transport.send(request(path, method, host))
        self.settle()
        return parsed(transport.take())

    def settle(self) -> None:
        """Run the calls that are due now."""
        self.model.clock.advance(0)


def request(path: str, method: str = "GET", host: str | None = "localhost") -> bytes:
    """
    The bytes of a request.
    """
    header = "" if host is None else f"Host: {host}\r\n"
    return f"{method} {path} HTTP/1.1\r\n{header}\r\n".encode("latin-1")


class TestAnswers:
    """Answers."""

    def test_page(self) -> None:
        """A page comes with its status, its type and its length."""
        body = iter([b"", b'{"a":', b"", b"1}"])
        response = Port(Model(p=Answer(503, "application/json", body))).get("/p")
        assert (response.status, response.body) == (503, b'{"a":1}')
        assert response.headers["content-type"] == "application/json"
        assert response.headers["content-length"] == "7"

    def test_headers(self) -> None:
        """
        Headers keep browsers from guessing the type, caching, and loading other content. No header
        names the server.
        """
        headers = Port(Model(p=Answer())).get("/p").headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"] == "default-src 'none'"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers

    @pytest.mark.parametrize("path", ["/nope", "/nope?x=y"])
    def test_unknown(self, path: str) -> None:
        """An unknown page is answered with 404, without its path."""
        response = Port(Model()).get(path)
        assert (response.status, response.body) == (404, b"404 page not found\n")
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert response.headers["x-content-type-options"] == "nosniff"

    def test_query(self) -> None:
        """Parameters are decoded. Of several values the first counts. Unknown ones are ignored."""
        model = Model(p=Answer)
        Port(model).get("/p?a=1&a=2&b=%C3%A4+x&c=&d=%FF&callback=f")
        query = {"a": "1", "b": "ä x", "c": "", "d": "\ufffd", "callback": "f"}
        assert model.asked == [("/p", query)]

    def test_noJsonp(self) -> None:
        """The parameter C{callback} is ignored: there is no JSONP."""
        assert Port(Model(p=Answer)).get("/p?callback=f").body == b"{}"

    def test_pathIsTakenLiterally(self) -> None:
        """The path of a request is neither decoded nor resolved."""
        model = Model()
        for path in ("/%70", "/../p", "//p", "/p/", "/p;x"):
            assert Port(model).get(path).status == 404
        assert [path for path, _ in model.asked] == ["/%70", "/../p", "//p", "/p/", "/p;x"]

    def test_broken(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A page that fails is 500, without a word about why."""
        response = Port(Model(p=RuntimeError("secret"))).get("/p")
        assert (response.status, response.body) == (500, b"Internal Server Error\n")
        assert len(flushLoggedErrors(RuntimeError)) == 1

    def test_brokenBody(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A body that fails while it is made gives 500, without the reason."""

        def pieces() -> Iterator[bytes]:
            yield b"{"
            raise RuntimeError("secret")

        port = Port(Model(p=lambda: Answer(body=pieces(), isLong=True)))
        for _ in range(MOST_LONG_ANSWERS + 1):
            response = port.get("/p")
            assert (response.status, response.body) == (500, b"Internal Server Error\n")
        assert len(flushLoggedErrors(RuntimeError)) == MOST_LONG_ANSWERS + 1


class TestMethods:
    """GET and HEAD."""

    def test_head(self) -> None:
        """HEAD returns the same head as GET."""
        port = Port(Model(p=Answer))
        head, get = port.get("/p", "HEAD"), port.get("/p")
        assert (head.status, head.body) == (200, b"")
        assert head.headers == get.headers

    @pytest.mark.parametrize(
        "method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW", "get"]
    )
    def test_otherMethods(self, method: str) -> None:
        """Any other method is refused, and the page is not asked."""
        model = Model(p=Answer)
        response = Port(model).get("/p", method)
        assert (response.status, response.body) == (405, b"Method Not Allowed\n")
        assert response.headers["allow"] == "GET, HEAD"
        assert model.asked == []


class TestHosts:
    """The host names that a request may have."""

    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "LOCALHOST:8222",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:8222",
            "127.1.2.3",
            "[::1]",
            "[::1]:8222",
        ],
    )
    @pytest.mark.parametrize("bound", ["127.0.0.1", "localhost", "::1"])
    def test_thisMachine(self, bound: str, host: str) -> None:
        """On a loopback address, the names of the local machine are accepted."""
        assert Port(Model(bound, p=Answer)).get("/p", host=host).status == 200

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "",
            "[",
            "\xff",
        ],
    )
    def test_otherHosts(self, host: str) -> None:
        """
        On a loopback address, other host names are refused, as protection against DNS rebinding.
        """
        model = Model(p=Answer)
        response = Port(model).get("/p", host=host)
        assert (response.status, response.body) == (403, b"Host not allowed\n")
        assert model.asked == []

    @pytest.mark.parametrize("bound", ["0.0.0.0", "::", "10.0.0.1", "nats.example"])
    def test_otherAddresses(self, bound: str) -> None:
        """On an address that other machines can reach, every host name is accepted."""
        assert Port(Model(bound, p=Answer)).get("/p", host="nats.example:8222").status == 200

    def test_missing(self) -> None:
        """HTTP/1.1 requires exactly one host name."""
        port = Port(Model(p=Answer))
        assert port.get("/p", host=None).status == 400
        assert port.get("/p", host="localhost\r\nHost: localhost").status == 400

    def test_http10(self) -> None:
        """A request by HTTP/1.0 may come without a host name."""
        port = Port(Model(p=Answer))
        transport = port.dial()
        transport.send(b"GET /p HTTP/1.0\r\n\r\n")
        port.settle()
        assert parsed(transport.take()).status == 200


class Counter:
    """
    A body that counts its pieces.

    @ivar made: how many there were.
    """

    def __init__(self, clock: Clock, count: int, seconds: float = 0.0) -> None:
        self.made = 0
        self._clock = clock
        self._count = count
        self._seconds = seconds

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(self._count):
            self.made += 1
            self._clock.rightNow += self._seconds
            yield b"x" * 1000


class TestOrigins:
    """Web pages of other origins."""

    def ask(self, *allowed: str, origin: str = "https://a.example") -> Response:
        model = Model(varz=Answer())
        model.origins = allowed
        port = Port(model)
        transport = port.dial()
        transport.send(
            f"GET /varz HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\r\n".encode()
        )
        port.settle()
        return parsed(transport.take())

    def test_noOtherOrigins(self) -> None:
        """By default, answers allow no other origin to read them."""
        headers = self.ask().headers
        assert not {"access-control-allow-origin", "vary"} & {header.lower() for header in headers}

    @pytest.mark.parametrize("allowed", ["*", "https://a.example"])
    def test_namedOrigins(self, allowed: str) -> None:
        """Configured origins may read the answer, which varies by origin."""
        headers = {name.lower(): value for name, value in self.ask("x", allowed).headers.items()}
        assert headers["access-control-allow-origin"] == "https://a.example"
        assert headers["vary"] == "Origin"

    def test_unnamed(self) -> None:
        """An origin that is not configured may not read the answer."""
        headers = self.ask("https://b.example").headers
        assert "access-control-allow-origin" not in {header.lower() for header in headers}


class TestLongAnswers:
    """Answers that take long to make or to send."""

    def test_othersGetTheirTurn(self) -> None:
        """A long answer is made in slices, between which other requests are served."""
        model = Model()
        counter = Counter(model.clock, 100, SLICE / 10)
        model.answers["/p"] = Answer(body=iter(counter))
        seen = [0]

        def other() -> None:
            seen.append(counter.made)
            if counter.made < 100:
                model.clock.callLater(0, other)

        transport = Port(model).dial()
        transport.send(request("/p"))
        other()
        model.clock.advance(0)
        assert len(parsed(transport.take()).body) == 100_000
        assert max(after - before for before, after in pairwise(seen)) <= 11

    def test_asFastAsItIsTaken(self) -> None:
        """A long answer is written no faster than the client reads."""
        port = Port(Model(p=Answer(body=iter([b"x" * 1_000_000]))))
        transport = port.dial()
        transport.taking = False
        transport.send(request("/p"))
        port.settle()
        assert 0 < transport.waiting < 200_000
        transport.taking = True
        port.settle()
        response = parsed(transport.take())
        assert len(response.body) == 1_000_000
        assert response.headers["content-length"] == "1000000"

    def test_nextRequest(self) -> None:
        """After a long answer, the connection serves the next request."""
        port = Port(Model(p=lambda: Answer(body=iter([b"x" * 300_000]))))
        transport = port.dial()
        transport.send(request("/p") * 2)
        port.settle()
        assert transport.take().count(b"x" * 300_000) == 2

    def test_headOfLong(self) -> None:
        """HEAD for a long page sends nothing of it."""
        response = Port(Model(p=Answer(body=iter([b"x" * 300_000])))).get("/p", "HEAD")
        assert (response.headers["content-length"], response.body) == ("300000", b"")

    def test_onlyAFewAtOnce(self) -> None:
        """
        Only a limited number of long answers is made at a time. Short answers do not wait for them.
        """
        model = Model(short=Answer)
        model.answers["/long"] = lambda: Answer(body=iter([b"x" * 300_000]), isLong=True)
        port = Port(model)
        transports = [port.dial() for _ in range(MOST_LONG_ANSWERS + 3)]
        for transport in transports:
            transport.taking = False
            transport.send(request("/long"))
        port.settle()
        assert [bool(transport.waiting) for transport in transports] == [
            True
        ] * MOST_LONG_ANSWERS + [False] * 3
        assert port.get("/short").status == 200
        for transport in transports:
            transport.taking = True
        port.settle()
        assert [len(parsed(transport.take()).body) for transport in transports] == [300_000] * len(
            transports
        )

    def test_leavingMakesRoom(self) -> None:
        """
        A client that disconnects while its answer is made, sent or waits makes room for others.
        """
        model = Model()
        counters: list[Counter] = []

        def endless() -> Answer:
            counters.append(Counter(model.clock, 10**9, SLICE))
            return Answer(body=iter(counters[-1]), isLong=True)

        model.answers["/endless"] = endless
        model.answers["/long"] = lambda: Answer(body=iter([b"x" * 300_000]), isLong=True)
        port = Port(model)
        making = [port.dial() for _ in range(MOST_LONG_ANSWERS)]
        for greedy in making:
            greedy.send(request("/endless"))
        waiting = port.dial()
        waiting.send(request("/long"))
        for _ in range(20):
            port.settle()
        waiting.hangUp()
        for greedy in making:
            greedy.hangUp()
        port.settle()
        made = [counter.made for counter in counters]
        sending = [port.dial() for _ in range(MOST_LONG_ANSWERS)]
        for long in sending:
            long.taking = False
            long.send(request("/long"))
        port.settle()
        for long in sending:
            long.hangUp()
        port.settle()
        assert len(port.get("/long").body) == 300_000
        assert [counter.made for counter in counters] == made
        assert len(counters) == MOST_LONG_ANSWERS

    def test_nothingIsLeft(self) -> None:
        """When all requests are answered and all clients gone, no timer is left."""
        port = Port(Model(p=Answer(body=iter([b"x" * 300_000]), isLong=True)))
        transport = port.dial()
        transport.send(request("/p"))
        port.settle()
        transport.hangUp()
        port.settle()
        assert port.model.clock.getDelayedCalls() == []
