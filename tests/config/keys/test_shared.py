"""
Tests for L{natsbroker.config.keys.shared}.
"""

from __future__ import annotations

from natsbroker.config.keys.shared import CERTIFICATE, DIRECTION, TIME, TLS_SECTION


def test_tlsHasNoVariables() -> None:
    """As in nats-server, a C{tls} block has no keys that are only there to be referred to."""
    assert not TLS_SECTION.variables
    assert not CERTIFICATE.variables


def test_times() -> None:
    """A duration may still be a bare number of seconds."""
    assert TIME.typeNames == "a duration or an integer of seconds"


def test_directions() -> None:
    """A direction of permissions allows and denies, and nothing else."""
    assert sorted(DIRECTION.keys) == ["allow", "deny"]
