"""
Auth callout in operator mode: the JWT of a user's account names the service.

A service places users into its own account or those that the account's JWT allows, with user JWTs
that were issued by the target account or one of its signing keys. A response holds until the
connection ends, as long as the accounts' JWTs allow it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred

from natsbroker import errors
from natsbroker.auth.callout.callouts import Callouts, guarded
from natsbroker.auth.callout.messages import AuthorizationResponse, CalloutUser, nameIn, stayOf
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.directory import AccountDirectory
from natsbroker.auth.operator.granting import ServerLimits, grantOf, termsOf
from natsbroker.auth.operator.userclaims import NO_LIMIT, UserClaims
from natsbroker.config.settings.authorization import AuthCallout
from natsbroker.wire.grants import ConnectRequest, Grant


@dataclass(frozen=True, slots=True)
class _Placement:
    service: AuthCallout
    user: UserClaims
    account: str
    name: str
    nameTag: str
    tags: tuple[str, ...]


class CalloutDelegate:
    def __init__(
        self, directory: AccountDirectory, callouts: Callouts, limits: ServerLimits
    ) -> None:
        self._directory = directory
        self._callouts = callouts
        self.limits = limits

    def guarded(self, grant: Grant, account: AccountClaims) -> Grant:
        return guarded(grant, _serviceOf(account))

    def ask(
        self, account: AccountClaims, request: ConnectRequest, user: UserClaims
    ) -> Deferred[Grant]:
        token = user.token
        name = nameIn(request) or token.subject
        applicant = CalloutUser(name, token.text, user.tags, token.name)
        asking = self._callouts.ask(_serviceOf(account), request, applicant)
        placing: Deferred[Any] = asking.addCallback(self._placed, account, applicant)
        return placing.addErrback(self._callouts.asked, account.token.subject)

    def reconsidered(self, request: ConnectRequest) -> Grant | Deferred[Grant] | None:
        known = None if request.granted is None else request.granted.memo
        if not isinstance(known, _Placement):
            return None
        placement = known
        claims = self._directory.find(placement.account)
        if isinstance(claims, Deferred):
            return claims.addCallback(lambda account: self._granted(placement, account))
        return self._granted(placement, claims)

    def _placed(
        self, answer: AuthorizationResponse, account: AccountClaims, applicant: CalloutUser
    ) -> Deferred[Grant]:
        user = answer.user
        asked = account.token.subject
        if not answer.isFrom({asked, *account.signers}):
            raise self._callouts.denied("Auth callout signing key is unknown")
        wanted = user.account
        if wanted != asked and not account.external.allows(wanted):
            raise self._callouts.denied(
                f'Account "{user.token.issuer}" not permitted as valid account option for auth '
                f'callout for account "{asked}"'
            )
        name = user.token.name or applicant.user
        placement = _Placement(
            _serviceOf(account), user, wanted, name, applicant.nameTag, applicant.tags
        )
        finding: Deferred[Any] = maybeDeferred(self._directory.find, wanted)
        return finding.addCallback(lambda target: self._granted(placement, target))

    def _granted(self, placement: _Placement, account: AccountClaims) -> Grant:
        user, callouts = placement.user, self._callouts
        now = callouts.now()
        until = callouts.checked(lambda: stayOf(user, placement.service.account, now))
        if account.isRevoked(user.token.subject, user.token.issuedAt):
            raise errors.Unauthorized("the user is revoked", errors.AUTH_REVOKED)
        terms = callouts.checked(lambda: termsOf(user, account))
        # As in nats-server, limits are those of the account and the server alone.
        terms = replace(terms, payload=NO_LIMIT, subscriptions=NO_LIMIT)
        grant = grantOf(user, terms, account, self.limits, until)
        grant = replace(
            grant,
            user=placement.name,
            nameTag=placement.nameTag,
            tags=placement.tags,
            jwt="",
            memo=placement,
        )
        return guarded(grant, placement.service)


def _serviceOf(account: AccountClaims) -> AuthCallout:
    key = account.token.subject
    return AuthCallout(key, key, xkey=account.external.xkey)
