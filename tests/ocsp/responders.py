"""
Responders in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.x509 import ocsp
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectError

from tests.ocsp.authorities import NOW, Issued, responded


class _Response:
    def __init__(self, code: int, body: bytes) -> None:
        self.code = code
        self._body = body

    def deliverBody(self, protocol: Any) -> None:
        """Give all of it."""
        from twisted.python.failure import Failure
        from twisted.web.client import ResponseDone

        protocol.dataReceived(self._body)
        protocol.connectionLost(Failure(ResponseDone()))


class FakeAgent:
    """
    An agent that answers for an authority.

    @ivar asked: the method and the URL of each request.
    @ivar isDown: whether nobody can be reached.
    @ivar status: what is said of every certificate.
    @ivar waiting: requests that wait for L{release}; C{None} if they do not wait.
    """

    def __init__(self, signer: Issued, now: Callable[[], float]) -> None:
        self.signer = signer
        self.asked: list[tuple[bytes, str]] = []
        self.isDown = False
        self.refusesPost = False
        self.status = ocsp.OCSPCertStatus.GOOD
        self.lasting: float | None = 3600.0
        self.waiting: list[tuple[Deferred[Any], bytes]] | None = None
        self.known: list[x509.Certificate] = []
        self._now = now

    def request(self, method: bytes, url: bytes, headers: Any, body: Any) -> Deferred[Any]:
        """Answer a request."""
        import base64
        from datetime import timedelta
        from urllib.parse import unquote

        self.asked.append((method, url.decode()))
        if self.isDown:
            return fail(ConnectError())
        if method == b"POST" and self.refusesPost:
            return self._answer(_Response(405, b""))
        data = body._data if body is not None else b""
        if method == b"GET":
            data = base64.b64decode(unquote(url.decode().rpartition("/")[2]))
        serial = ocsp.load_der_ocsp_request(data).serial_number
        certificate = next(known for known in self.known if known.serial_number == serial)
        since = NOW + timedelta(seconds=self._now() - NOW.timestamp())
        answer = responded(certificate, self.signer, self.status, since, self.lasting)
        return self._answer(_Response(200, answer))

    def _answer(self, response: _Response) -> Deferred[Any]:
        answering: Deferred[Any] = Deferred()
        if self.waiting is None:
            answering.callback(response)
        else:
            self.waiting.append((answering, response))  # type: ignore[arg-type]
        return answering

    def release(self) -> None:
        """Answer the requests that wait."""
        waiting, self.waiting = self.waiting or [], None
        for answering, response in waiting:
            answering.callback(response)
