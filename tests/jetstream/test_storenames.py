"""
The names of streams in their stores.
"""

from __future__ import annotations

from natsbroker.jetstream.storenames import logName, spaceName


def test_logs() -> None:
    """Each account has log names of its own, of limited length."""
    assert logName("A/B", "S") != logName("A", "B/S")
    assert len(logName("a" * 300, "s" * 300)) <= 400


def test_spaces() -> None:
    """Each stream has a space of its own, whose name is as short as stores want it."""
    names = [spaceName(logName(account, stream)) for account in "ab" for stream in "st"]
    assert len(set(names)) == 4
    assert len(spaceName(logName("a" * 300, "s" * 300))) <= 100
