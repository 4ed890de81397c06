"""
The choice of a broker's authorizer: a given one, that of operator mode, or that of configured
users.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from natsbroker.accounts.registry import AccountRegistry, accountNames
from natsbroker.auth.defaultauthorizer import authorizerFrom, grantFrom
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.clients.context import ClientContext
from natsbroker.clients.planners import authorizationPlanner, operatorPlanner
from natsbroker.config.model import Settings, User
from natsbroker.interfaces import IAuthorizer
from natsbroker.interfaces.providers import require
from natsbroker.runtime.reload import Planner
from natsbroker.wire.grants import Grant

if TYPE_CHECKING:
    from natsbroker.auth.callout.callouts import Callouts
    from natsbroker.auth.operator.service import OperatorService


class AuthorizerSelection:
    """
    A choice. C{chosen} is a given authorizer or operator mode's, or C{None} for configured users.
    """

    def __init__(
        self,
        checks: PasswordChecks,
        callouts: Callable[[], Callouts],
        operators: OperatorService | None,
    ) -> None:
        """C{callouts} is called only if the settings name an auth callout service."""
        self._checks = checks
        self._callouts = callouts
        self._operators = operators
        self.chosen: IAuthorizer | None = None

    def choose(self, settings: Settings, given: IAuthorizer | None) -> IAuthorizer:
        self.chosen = given
        if given is None and self._operators is not None:
            self.chosen = self._operators.authorizer
        first = self.chosen or self._configured(settings)
        require(IAuthorizer, first)
        return first

    def made(self, settings: Settings) -> IAuthorizer | None:
        """
        An authorizer for the users of the settings; C{None} if another authorizer decides.

        @raise ValueError: if the settings leave open who may connect.
        """
        return None if self.chosen is not None else self._configured(settings)

    def _configured(self, settings: Settings) -> IAuthorizer:
        authorizer = authorizerFrom(settings, self._checks)
        service = settings.authorization.auth_callout
        if service is None:
            return authorizer
        from natsbroker.auth.callout.authorizer import CalloutAuthorizer

        return CalloutAuthorizer(authorizer, self._callouts(), service, _members(settings))

    def nameOf(self, account: str) -> str:
        return account if self._operators is None else self._operators.nameOf(account)

    def require(self, account: str) -> None:
        if self._operators is not None:
            self._operators.require(account)

    def planner(self, context: ClientContext, accounts: AccountRegistry) -> Planner:
        if self._operators is not None:
            return operatorPlanner(context, self._operators)
        make = self._configured if self.chosen is None else None
        return authorizationPlanner(context, accounts, make)


def _members(settings: Settings) -> Callable[[str], Grant | None]:
    names = accountNames(settings)

    def memberOf(account: str) -> Grant | None:
        return grantFrom(User("", account=account), settings) if account in names else None

    return memberOf
