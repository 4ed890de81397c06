"""
Tests for L{natsbroker.config.settings.operator}.
"""

from __future__ import annotations

from natsbroker.config.settings.operator import OperatorMode, Resolver


def test_isOn() -> None:
    """Operator mode is enabled by operators or keys of operators, and not by a resolver alone."""
    assert OperatorMode(operators=("jwt",)).isOn
    assert OperatorMode(trusted_keys=("O",)).isOn
    assert not OperatorMode(resolver=Resolver()).isOn


def test_secretsAreNotShown() -> None:
    """The repr of the settings hides JWTs of users, and passwords in URLs."""
    mode = OperatorMode(default_sentinel="secret", resolver=Resolver(url="http://a:secret@b"))
    assert "secret" not in repr(mode)
