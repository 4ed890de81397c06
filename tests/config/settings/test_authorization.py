"""
Tests for L{natsbroker.config.settings.authorization}.
"""

from __future__ import annotations

from natsbroker.config.settings.authorization import (
    GLOBAL_ACCOUNT,
    UNLIMITED,
    AccountLimits,
    AccountSettings,
    AuthorizationSettings,
    Permissions,
    User,
)
from natsbroker.subjects.permissions import ResponsePermission


def test_secretsStayOut() -> None:
    """The repr of the settings contains no passwords, tokens or options of plugins."""
    user = User("alice", "canary")
    shown = repr(
        (
            user,
            AccountSettings("A", (user,)),
            AuthorizationSettings(
                user="a", password="canary", token="canary", options={"k": "canary"}
            ),
        )
    )
    assert "canary" not in shown
    assert "alice" in shown


def test_defaults() -> None:
    """
    Without settings nothing is restricted. Permission to answer is for one message within two
    minutes.
    """
    assert User("a").account == GLOBAL_ACCOUNT
    assert Permissions() == Permissions(None, None, None)
    assert ResponsePermission() == ResponsePermission(1, 120.0)
    assert set(vars_of(AccountLimits())) == {UNLIMITED}


def vars_of(limits: AccountLimits) -> list[int]:
    """
    List the values of limits.
    """
    return [
        limits.max_connections,
        limits.max_subscriptions,
        limits.max_payload,
        limits.max_leafnodes,
    ]
