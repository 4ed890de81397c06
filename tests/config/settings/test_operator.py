"""
Tests for L{natsbroker.config.settings.operator}.
"""

from __future__ import annotations

from natsbroker.config.settings.operator import OperatorMode, Resolver


def test_isOn() -> None:
    """Operators, or keys of operators, make users need JWTs; a resolver alone does not."""
    assert OperatorMode(operators=("jwt",)).isOn
    assert OperatorMode(trusted_keys=("O",)).isOn
    assert not OperatorMode(resolver=Resolver()).isOn


def test_secretsAreNotShown() -> None:
    """JWTs that admit a user, and passwords in URLs, are not shown."""
    mode = OperatorMode(default_sentinel="secret", resolver=Resolver(url="http://a:secret@b"))
    assert "secret" not in repr(mode)
