"""
A directory of accounts with a resolver and an observer in memory, and JWTs for the directory.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.directory import AccountDirectory
from natsbroker.auth.operator.operators import OperatorClaims, TrustedKeys
from natsbroker.errors import Unauthorized
from natsbroker.interfaces import IAccountResolver
from tests.auth.operator.chain import Account, Operator

OPERATOR = Operator()


ACCOUNT = Account(OPERATOR)


TRUST = TrustedKeys.of([OperatorClaims.decode(OPERATOR.jwt())])


@implementer(IAccountResolver)
class Resolver:
    """
    A resolver with the test's JWTs.

    @ivar tokens: texts, exceptions or Deferreds by public key.
    @ivar asked: the accounts that were fetched.
    """

    def __init__(self, **tokens: Any) -> None:
        self.tokens = tokens
        self.asked: list[str] = []

    def fetch(self, account: str) -> Any:
        self.asked.append(account)
        token = self.tokens[account]
        if isinstance(token, Exception):
            raise token
        return token


class Observer:
    """An observer that records its notifications."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def accountChanged(self, claims: AccountClaims) -> None:
        self.told.append(("changed", claims.token.subject))

    def accountEnded(self, account: str) -> None:
        self.told.append(("ended", account))


class World:
    """A directory with its resolver, clock and observer."""

    def __init__(self, text: Any = None, now: float = 1000.0, trust: TrustedKeys = TRUST) -> None:
        self.clock = Clock()
        self.clock.rightNow = now
        self.resolver = Resolver(**{} if text is None else {ACCOUNT.key: text})
        self.directory = AccountDirectory(trust, self.resolver, self.clock)
        self.observer = Observer()
        self.directory.watch(self.observer.accountChanged, self.observer.accountEnded)

    def find(self, account: str = ACCOUNT.key) -> Any:
        """The claims of an account, or the error instead."""
        outcome: list[Any] = []
        try:
            entry = self.directory.find(account)
        except Unauthorized as error:
            return error
        if isinstance(entry, Deferred):
            entry.addCallbacks(outcome.append, lambda why: outcome.append(why.value))
            return outcome[0] if outcome else None
        return entry


def issued(at: int = 1, **changes: Any) -> str:
    """
    A JWT of the account.
    """
    return ACCOUNT.jwt(iat=at, **changes)
