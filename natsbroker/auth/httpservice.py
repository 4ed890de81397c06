"""
The authorizer that asks a service over HTTP.

A service that is slow, unreachable or answers nonsense denies every login; this is logged at a
limited rate. Concurrent requests and the cache of answers are bounded, and the cache holds no
secret.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.iweb import IAgent
from zope.interface import implementer

from natsbroker import errors
from natsbroker.auth.authenticator import Revocations
from natsbroker.auth.fields import FieldError, Fields, encoded
from natsbroker.connections.httpexchange import exchange
from natsbroker.interfaces import IAuthorizer
from natsbroker.subjects.permissions import PermissionSet, ResponsePermission, SubscribePermissions
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire.grants import GLOBAL_ACCOUNT, ConnectRequest, Grant

_log = Logger()

#: The most characters of a reason.
_LONGEST = 300


class RateLimitedLog:
    """Logs a failure at most once in C{INTERVAL} seconds, with the number of those left out."""

    INTERVAL = 10.0

    def __init__(self, clock: IReactorTime, what: str) -> None:
        self._clock = clock
        self._what = what
        self._silentUntil = float("-inf")
        self._untold = 0

    def log(self, failure: Failure) -> None:
        now = self._clock.seconds()
        if now < self._silentUntil:
            self._untold += 1
            return
        untold, self._untold = self._untold, 0
        self._silentUntil = now + self.INTERVAL
        _log.error(
            "{what}: {why}{more}",
            what=self._what,
            why=reasonOf(failure),
            more=f" (and {untold} times more before)" if untold else "",
        )


def reasonOf(failure: Failure) -> str:
    """The error in one line, with the errors behind it where a request has several."""
    reasons = getattr(failure.value, "reasons", None) or [failure]
    told = [
        f"{reason.type.__name__} {reason.getErrorMessage()}" for reason in reasons if reason.type
    ]
    return "; ".join(told)[:_LONGEST].strip()


#: The members of CONNECT that the service receives: the login, and the client's program.
_PASSED_ON = ("user", "pass", "auth_token", "nkey", "jwt", "sig", "name", "lang", "version")

_NAMES = frozenset(
    {"user", "account", "permissions", "max_payload", "max_subscriptions", "expires"}
)


def question(request: ConnectRequest, nonce: bool = False) -> bytes:
    asked: dict[str, Any] = {
        "host": request.host,
        "connection_type": request.connectionType,
        "connect": {name: request.text(name) for name in _PASSED_ON if request.text(name)},
    }
    if nonce:
        asked["nonce"] = request.nonce
    if request.certificate is not None:
        asked["certificate"] = request.certificate.public_bytes(Encoding.PEM).decode("ascii")
    return json.dumps(asked, separators=(",", ":"), sort_keys=True).encode("ascii")


def grantFromAnswer(data: bytes) -> Grant:
    fields = Fields.parse(data)
    _refuseOthers(fields, _NAMES)
    if not fields.text("user"):
        raise FieldError("user is missing: nobody is let in without a name")
    permissions = fields.block("permissions") or Fields([])
    _refuseOthers(permissions, {"publish", "subscribe", "allow_responses"})
    expires = fields.integer("expires", -1)
    try:
        responses = _responses(permissions)
        return Grant(
            account=fields.text("account") or GLOBAL_ACCOUNT,
            user=fields.text("user"),
            publish=_publish(permissions, responses is not None),
            subscribe=_subscribe(permissions),
            responses=responses,
            maxPayload=_limit(fields, "max_payload"),
            maxSubscriptions=_limit(fields, "max_subscriptions", 1),
            expires=float(expires) if "expires" in fields else None,
        )
    except (TooManyShapes, FieldError) as error:
        raise FieldError(str(error)) from error
    except ValueError as error:
        raise FieldError(f"permissions: {error}") from error


def _refuseOthers(fields: Fields, known: frozenset[str] | set[str]) -> None:
    for name in fields:
        if name not in known:
            raise FieldError(f"{name[:64]!a} is not known")


def _lists(fields: Fields | None) -> tuple[list[bytes] | None, list[bytes]]:
    if fields is None:
        return None, []
    _refuseOthers(fields, {"allow", "deny"})
    allow = encoded(fields.texts("allow")) if "allow" in fields else None
    return allow, encoded(fields.texts("deny"))


def _publish(permissions: Fields, mayAnswer: bool) -> PermissionSet | None:
    allow, deny = _lists(permissions.block("publish"))
    if allow is None and mayAnswer:
        allow = []
    return None if allow is None and not deny else PermissionSet(allow, deny)


def _subscribe(permissions: Fields) -> SubscribePermissions | None:
    allow, deny = _lists(permissions.block("subscribe"))
    return None if allow is None and not deny else SubscribePermissions(allow, deny)


def _responses(permissions: Fields) -> ResponsePermission | None:
    fields = permissions.block("allow_responses")
    if fields is None:
        return None
    _refuseOthers(fields, {"max", "expires"})
    default = ResponsePermission()
    return ResponsePermission(
        fields.integer("max", default.max), float(fields.integer("expires", int(default.expires)))
    )


def _limit(fields: Fields, name: str, least: int = 0) -> int | None:
    limit = fields.integer(name, -1)
    if limit != -1 and limit < least:
        raise FieldError(f"{name} is neither -1, which means no limit, nor at least {least}")
    return limit if name in fields else None


_OK = 200

#: The statuses by which the service denies a login; all others mean that it has failed.
_DENIALS = frozenset({401, 403})


class AuthorizationServiceError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class HTTPServiceSettings:
    """
    @ivar longest: the most bytes of an answer.
    @ivar cacheFor: seconds for which an answer is kept; 0 for not.
    """

    url: str = field(repr=False)
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
    required = True
    deadline = True

    def __init__(self, terms: HTTPServiceSettings, agent: IAgent, clock: IReactorTime) -> None:
        super().__init__()
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._failures = RateLimitedLog(
            clock, "The authorization service failed, logins are denied"
        )
        self.use(terms, agent)

    def use(self, terms: HTTPServiceSettings, agent: IAgent) -> None:
        self._terms = terms
        self._agent = agent
        self._slots = DeferredSemaphore(terms.atATime)
        self._remembered: OrderedDict[bytes, tuple[float, Grant | None]] = OrderedDict()

    @property
    def nonce(self) -> bool:
        return self._terms.nonce

    def revoke(self, account: str | None = None) -> None:
        self._remembered = OrderedDict()
        super().revoke(account)

    def grantFor(self, request: ConnectRequest) -> Grant | Deferred[Grant]:
        body = question(request, self._terms.nonce)
        key = hashlib.blake2b(body, digest_size=32, key=self._key).digest()
        until, grant = self._remembered.get(key, (0.0, None))
        if self._clock.seconds() < until:
            return _let(grant)
        if not self._slots.tokens and len(self._slots.waiting) >= self._terms.waiting:
            raise errors.Unauthorized("too many logins at a time")
        asking: Deferred[Any] = self._slots.run(self._ask, body)
        asking.addCallback(self._answered, key, self._remembered)
        return asking.addErrback(self._failed)

    def _failed(self, failure: Failure) -> Failure:
        """Log a failure. The client learns only of a denial or a cancellation."""
        if failure.check(errors.Unauthorized, CancelledError):
            return failure
        self._failures.log(failure)
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
        # An answer to a request from before the cache was cleared must not be remembered.
        if self._terms.cacheFor > 0 and remembered is self._remembered:
            remembered[key] = (self._clock.seconds() + self._terms.cacheFor, grant)
            while len(remembered) > self._terms.cacheSize:
                remembered.popitem(last=False)
        return _let(grant)


def _let(grant: Grant | None) -> Grant:
    if grant is None:
        raise errors.Unauthorized("the authorization service denied the login")
    return grant
