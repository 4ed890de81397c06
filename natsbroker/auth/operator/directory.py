"""
The accounts in use in operator mode.

An account is known only while its JWT is valid and signed by a trusted key. Concurrent requests for
one account cause one request to the resolver. Watchers learn of an account before it is used, and
of every change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker import errors
from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.operators import TrustedKeys
from natsbroker.auth.operator.tokens import SignedJWT
from natsbroker.interfaces import IAccountResolver
from natsbroker.wire.nkeys import Role, isKey

_log = Logger()

#: The shortest interval, in seconds, between two look-ups of a JWT to replace an expired one.
_PATIENCE = 1.0

#: Expected reasons why an account is missing: they are not logged as failures.
_EXPECTED = (LookupError, FieldError, errors.Unauthorized, CancelledError)

#: The longest delay of a timer, in seconds.
_DAY = 86_400.0


_Changed = Callable[[AccountClaims], None]
_Ended = Callable[[str], None]


class _Known:
    def __init__(self, claims: AccountClaims, since: float) -> None:
        self.claims = claims
        self.since = since
        self.timer: IDelayedCall | None = None

    def isOver(self, now: float) -> bool:
        expires = self.claims.token.expires
        return expires != 0 and now >= expires

    def forget(self) -> None:
        timer, self.timer = self.timer, None
        if timer is not None and timer.active():
            timer.cancel()


class AccountDirectory:
    def __init__(self, trust: TrustedKeys, resolver: IAccountResolver, clock: IReactorTime) -> None:
        self.trust = trust
        self._resolver = resolver
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._deleted: set[str] = set()
        self._fetching: dict[str, Deferred[Any]] = {}
        self._waiting: dict[str, list[Deferred[AccountClaims]]] = {}
        self._watchers: list[tuple[_Changed, _Ended]] = []

    def watch(self, changed: _Changed, ended: _Ended) -> None:
        """Register callables for new or changed accounts, and for the keys of ended ones."""
        self._watchers.append((changed, ended))

    def __iter__(self) -> Iterator[AccountClaims]:
        return iter([known.claims for known in self._known.values()])

    def __contains__(self, account: str) -> bool:
        return account in self._known

    def known(self, account: str) -> AccountClaims | None:
        known = self._known.get(account)
        return None if known is None else known.claims

    def find(self, account: str) -> AccountClaims | Deferred[AccountClaims]:
        """
        @return: the claims of an account; at once if it is known.
        @raise errors.Unauthorized: if there is no valid account. The Deferred may fail with it too.
        """
        known = self._known.get(account)
        now = self._clock.seconds()
        if known is not None:
            if not known.isOver(now):
                return known.claims
            if now - known.since < _PATIENCE:
                raise errors.Unauthorized("the account has expired", errors.ACCOUNT_EXPIRED)
            known.since = now
        if not isKey(account, Role.ACCOUNT):
            raise errors.Unauthorized("not an account's public key")
        return self._fetched(account)

    def _fetched(self, account: str) -> Deferred[AccountClaims]:
        waiting = self._waiting.get(account)
        result: Deferred[AccountClaims] = Deferred(lambda given: self._giveUp(account, given))
        if waiting is not None:
            waiting.append(result)
            return result
        self._waiting[account] = [result]
        fetching: Deferred[Any] = maybeDeferred(self._resolver.fetch, account)
        self._fetching[account] = fetching
        fetching.addCallback(lambda text: self._learn(account, text))
        fetching.addCallbacks(
            lambda claims: self._tell(account, claims), lambda why: self._tellWhy(account, why)
        )
        return result

    def _giveUp(self, account: str, result: Deferred[AccountClaims]) -> None:
        waiting = self._waiting.get(account)
        if waiting is None or result not in waiting:
            return
        waiting.remove(result)
        if not waiting:
            self._fetching[account].cancel()

    def _tell(self, account: str, claims: AccountClaims) -> None:
        del self._fetching[account]
        for waiter in self._waiting.pop(account):
            waiter.callback(claims)

    def _tellWhy(self, account: str, why: Failure) -> None:
        del self._fetching[account]
        if not isinstance(why.value, _EXPECTED):
            self._complain(account, why)
        isExpired = account in self._known or account in self._deleted
        error = errors.ACCOUNT_EXPIRED if isExpired else errors.AUTHORIZATION
        for waiter in self._waiting.pop(account):
            text = f"account {account} was not found: {why.getErrorMessage()}"
            waiter.errback(errors.Unauthorized(text, error))

    def _complain(self, account: str, why: Failure) -> None:
        _log.error(
            "Account {account} could not be fetched: {why}",
            account=account,
            why=why.getErrorMessage(),
        )

    def _learn(self, account: str, text: Any) -> AccountClaims:
        if not isinstance(text, str):
            raise FieldError("the resolver did not answer with a text")
        claims = self.verified(account, text.strip())
        self._replace(claims)
        return claims

    def verified(self, account: str, text: str) -> AccountClaims:
        """
        The claims in a JWT.

        @raise FieldError: if it is invalid now, another account's, or not signed by a trusted key.
        """
        claims = AccountClaims.decode(text)
        if claims.token.subject != account:
            raise FieldError("the JWT is about another account")
        if claims.token.issuer not in self.trust.keys:
            raise FieldError("the account's JWT is not signed by a trusted operator")
        now = self._clock.seconds()
        if not claims.token.isTimely(now) or _Known(claims, now).isOver(now):
            raise FieldError("the account's JWT has expired or is not yet valid")
        if claims.token.issuer in self.trust.strictKeys:
            return claims
        return replace(claims, signers={**claims.signers, account: None})

    def update(self, account: str, text: str) -> bool:
        claims = self.verified(account, text)
        known = self._known.get(account)
        if known is None:
            return False
        if known.claims.token.text != claims.token.text:
            self._replace(claims)
        return True

    def refresh(self, account: str) -> Deferred[None]:
        """
        Fetch the JWT of a known account again; never fails. Without a valid JWT the account is
        forgotten, unless it is a placeholder. If the resolver fails, the account stays.
        """
        fetching: Deferred[Any] = maybeDeferred(self._resolver.fetch, account)
        fetching.addCallback(lambda text: self._refreshed(account, text))
        fetching.addErrback(lambda why: self._notRefreshed(account, why))
        return fetching

    def _refreshed(self, account: str, text: Any) -> None:
        if not isinstance(text, str):
            raise FieldError("the resolver did not answer with a text")
        self.update(account, text.strip())

    def _notRefreshed(self, account: str, why: Failure) -> None:
        if not isinstance(why.value, (LookupError, FieldError)):
            self._complain(account, why)
            return
        known = self._known.get(account)
        if known is not None and known.claims.token.text:
            _log.info("Account {account} was deleted", account=account)
            self._forget(account)

    def delete(self, account: str) -> None:
        """Forget an account whose JWT was deleted. Its users are closed as when it expires."""
        if account in self._known:
            self._deleted.add(account)
            self._forget(account)

    def _forget(self, account: str) -> None:
        known = self._known.pop(account, None)
        if known is not None:
            known.forget()
            self._ended(account)

    def provide(self, claims: AccountClaims) -> None:
        self._replace(claims)

    def close(self) -> None:
        for known in self._known.values():
            known.forget()

    def _replace(self, claims: AccountClaims) -> None:
        account = claims.token.subject
        self._deleted.discard(account)
        before = self._known.get(account)
        if before is not None:
            before.forget()
        self._known[account] = _Known(claims, self._clock.seconds())
        self._await(account)
        for changed, _ in self._watchers:
            changed(claims)

    def _await(self, account: str) -> None:
        known = self._known[account]
        expires = known.claims.token.expires
        if not expires:
            return
        left = expires - self._clock.seconds()
        if left <= 0:
            known.timer = None
            self._ended(account)
        else:
            known.timer = self._clock.callLater(min(left, _DAY), self._await, account)

    def _ended(self, account: str) -> None:
        for _, ended in self._watchers:
            ended(account)


def placeholder(account: str) -> AccountClaims:
    """
    The claims of a system account without JWT so far: its own key may sign users, so that JWTs can
    be pushed to a broker that has none.
    """
    token = SignedJWT("", "", account, "", "", "", 0, 0, 0, Fields([]))
    return AccountClaims(token, signers={account: None})
