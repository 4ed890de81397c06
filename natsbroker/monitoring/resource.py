"""
The monitoring pages over HTTP, GET and HEAD, without JSONP. On a loopback address the Host header
must be a loopback name: otherwise a web page could rebind its own name to it. Pages of other
origins may read them only where C{monitor_origins} names these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request
from zope.interface import implementer

from natsbroker.config.addresses import isLoopback
from natsbroker.monitoring.answers import Answer, textAnswer
from natsbroker.monitoring.model import MonitoringModel
from natsbroker.monitoring.site import METHODS, MonitorSite
from natsbroker.monitoring.slices import Slices
from natsbroker.wire.text import decoded

_log = Logger()

#: The most long answers that are made and sent at the same time; others wait.
MOST_LONG_ANSWERS = 4

#: The bytes of an answer that one write to the transport has.
_CHUNK = 1 << 16

_HEADERS = {
    b"X-Content-Type-Options": b"nosniff",
    b"Cache-Control": b"no-store",
}


def monitorSite(model: MonitoringModel) -> MonitorSite:
    return MonitorSite(_Pages(model).render, model.clock)


class _Pages:
    def __init__(self, model: MonitoringModel) -> None:
        self._model = model
        self._isForeign = _foreignTo(model.host)
        self._slices = Slices(model.clock)
        self._room = DeferredSemaphore(MOST_LONG_ANSWERS)

    def render(self, request: Request) -> None:
        self._allowOrigin(request)
        delivery = Deferred.fromCoroutine(self._answered(request))
        request.notifyFinish().addErrback(lambda reason: delivery.cancel())
        delivery.addErrback(_stopped, request)

    def _allowOrigin(self, request: Any) -> None:
        allowed = self._model.origins
        if not allowed:
            return
        request.setHeader(b"Vary", b"Origin")
        origin = request.getHeader(b"Origin")
        if origin is not None and ("*" in allowed or origin.decode("latin-1") in allowed):
            request.setHeader(b"Access-Control-Allow-Origin", origin)

    def _answerTo(self, request: Any) -> Answer:
        if request.method not in METHODS:
            request.setHeader(b"Allow", b", ".join(METHODS))
            return textAnswer(405, "Method Not Allowed\n")
        hosts = request.requestHeaders.getRawHeaders(b"Host", [])
        if len(hosts) > 1 or (not hosts and request.clientproto == b"HTTP/1.1"):
            return textAnswer(400, "Bad Request\n")
        if any(map(self._isForeign, hosts)):
            return textAnswer(403, "Host not allowed\n")
        query = {decoded(name): decoded(values[0]) for name, values in request.args.items()}
        answer = self._model.answer(decoded(request.path), query)
        return answer or textAnswer(404, "404 page not found\n")

    async def _answered(self, request: Any) -> None:
        answer = self._answerTo(request)
        if answer.isLong:
            await self._room.acquire()
        try:
            body = b"".join(await self._slices.collect(answer.body))
            sent = request.notifyFinish()
            _send(request, answer, body)
            await sent
        finally:
            if answer.isLong:
                self._room.release()


@implementer(IPushProducer)
class _Sender:
    def __init__(self, request: Any, body: bytes) -> None:
        self._request = request
        self._body = memoryview(body)
        self._isPaused = False

    def resumeProducing(self) -> None:
        self._isPaused = False
        while self._body and not self._isPaused:
            chunk, self._body = bytes(self._body[:_CHUNK]), self._body[_CHUNK:]
            self._request.write(chunk)
        if not self._body and not self._isPaused:
            self._isPaused = True
            self._request.unregisterProducer()
            self._request.finish()

    def pauseProducing(self) -> None:
        self._isPaused = True

    def stopProducing(self) -> None:
        self._isPaused = True
        self._body = memoryview(b"")


def _send(request: Any, answer: Answer, body: bytes) -> None:
    request.setResponseCode(answer.status)
    request.setHeader(b"Content-Type", answer.contentType.encode("ascii"))
    request.setHeader(b"Content-Length", b"%d" % len(body))
    request.setHeader(b"Content-Security-Policy", answer.policy.encode("ascii"))
    for name, value in _HEADERS.items():
        request.setHeader(name, value)
    if request.method == b"HEAD" or len(body) <= _CHUNK:
        request.write(body)
        request.finish()
        return
    sender = _Sender(request, body)
    request.registerProducer(sender, True)
    sender.resumeProducing()


def _stopped(failure: Failure, request: Any) -> None:
    if isinstance(
        failure.value, (CancelledError, ConnectionDone, ConnectionLost, ConnectionAborted)
    ):
        return
    _log.failure("A monitoring page failed", failure)
    if request.startedWriting:
        request.loseConnection()
    else:
        _send(request, textAnswer(500, "Internal Server Error\n"), b"Internal Server Error\n")


def _foreignTo(host: str) -> Callable[[bytes], bool]:
    """A test for foreign Host headers. Addresses other than loopback may have any name."""
    if not isLoopback(host.rstrip(".")):
        return lambda header: False
    return lambda header: not isLoopback(_nameIn(header))


def _nameIn(header: bytes) -> str:
    text = header.decode("latin-1").strip().lower()
    name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    return name.rstrip(".")
