"""Asking OCSP responders over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cryptography import x509
from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.interfaces import IReactorTime

from natsbroker.ocsp.responses import OCSPAnswer, OCSPError, readAnswer, requestFor

if TYPE_CHECKING:
    from twisted.web.iweb import IAgent

#: The bytes of a response; usual ones have two thousand.
_LONGEST = 1 << 16

#: The responders that are asked at a time.
_AT_A_TIME = 32

_HEADERS = {"Content-Type": "application/ocsp-request", "Accept": "application/ocsp-response"}


class Responders:
    def __init__(self, clock: IReactorTime, agent: Callable[[], IAgent]) -> None:
        """C{agent} makes the agent when the first request is due."""
        self._clock = clock
        self._makeAgent = agent
        self._agent: IAgent | None = None
        self._turns = DeferredSemaphore(_AT_A_TIME)

    async def ask(
        self,
        certificate: x509.Certificate,
        issuer: x509.Certificate,
        urls: Sequence[str],
        timeout: float,
    ) -> OCSPAnswer:
        """
        Ask one after another: by POST, and if that fails by GET.

        @param timeout: in seconds, for each request.
        @raise OCSPError: if none gives an answer that counts.
        """
        request = requestFor(certificate, issuer)
        coded = quote(base64.b64encode(request).decode("ascii"), safe="")
        problems = ["no available ocsp servers"] if not urls else []
        for url in urls:
            for place, body in ((url, request), (f"{url.rstrip('/')}/{coded}", None)):
                asking: Deferred[Any] = self._turns.run(self._exchange, place, timeout, body)
                try:
                    status, data = await asking
                    if status != 200:
                        raise OCSPError(f"status {status}")
                    return readAnswer(data, certificate, issuer)
                except CancelledError:
                    raise
                except Exception as error:  # another responder may answer
                    problems.append(f"{url}: {error or type(error).__name__}")
        raise OCSPError("; ".join(problems))

    def _exchange(self, url: str, timeout: float, body: bytes | None) -> Deferred[Any]:
        # Most brokers with TLS ask no responder, and need no client of HTTP.
        from natsbroker.connections.httpexchange import exchange

        if self._agent is None:
            self._agent = self._makeAgent()
        return exchange(self._agent, self._clock, url, timeout, _LONGEST, body, _HEADERS)
