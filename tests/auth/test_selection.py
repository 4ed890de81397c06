"""
Who decides about clients: the first of those that there may be.
"""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface.exceptions import Invalid

from natsbroker.auth.configured import SettingsAuthorizer
from natsbroker.auth.selection import AuthorizerSelection
from natsbroker.config.model import Settings
from tests.support import Doorkeeper


class Operators:
    """
    Whoever takes accounts from JWTs.
    """

    def __init__(self) -> None:
        self.authorizer = Doorkeeper()
        self.required: list[str] = []

    def nameOf(self, account: str) -> str:
        """See L{natsbroker.auth.operator.service.OperatorService.nameOf}."""
        return account.title()

    def require(self, account: str) -> None:
        """See L{natsbroker.auth.operator.service.OperatorService.require}."""
        self.required.append(account)


def authority(operators: Any = None) -> AuthorizerSelection:
    """Nobody in it has to compare secrets or ask services here."""
    unused: Any = None
    return AuthorizerSelection(unused, unused, operators)


def test_settings() -> None:
    """The users of the settings decide where nobody else does."""
    made = authority()
    assert isinstance(made.choose(Settings(), None), SettingsAuthorizer)
    assert (made.chosen, made.nameOf("a")) == (None, "a")
    made.require("a")


def test_operator() -> None:
    """The operator's JWTs come before the settings, and say which accounts there are."""
    operators: Any = Operators()
    made = authority(operators)
    assert made.choose(Settings(), None) is made.chosen is operators.authorizer
    made.require("a")
    assert (made.nameOf("a"), operators.required) == ("A", ["a"])


@pytest.mark.parametrize("operators", [None, Operators()], ids=["settings", "operator"])
def test_given(operators: Operators | None) -> None:
    """What was given comes before everything else."""
    given: Any = Doorkeeper()
    made = authority(operators)
    assert made.choose(Settings(), given) is made.chosen is given


def test_noAuthorizer() -> None:
    """What cannot decide is refused at once."""
    odd: Any = object()
    with pytest.raises(Invalid):
        authority().choose(Settings(), odd)
