"""
Tests for L{natsbroker.auth.callout.reading}, and what does not go with auth callout.
"""

from __future__ import annotations

import pytest

from natsbroker.config.model import AuthCallout
from tests.auth.operator.keys import ACCOUNT, USER
from tests.config.support import complaintsOf, settingsOf

CURVE = "XDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435DRXO"


def block(text: str) -> str:
    """
    A configuration with auth callout.
    """
    return f"authorization {{ users: [{{user: a, password: b}}], auth_callout {{ {text} }} }}"


def test_nothing() -> None:
    """By default nobody is asked."""
    assert settingsOf("port: 4222").authorization.auth_callout is None


def test_least() -> None:
    """Issuer and users are needed; the service is asked in the global account."""
    found = settingsOf(block(f"issuer: {ACCOUNT}, auth_users: [a]")).authorization.auth_callout
    assert found == AuthCallout(ACCOUNT, "$G", ("a",))


def test_most() -> None:
    """All that can be said, under other names of the keys."""
    text = f"issuer: {ACCOUNT}, users: [a], acc: A, key: {CURVE}, allowed_accounts: [A, B]"
    found = settingsOf(block(text)).authorization.auth_callout
    assert found == AuthCallout(ACCOUNT, "A", ("a",), CURVE, ("A", "B"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("auth_users: [a]", "Authorization callouts require an issuer to be specified"),
        (f"issuer: {USER}, auth_users: [a]", "Expected callout user to be a valid public account"),
        (f"issuer: {ACCOUNT}", "Authorization callouts require authorized users to be specified"),
        (f"issuer: {ACCOUNT}, auth_users: []", "require authorized users to be specified"),
        (
            f"issuer: {ACCOUNT}, auth_users: [a], xkey: {USER}",
            "Expected callout xkey to be a valid public xkey",
        ),
        (f"issuer: {ACCOUNT}, auth_users: [a], bogus: 1", 'unknown field "bogus"'),
    ],
)
def test_mistakes(text: str, complaint: str) -> None:
    """What is wrong is refused in nats-server's words."""
    (found,) = complaintsOf(block(text))
    assert complaint in found


def test_operators() -> None:
    """In operator mode accounts say who is asked, and the configuration does not."""
    found = complaintsOf(
        f"operator: eyJ\nauthorization {{ auth_callout {{ issuer: {ACCOUNT}, auth_users: [a] }} }}"
    )
    assert any("operators do not allow authorization callouts" in each for each in found)


def test_plugin() -> None:
    """One decides: a plugin or a service."""
    text = f"authorization {{ plugin: p, auth_callout {{ issuer: {ACCOUNT}, auth_users: [a] }} }}"
    (found,) = complaintsOf(text)
    assert "auth_callout does not go with a plugin" in found
