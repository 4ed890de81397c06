"""
The authorizer of some settings.

Users of the settings alone decide, unless the settings name an auth callout service; then
that decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from natsbroker.accounts.registry import accountNames
from natsbroker.auth.credentials import authorizerFrom, grantFrom
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.model import Settings, User
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import Grant

if TYPE_CHECKING:
    from natsbroker.auth.callout.callouts import Callouts

__all__ = ["Authorization"]


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
