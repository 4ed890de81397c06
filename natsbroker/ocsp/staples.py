"""
The OCSP response that is shown with a certificate of ours. It is fetched again after half of its
time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography import x509
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from natsbroker.files import replaceFile
from natsbroker.ocsp.fetching import Responders
from natsbroker.ocsp.peers import fingerprint
from natsbroker.ocsp.responses import OCSPAnswer, OCSPError, Status, readAnswer, respondersOf, soon

_log = Logger(namespace="natsbroker")

#: Seconds for a responder to answer.
_PATIENCE = 30.0


class Staple:
    """C{isStrict} if the broker must not show a certificate that is not good."""

    def __init__(
        self,
        clock: IReactorTime,
        responders: Responders,
        certificate: x509.Certificate,
        issuer: x509.Certificate,
        urls: tuple[str, ...],
        path: str,
        folder: Path | None,
        isStrict: bool,
        revoked: Callable[[], object],
    ) -> None:
        """
        @param urls: responders to ask instead of those of the certificate.
        @param path: of the certificate, for the log.
        @param folder: where responses are kept; C{None} for nowhere.
        @param revoked: called when a certificate that must be good no longer is.
        """
        self.isStrict = isStrict
        self._clock = clock
        self._responders = responders
        self._certificate = certificate
        self._issuer = issuer
        self._urls = urls or respondersOf(certificate)
        self._path = path
        self._file = None if folder is None else folder / fingerprint(certificate)
        self._revoked = revoked
        self._answer: OCSPAnswer | None = None
        self._timer: Any = None
        self._fetching: Deferred[None] | None = None

    @property
    def current(self) -> bytes:
        answer = self._answer
        now = self._clock.seconds()
        isValid = answer is not None and (answer.until is None or now <= answer.until)
        return answer.data if answer is not None and isValid else b""

    async def prepare(self) -> None:
        """
        Prepare the response. L{OCSPError} if there is none, or if the certificate must be good and
        is not.
        """
        self._load()
        if not self.current:
            try:
                await self._fetch()
            except OCSPError as error:
                raise OCSPError(
                    f"bad OCSP status update for certificate at '{self._path}': {error}"
                ) from error
        if self._isBad:
            raise OCSPError(
                f"found existing OCSP status for certificate at '{self._path}': {self._status}"
            )
        self._schedule()

    def start(self) -> None:
        """Fetch the response while connections are already accepted, as after a reload."""
        self._load()
        if self.current:
            self._schedule()
        else:
            self._refresh()

    def stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        fetching, self._fetching = self._fetching, None
        if fetching is not None:
            fetching.cancel()

    @property
    def _status(self) -> str:
        return "unknown" if self._answer is None else self._answer.status.value

    @property
    def _isBad(self) -> bool:
        return self.isStrict and self._status != Status.GOOD.value

    async def _fetch(self) -> None:
        answer = await self._responders.ask(self._certificate, self._issuer, self._urls, _PATIENCE)
        if not answer.isCurrent(self._clock.seconds(), 0.0, float("inf")):
            raise OCSPError("the response is expired or not yet valid")
        self._answer = answer
        if self._file is not None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                replaceFile(self._file, lambda path: path.write_bytes(answer.data))
            except OSError as error:
                _log.warn("failed to write ocsp status: {why}", why=str(error))

    def _load(self) -> None:
        if self._file is None:
            return
        try:
            answer = readAnswer(self._file.read_bytes(), self._certificate, self._issuer)
        except (OSError, OCSPError):
            return
        if answer.isCurrent(self._clock.seconds(), 0.0, float("inf")):
            self._answer = answer

    def _schedule(self) -> None:
        answer, now = self._answer, self._clock.seconds()
        delay = 120.0 if answer is None else soon(now, answer)
        _log.info(
            "OCSP status for certificate '{path}': {status}, checking again in {delay:.0f}s",
            path=self._path,
            status=self._status,
            delay=delay,
        )
        self._timer = self._clock.callLater(delay, self._refresh)

    def _refresh(self) -> None:
        self._timer = None
        fetching = self._fetching = ensureDeferred(self._fetch())
        fetching.addCallbacks(self._refreshed, self._failed)

    def _refreshed(self, _: None) -> None:
        self._fetching = None
        if self._isBad:
            _log.error(
                "Received OCSP status for certificate '{path}': {status}",
                path=self._path,
                status=self._status,
            )
            self._revoked()
        else:
            self._schedule()

    def _failed(self, failure: Any) -> None:
        self._fetching = None
        if failure.check(CancelledError):
            return
        _log.error(
            "Bad OCSP status update for certificate '{path}': {why}",
            path=self._path,
            why=failure.getErrorMessage(),
        )
        self._schedule()
