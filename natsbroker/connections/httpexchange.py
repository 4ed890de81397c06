"""
HTTP requests with a limit on the time and the size of the response, without redirections. treq has
no limit on the size, and the agent comes with the caller's TLS settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IConsumer, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer, IResponse
from zope.interface import implementer


class AnswerTooLong(Exception):
    pass


def exchange(
    agent: IAgent,
    clock: IReactorTime,
    url: str,
    timeout: float,
    longest: int,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Deferred[tuple[int, bytes]]:
    """
    @param timeout: seconds until the whole response must be there.
    @param body: the body to POST; C{None} for a GET.
    @return: fires with the status and the body. Cancelling it closes the connection. Fails with
        L{AnswerTooLong}, C{twisted.internet.defer.TimeoutError}, or the agent's error.
    """
    producer = None if body is None else _Body(body)
    given = Headers({name: [value] for name, value in (headers or {}).items()})
    method = b"GET" if body is None else b"POST"
    asking: Deferred[Any] = agent.request(method, url.encode("ascii"), given, producer)
    asking.addCallback(_collected, longest)
    return asking.addTimeout(timeout, clock)


def _collected(response: IResponse, longest: int) -> Deferred[tuple[int, bytes]]:
    collector = _Collector(longest)
    response.deliverBody(collector)
    return collector.body.addCallback(lambda body: (response.code, body))


@implementer(IBodyProducer)
class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length = len(data)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        consumer.write(self._data)
        return succeed(None)

    def pauseProducing(self) -> None:
        pass

    def resumeProducing(self) -> None:
        pass

    def stopProducing(self) -> None:
        pass


class _Collector(Protocol):
    def __init__(self, longest: int) -> None:
        self._room = longest
        self._parts: list[bytes] = []
        self.body: Deferred[bytes] = Deferred(lambda _: self._close())

    def dataReceived(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room >= 0:
            self._parts.append(data)
        elif not self.body.called:
            self._close()
            self.body.errback(AnswerTooLong("the answer is too long"))

    def _close(self) -> None:
        transport: Any = self.transport
        self._parts.clear()
        if transport is not None:
            transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.body.called:
            return
        if isinstance(reason.value, (ResponseDone, PotentialDataLoss)):
            self.body.callback(b"".join(self._parts))
        else:
            self.body.errback(reason)
