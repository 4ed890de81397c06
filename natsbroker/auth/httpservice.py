"""
The authorizer that asks a service over HTTP.

A service that is slow, gone, too long-winded or of no sense lets nobody in, and that is
logged, now and then; it is asked a bounded number of questions at a time, and what is remembered of
its answers is bounded, too, and holds no secret.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from twisted.web.iweb import IAgent
from zope.interface import implementer

from natsbroker import errors
from natsbroker.auth.complaints import RateLimitedLog
from natsbroker.auth.httpexchange import exchange
from natsbroker.auth.inquiries import grantFromAnswer, question
from natsbroker.auth.revocations import Revocations
from natsbroker.auth.turnstile import ConcurrencyLimiter
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import ConnectRequest, Grant

__all__ = ["AuthorizationServiceError", "HTTPAuthorizer", "HTTPServiceSettings"]

_OK = 200

#: The statuses by which the service denies; all others mean that it is out of order.
_DENIALS = frozenset({401, 403})


class AuthorizationServiceError(Exception):
    """
    The service did not say whether somebody may come in.
    """


@dataclass(frozen=True, slots=True)
class HTTPServiceSettings:
    """
    How the service is asked.

    @ivar url: where questions are posted to.
    @ivar timeout: seconds for each.
    @ivar longest: bytes of an answer.
    @ivar atATime: how many questions may be open.
    @ivar waiting: how many logins may wait besides.
    @ivar cacheFor: for how many seconds an answer holds for the same question; 0 for not.
    @ivar cacheSize: how many answers are remembered.
    @ivar headers: of each request.
    @ivar nonce: whether clients are given a nonce to sign, and the service is told it.
    """

    url: str
    timeout: float = 1.5
    longest: int = 65536
    atATime: int = 16
    waiting: int = 256
    cacheFor: float = 0.0
    cacheSize: int = 1024
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    nonce: bool = False


@implementer(IAuthorizer)
class HTTPAuthorizer(Revocations):
    """
    Asks the service about every connection.

    @ivar required: see L{IAuthorizer}.
    @ivar deadline: see L{IAuthorizer}.
    @ivar nonce: see L{IAuthorizer}.
    """

    required = True
    deadline = True

    def __init__(self, terms: HTTPServiceSettings, agent: IAgent, clock: IReactorTime) -> None:
        """
        @param agent: makes the requests, and verifies the service's certificate.
        """
        super().__init__()
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._complaints = RateLimitedLog(
            clock, "The authorization service failed, logins are denied"
        )
        self.use(terms, agent)

    def use(self, terms: HTTPServiceSettings, agent: IAgent) -> None:
        """
        Ask in another way from now on. What was remembered is forgotten.
        """
        self._terms = terms
        self._agent = agent
        self._turnstile = ConcurrencyLimiter(terms.atATime, terms.waiting)
        self._remembered: OrderedDict[bytes, tuple[float, Grant | None]] = OrderedDict()

    @property
    def nonce(self) -> bool:
        return self._terms.nonce

    def revoke(self, account: str | None = None) -> None:
        """
        Forget what is remembered, and announce that grants may no longer hold.
        """
        self._remembered = OrderedDict()
        super().revoke(account)

    def grantFor(self, request: ConnectRequest) -> Grant | Deferred[Grant]:
        body = question(request, self._terms.nonce)
        key = hashlib.blake2b(body, digest_size=32, key=self._key).digest()
        until, grant = self._remembered.get(key, (0.0, None))
        if self._clock.seconds() < until:
            return _let(grant)
        asking = self._turnstile.run(self._ask, body)
        asking.addCallback(self._answered, key, self._remembered)
        return asking.addErrback(self._failed)

    def _failed(self, failure: Failure) -> Failure:
        """
        Who gave the question up, or is denied, hears that; what the service did wrong is for the
        log alone.
        """
        if failure.check(errors.Unauthorized, CancelledError):
            return failure
        self._complaints.log(failure)
        raise errors.Unauthorized("the authorization service failed")

    def _ask(self, body: bytes) -> Deferred[tuple[int, bytes]]:
        terms = self._terms
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        return exchange(
            self._agent,
            self._clock,
            terms.url,
            terms.timeout,
            terms.longest,
            body,
            {**headers, **terms.headers},
        )

    def _answered(
        self,
        answer: tuple[int, bytes],
        key: bytes,
        remembered: OrderedDict[bytes, tuple[float, Grant | None]],
    ) -> Grant:
        status, body = answer
        if status == _OK:
            grant: Grant | None = grantFromAnswer(body)
        elif status in _DENIALS:
            grant = None
        else:
            raise AuthorizationServiceError(f"the authorization service answers {status}")
        # An answer to what was asked before everything was forgotten is not to be remembered.
        if self._terms.cacheFor > 0 and remembered is self._remembered:
            remembered[key] = (self._clock.seconds() + self._terms.cacheFor, grant)
            while len(remembered) > self._terms.cacheSize:
                remembered.popitem(last=False)
        return _let(grant)


def _let(grant: Grant | None) -> Grant:
    if grant is None:
        raise errors.Unauthorized("the authorization service denies")
    return grant
