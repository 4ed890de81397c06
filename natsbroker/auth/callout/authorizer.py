"""
The authorizer of a configuration with auth callout. A service decides about all users but its own.

The service also decides about users that the configuration accepts, except its own users, and users
of accounts outside of its competence. The checks come in nats-server's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.auth.authenticator import Revocations
from natsbroker.auth.callout.callouts import Callouts, guarded
from natsbroker.auth.callout.messages import AuthorizationResponse, CalloutUser, nameIn, stayOf
from natsbroker.auth.operator.granting import expiryOf, rulesInto
from natsbroker.config.settings.authorization import AuthCallout
from natsbroker.errors import PROXY_REQUIRED, Unauthorized
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import GLOBAL_ACCOUNT, ConnectRequest, Grant


@implementer(IAuthorizer)
class CalloutAuthorizer(Revocations):
    required = True
    deadline = True

    def __init__(
        self,
        settings: IAuthorizer,
        callouts: Callouts,
        service: AuthCallout,
        memberOf: Callable[[str], Grant | None],
    ) -> None:
        """C{memberOf} gives an unrestricted member's grant; C{None} for an unknown account."""
        super().__init__()
        self._settings = settings
        self._callouts = callouts
        self._service = service
        self._users = frozenset(service.auth_users)
        self._memberOf = memberOf
        self.nonce = settings.nonce

    def grantFor(self, request: ConnectRequest) -> Grant | Deferred[Grant]:
        try:
            known: Any = self._settings.grantFor(request)
        except Unauthorized as error:
            return self._unknown(request, error)
        if isinstance(known, Deferred):
            return known.addCallbacks(
                lambda grant: self._known(request, grant), lambda why: self._failed(request, why)
            )
        return self._known(request, known)

    def _failed(self, request: ConnectRequest, why: Failure) -> Deferred[Grant]:
        error = why.value
        if not isinstance(error, Unauthorized):
            why.raiseException()
        return self._unknown(request, error)

    def _known(self, request: ConnectRequest, grant: Grant) -> Grant | Deferred[Grant]:
        decided = self._service.allowed_accounts
        if grant.account != GLOBAL_ACCOUNT and decided and grant.account not in decided:
            return grant
        name = grant.user or nameIn(request)
        if name in self._users:
            return guarded(grant, self._service)
        return self._ask(request, name)

    def _unknown(self, request: ConnectRequest, error: Unauthorized) -> Deferred[Grant]:
        name = nameIn(request)
        # A service cannot override what the settings require of their users.
        if name in self._users or error.error is PROXY_REQUIRED:
            raise error
        return self._ask(request, name)

    def _ask(self, request: ConnectRequest, name: str) -> Deferred[Grant]:
        asking = self._callouts.ask(self._service, request, CalloutUser(name))
        granting: Deferred[Any] = asking.addCallback(self._granted, name)
        return granting.addErrback(self._callouts.asked, self._service.account)

    def _granted(self, answer: AuthorizationResponse, name: str) -> Grant:
        service, user = self._service, answer.user
        asked = service.account
        now = self._callouts.now()
        if not answer.isFrom({service.issuer}):
            raise self._callouts.denied("Auth callout signing key is unknown")
        until = self._callouts.checked(lambda: stayOf(user, asked, now))
        if user.issuerAccount:
            raise self._callouts.denied(
                f'Error non operator mode account "{asked}": attempted to use issuer_account'
            )
        if user.token.issuer != service.issuer:
            raise self._callouts.denied(
                f'Wrong issuer for auth callout response on account "{asked}", expected '
                f'"{service.issuer}" got "{user.token.issuer}"'
            )
        placement = user.token.audience
        member = self._memberOf(placement)
        if member is None:
            raise self._callouts.denied(
                f'No valid account "{placement}" for auth callout response on account "{asked}": '
                "account missing"
            )
        grant = replace(
            member,
            user=user.token.name or name,
            expires=expiryOf(user, until),
            issuer=member.account,
        )
        return guarded(rulesInto(grant, user.terms.rules), service)
