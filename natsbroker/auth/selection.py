"""
Who decides about the clients of a broker.

An authorizer that was given or named decides alone; else the operator's JWTs do, where
the settings name an operator; else the users of the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zope.interface.verify import verifyObject

from natsbroker.accounts.registry import AccountRegistry, accountNames
from natsbroker.auth.configured import authorizerFrom, grantFrom
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.clients.context import ClientContext
from natsbroker.config.model import Settings, User
from natsbroker.interfaces import IAuthorizer
from natsbroker.server.planners import authorizationPlanner, operatorPlanner
from natsbroker.server.reload import Planner
from natsbroker.wire.grants import Grant

if TYPE_CHECKING:
    from natsbroker.auth.callout.callouts import Callouts
    from natsbroker.auth.operator.service import OperatorService

__all__ = ["Authorization", "AuthorizerSelection"]


class Authorization:
    """
    Makes authorizers.
    """

    def __init__(self, checks: PasswordChecks, callouts: Callable[[], Callouts]) -> None:
        """
        @param checks: compares secrets.
        @param callouts: gives what asks services; called where the settings name one.
        """
        self._checks = checks
        self._callouts = callouts

    def authorizerFor(self, settings: Settings) -> IAuthorizer:
        """
        Make the authorizer of some settings.

        @raise ValueError: see L{authorizerFrom}.
        """
        authorizer = authorizerFrom(settings, self._checks)
        callout = settings.authorization.auth_callout
        if callout is None:
            return authorizer
        from natsbroker.auth.callout.authorizer import CalloutAuthorizer
        from natsbroker.auth.callout.callouts import CalloutService

        return CalloutAuthorizer(
            authorizer,
            self._callouts(),
            CalloutService(callout.account, callout.issuer, callout.xkey),
            frozenset(callout.auth_users),
            frozenset(callout.allowed_accounts),
            _members(settings),
        )


def _members(settings: Settings) -> Callable[[str], Grant | None]:
    """
    Tells what members of accounts may do whom nothing is forbidden.
    """
    names = accountNames(settings)

    def memberOf(account: str) -> Grant | None:
        return grantFrom(User("", account=account), settings) if account in names else None

    return memberOf


class AuthorizerSelection:
    """
    What decides in one broker.

    @ivar chosen: the authorizer that was given, or that of the operator; C{None} where the users of
        the settings decide.
    """

    def __init__(
        self,
        checks: PasswordChecks,
        callouts: Callable[[], Callouts],
        operators: OperatorService | None,
    ) -> None:
        """
        @param checks: compares secrets.
        @param callouts: gives what asks services.
        @param operators: takes accounts from JWTs; C{None} without an operator.
        """
        self._operators = operators
        self._own = Authorization(checks, callouts)
        self.chosen: IAuthorizer | None = None

    def choose(self, settings: Settings, given: IAuthorizer | None) -> IAuthorizer:
        """
        Say who decides.

        @param given: an authorizer that is not ours; C{None} for none.
        @return: the authorizer to begin with.
        @raise ValueError: see L{Authorization.authorizerFor}.
        @raise zope.interface.exceptions.Invalid: if what was given is no authorizer.
        """
        self.chosen = given
        if given is None and self._operators is not None:
            self.chosen = self._operators.authorizer
        first = self.chosen or self._own.authorizerFor(settings)
        verifyObject(IAuthorizer, first)
        return first

    def nameOf(self, account: str) -> str:
        """
        How an account is called for people.
        """
        return account if self._operators is None else self._operators.nameOf(account)

    def require(self, account: str) -> None:
        """
        Have an account that something here needs, whether or not a client of it comes.
        """
        if self._operators is not None:
            self._operators.require(account)

    def planner(self, context: ClientContext, accounts: AccountRegistry) -> Planner:
        """
        Who is asked when settings are reloaded.
        """
        if self._operators is not None:
            return operatorPlanner(context, self._operators)
        make = self._own.authorizerFor if self.chosen is None else None
        return authorizationPlanner(context, accounts, make)
