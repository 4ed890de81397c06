"""
The authorizer of operator mode.

A client needs a user JWT that a trusted operator's account, or a signing key of that, issued, and a
signature of the nonce with the user's key, unless it is a bearer JWT. It is denied if it is
revoked, expired, or at another address, time of day or kind of connection than the JWT allows. The
checks come in nats-server's order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors
from natsbroker.auth.authenticator import Revocations
from natsbroker.auth.callout.delegate import CalloutDelegate
from natsbroker.auth.fields import FieldError
from natsbroker.auth.nkeys import checkSignature
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.directory import AccountDirectory
from natsbroker.auth.operator.granting import ServerLimits, grantOf, termsOf
from natsbroker.auth.operator.userclaims import UserClaims, UserPermissionLimits, isFrom, validUntil
from natsbroker.auth.proxies import requireProxy
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import ConnectRequest, Grant

_log = Logger()


@implementer(IAuthorizer)
class OperatorAuthorizer(Revocations):
    """The authorizer of operator mode; C{sentinel} is the JWT of users that send none."""

    required = True
    deadline = True
    nonce = True

    def __init__(
        self,
        directory: AccountDirectory,
        now: Callable[[], float],
        limits: ServerLimits | None = None,
        pinned: frozenset[str] | None = None,
        sentinel: str = "",
        delegate: CalloutDelegate | None = None,
    ) -> None:
        """
        @param pinned: the only accounts whose users may connect; C{None} for all.
        @param delegate: decides for accounts with auth callout; without it, their users are denied.
        """
        super().__init__()
        self._directory = directory
        self._now = now
        self._pinned = pinned
        self.sentinel = sentinel
        self._delegate = delegate
        self.limits = limits or ServerLimits()
        directory.watch(lambda claims: self.revoke(claims.token.subject), self.revoke)

    def grantFor(self, request: ConnectRequest) -> Grant | Deferred[Grant]:
        if self._delegate is not None and request.granted is not None:
            again = self._delegate.reconsidered(request)
            if again is not None:
                return again
        user = self._userIn(request)
        if user.terms.proxyRequired:
            requireProxy(request)
        if not user.token.isTimely(self._now()):
            raise errors.Unauthorized("the user's JWT has expired or is not yet valid")
        if self._pinned is not None and user.account not in self._pinned:
            raise errors.Unauthorized("the account is not pinned")
        account = self._directory.find(user.account)
        if isinstance(account, Deferred):
            return account.addCallback(lambda claims: self._decide(user, claims, request))
        return self._decide(user, account, request)

    def _userIn(self, request: ConnectRequest) -> UserClaims:
        text = request.text("jwt").rstrip("\r\n")
        try:
            return UserClaims.decode(text)
        except FieldError as error:
            if self.sentinel:
                return UserClaims.decode(self.sentinel)
            raise errors.Unauthorized(f"not a valid user JWT: {error}") from error

    def _decide(
        self, user: UserClaims, account: AccountClaims, request: ConnectRequest
    ) -> Grant | Deferred[Grant]:
        terms = termsOf(user, account)
        if terms.bearer and account.terms.noBearers:
            raise errors.Unauthorized("the account does not allow bearer tokens")
        until = checkPresence(terms, request, self._now())
        key = user.token.subject
        if not terms.bearer:
            checkSignature(key, request)
        if account.isRevoked(key, user.token.issuedAt):
            raise errors.Unauthorized("the user is revoked", errors.AUTH_REVOKED)
        grant = grantOf(user, terms, account, self.limits, until)
        if not account.external.users:
            return grant
        return self._delegated(grant, user, account, request)

    def _delegated(
        self, grant: Grant, user: UserClaims, account: AccountClaims, request: ConnectRequest
    ) -> Grant | Deferred[Grant]:
        """The service decides about the users of an account with auth callout, except its own."""
        delegate = self._delegate
        if user.token.subject in account.external.users:
            return grant if delegate is None else delegate.guarded(grant, account)
        if delegate is None:
            raise errors.Unauthorized(
                "the account leaves its users to auth callout, which is not configured"
            )
        return delegate.ask(account, request, user)


def checkPresence(terms: UserPermissionLimits, request: ConnectRequest, now: float) -> float:
    """
    Check address, kind of connection and time of the day. Return the end of the allowed time, in
    seconds since the epoch; infinity for none.

    @raise errors.Unauthorized: if the user may not connect.
    """
    types = terms.connectionTypes
    if types and request.connectionType not in types:
        raise errors.Unauthorized("the user may not use this kind of connection")
    if not isFrom(request.host, terms.sources):
        raise errors.Unauthorized("the user may not connect from this address")
    until = validUntil(terms.times, terms.zone, now)
    if until == -math.inf:
        raise errors.Unauthorized("the user may not connect at this time of day")
    return until
