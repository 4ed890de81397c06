"""
The monitoring pages over HTTP.

Promises: GET and HEAD, nothing else; long answers are made and sent a little at a time, and only a
few at once. On a loopback address only names of this machine are answered to, so that no web page
from elsewhere can read along by rebinding its name; there is no JSONP and no leave for other
origins.
Must never know: what the pages say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.internet.task import Cooperator
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from natsbroker.monitoring.site import METHODS, MonitorSite

__all__ = ["MOST_LONG_ANSWERS", "SLICE", "monitorSite"]

_log = Logger()

#: How many long answers may be made and sent at the same time; the others wait.
MOST_LONG_ANSWERS = 4

#: How long an answer is worked on before others get their turn, in seconds.
SLICE = 0.002

#: How much of an answer is handed to the transport at a time.
_CHUNK = 1 << 16

_HEADERS = {
    b"X-Content-Type-Options": b"nosniff",
    b"Cache-Control": b"no-store",
    b"Content-Security-Policy": b"default-src 'none'",
}

_PLAIN = "text/plain; charset=utf-8"


class Answer(Protocol):
    """
    What a page answers; an empty piece of the body means that others may do something.
    """

    @property
    def status(self) -> int: ...

    @property
    def contentType(self) -> str: ...

    @property
    def body(self) -> Iterator[bytes]: ...

    @property
    def isLong(self) -> bool: ...


class Model(Protocol):
    """
    What is behind the pages: L{natsbroker.monitoring.model.MonitoringModel}.
    """

    @property
    def clock(self) -> IReactorTime:
        """
        For time and timers.
        """

    @property
    def host(self) -> str:
        """
        The address that is listened on.
        """

    def answer(self, path: str, query: Mapping[str, str]) -> Answer | None:
        """
        Ask for a page; C{None} if there is no such page.
        """


def monitorSite(model: Model) -> MonitorSite:
    """
    What to listen with on the address that the model names.
    """
    return MonitorSite(_Pages(model), model.clock)


class _Pages(Resource):
    """
    Answers every request.
    """

    isLeaf = True

    def __init__(self, model: Model) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._model = model
        self._isForeign = _foreignTo(model.host)
        clock = model.clock
        self._cooperator = Cooperator(
            terminationPredicateFactory=lambda: _sliceEnd(clock.seconds),
            scheduler=lambda call: clock.callLater(0, call),
        )
        self._room = DeferredSemaphore(MOST_LONG_ANSWERS)

    def render(self, request: Any) -> int:
        """
        Begin to answer a request.
        """
        request.responseHeaders.removeHeader(b"Server")
        delivery = Deferred.fromCoroutine(self._answered(request))
        request.notifyFinish().addErrback(lambda reason: delivery.cancel())
        delivery.addErrback(_stopped, request)
        return NOT_DONE_YET

    def _answerTo(self, request: Any) -> Answer:
        if request.method not in METHODS:
            request.setHeader(b"Allow", b", ".join(METHODS))
            return _Sentence(405, "Method Not Allowed\n")
        hosts = request.requestHeaders.getRawHeaders(b"Host", [])
        if len(hosts) > 1 or (not hosts and request.clientproto == b"HTTP/1.1"):
            return _Sentence(400, "Bad Request\n")
        if any(map(self._isForeign, hosts)):
            return _Sentence(403, "Host not allowed\n")
        query = {
            name.decode("utf-8", "replace"): values[0].decode("utf-8", "replace")
            for name, values in request.args.items()
        }
        answer = self._model.answer(request.path.decode("utf-8", "replace"), query)
        return answer or _Sentence(404, "404 page not found\n")

    async def _answered(self, request: Any) -> None:
        answer = self._answerTo(request)
        if answer.isLong:
            await self._room.acquire()
        try:
            body = await self._made(answer.body)
            sent = request.notifyFinish()
            _send(request, answer, body)
            await sent
        finally:
            if answer.isLong:
                self._room.release()

    async def _made(self, pieces: Iterable[bytes]) -> bytes:
        made: list[bytes] = []
        task = self._cooperator.cooperate(map(made.append, pieces))
        try:
            await task.whenDone()
        except CancelledError:
            task.stop()
            raise
        return b"".join(made)


class _Sentence:
    """
    An answer of one sentence.
    """

    isLong = False
    contentType = _PLAIN

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.body = iter([text.encode("ascii")])


@implementer(IPushProducer)
class _Sender:
    """
    Hands a long body to the transport, as fast as that takes it.
    """

    def __init__(self, request: Any, body: bytes) -> None:
        self._request = request
        self._body = memoryview(body)
        self._isPaused = False

    def resumeProducing(self) -> None:
        """
        See C{IPushProducer}.
        """
        self._isPaused = False
        while self._body and not self._isPaused:
            chunk, self._body = bytes(self._body[:_CHUNK]), self._body[_CHUNK:]
            self._request.write(chunk)
        if not self._body and not self._isPaused:
            self._isPaused = True
            self._request.unregisterProducer()
            self._request.finish()

    def pauseProducing(self) -> None:
        """
        See C{IPushProducer}.
        """
        self._isPaused = True

    def stopProducing(self) -> None:
        """
        See C{IPushProducer}.
        """
        self._isPaused = True
        self._body = memoryview(b"")


def _send(request: Any, answer: Answer, body: bytes) -> None:
    request.setResponseCode(answer.status)
    request.setHeader(b"Content-Type", answer.contentType.encode("ascii"))
    request.setHeader(b"Content-Length", b"%d" % len(body))
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
    """
    The answer did not get there: because the asker left, or because of a mistake of ours.
    """
    if isinstance(
        failure.value, (CancelledError, ConnectionDone, ConnectionLost, ConnectionAborted)
    ):
        return
    _log.failure("A monitoring page failed", failure)
    if request.startedWriting:
        request.loseConnection()
    else:
        _send(request, _Sentence(500, "Internal Server Error\n"), b"Internal Server Error\n")


def _sliceEnd(seconds: Callable[[], float]) -> Callable[[], bool]:
    end = seconds() + SLICE
    return lambda: seconds() >= end


def _foreignTo(host: str) -> Callable[[bytes], bool]:
    """
    What tells whether a Host header names somebody else than the address that is listened on; on
    other addresses than loopback any name will do, for nobody knows which there are.
    """
    if not _isLoopback(host):
        return lambda header: False
    return lambda header: not _isLoopback(_nameIn(header))


def _nameIn(header: bytes) -> str:
    text = header.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def _isLoopback(host: str) -> bool:
    if host.rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
