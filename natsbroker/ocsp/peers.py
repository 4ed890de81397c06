"""Whether the authorities of a peer's certificates still vouch for them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from natsbroker.config.ocsp import OCSPPeer
from natsbroker.ocsp.cache import AnswerCache
from natsbroker.ocsp.fetching import Responders
from natsbroker.ocsp.responses import OCSPAnswer, OCSPError, Status, readAnswer, respondersOf

_log = Logger(namespace="natsbroker")


def fingerprint(certificate: x509.Certificate) -> str:
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


@dataclass(frozen=True, slots=True)
class _Question:
    certificate: x509.Certificate
    issuer: x509.Certificate
    urls: tuple[str, ...]

    def __str__(self) -> str:
        return self.certificate.subject.rfc4514_string()


class PeerChecks:
    def __init__(
        self, responders: Responders, cache: AnswerCache, now: Callable[[], float]
    ) -> None:
        self._responders = responders
        self._cache = cache
        self._now = now
        self._asking: dict[str, list[Deferred[OCSPAnswer]]] = {}

    def check(
        self, chain: Sequence[x509.Certificate], options: OCSPPeer, urls: Sequence[str] = ()
    ) -> Deferred[str]:
        """
        The reason to refuse a peer; empty if there is none.

        @param chain: the verified certificates, the peer's first and its root last.
        @param urls: responders to ask instead of the certificates'.
        """
        return ensureDeferred(self._check(chain, options, tuple(urls)))

    async def _check(
        self, chain: Sequence[x509.Certificate], options: OCSPPeer, urls: tuple[str, ...]
    ) -> str:
        if not chain:
            return "no verified certificate"
        # The root answers for itself; a certificate without a responder cannot be asked about.
        for certificate, issuer in pairwise(chain):
            question = _Question(certificate, issuer, urls or respondersOf(certificate))
            if question.urls:
                problem = await self._problem(question, options)
                if problem and options.warn_only:
                    _log.warn("OCSP: {who}: {why}; warn_only", who=str(question), why=problem)
                elif problem:
                    return f"OCSP: {question}: {problem}"
        return ""

    async def _problem(self, question: _Question, options: OCSPPeer) -> str:
        key = fingerprint(question.certificate)
        answer = self._remembered(key, question, options)
        if answer is None:
            wasRevoked = self._cache.isRevoked(key)
            try:
                answer = await self._ask(key, question, options)
            except OCSPError as error:
                if options.allow_when_ca_unreachable and not wasRevoked:
                    _log.warn("OCSP: {who}: {why}; let in", who=str(question), why=str(error))
                    return ""
                return f"no answer: {error}"
            if not self._isCurrent(answer, options):
                return "the answer is expired or not yet valid"
            self._cache.put(key, answer.data, answer.status is Status.REVOKED)
        if answer.status is Status.GOOD:
            return ""
        if answer.status is Status.UNKNOWN and options.unknown_is_good:
            return ""
        return str(answer.status.value)

    def _remembered(self, key: str, question: _Question, options: OCSPPeer) -> OCSPAnswer | None:
        data = self._cache.get(key)
        if data is None:
            return None
        try:
            answer = readAnswer(data, question.certificate, question.issuer)
        except OCSPError:
            self._cache.drop(key)
            return None
        return answer if self._isCurrent(answer, options) else None

    def _isCurrent(self, answer: OCSPAnswer, options: OCSPPeer) -> bool:
        lasting = options.cache_ttl_when_next_update_unset
        return answer.isCurrent(self._now(), options.allowed_clockskew, lasting)

    def _ask(self, key: str, question: _Question, options: OCSPPeer) -> Deferred[OCSPAnswer]:
        """Ask once, even if many connections wait for the answer."""
        waiting: Deferred[OCSPAnswer] = Deferred()
        if key in self._asking:
            self._asking[key].append(waiting)
            return waiting
        self._asking[key] = [waiting]
        asking = ensureDeferred(
            self._responders.ask(
                question.certificate, question.issuer, question.urls, options.ca_timeout
            )
        )

        def done(result: Any) -> None:
            for waiter in self._asking.pop(key):
                if not waiter.called:
                    waiter.callback(result)

        asking.addBoth(done)
        return waiting
