"""
An HTTP agent whose responses the test gives.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.iweb import IAgent
from zope.interface import implementer

__all__ = ["FakeAgent"]


class _Response:
    def __init__(self, code: int) -> None:
        self.code = code
        self.protocol: Any = None

    def deliverBody(self, protocol: Any) -> None:
        self.protocol = protocol
        protocol.makeConnection(StringTransport())


@implementer(IAgent)
class FakeAgent:
    """
    @ivar requests: method, URL, body and headers of every request.
    @ivar cancelled: the number of requests that were cancelled before their status came.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes, dict[str, str]]] = []
        self.cancelled = 0
        self._waiting: deque[Deferred[Any]] = deque()

    def request(
        self, method: bytes, uri: bytes, headers: Any = None, bodyProducer: Any = None
    ) -> Deferred[Any]:
        transport: Any = StringTransport()
        if bodyProducer is not None:
            bodyProducer.startProducing(transport)
        given = {
            name.decode(): values[0].decode()
            for name, values in ([] if headers is None else headers.getAllRawHeaders())
        }
        self.requests.append((method.decode(), uri.decode(), transport.value(), given))
        waiting: Deferred[Any] = Deferred(self._cancel)
        self._waiting.append(waiting)
        return waiting

    def _cancel(self, waiting: Deferred[Any]) -> None:
        self.cancelled += 1
        self._waiting.remove(waiting)

    def begin(self, status: int) -> Any:
        """
        Answer the oldest request with a status.

        @return: the protocol that receives the body.
        """
        response = _Response(status)
        self._waiting.popleft().callback(response)
        return response.protocol

    def answer(self, status: int, body: bytes) -> None:
        """
        Answer the oldest request.
        """
        protocol = self.begin(status)
        if body:
            protocol.dataReceived(body)
        protocol.connectionLost(Failure(ResponseDone()))

    def fail(self, error: Exception) -> None:
        """
        Fail the oldest request.
        """
        self._waiting.popleft().errback(error)
