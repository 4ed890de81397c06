"""
Telling whoever asked that grants may no longer hold.
"""

from __future__ import annotations

from natsbroker.auth.revocations import Revocations
from tests.conftest import FlushLoggedErrors


def test_tellsEverybody() -> None:
    """Everybody who watches is called, each time."""
    told: list[str] = []
    revocations = Revocations()
    revocations.watchRevocations(lambda: told.append("a"))
    revocations.watchRevocations(lambda: told.append("b"))
    revocations.revoke()
    revocations.revoke()
    assert told == ["a", "b", "a", "b"]


def test_ofOneAccount() -> None:
    """Who watches is told whose grants may no longer hold, if it is one account's alone."""
    told: list[tuple[str, ...]] = []
    revocations = Revocations()
    revocations.watchRevocations(lambda *accounts: told.append(accounts))
    revocations.revoke("A")
    revocations.revoke()
    assert told == [("A",), ()]


def test_ends() -> None:
    """Who ended it is called no more, also if the same callable watches twice."""
    told: list[int] = []

    def watch() -> None:
        told.append(1)

    revocations = Revocations()
    stop = revocations.watchRevocations(watch)
    revocations.watchRevocations(watch)
    stop()
    stop()
    revocations.revoke()
    assert told == [1]


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """One that fails is logged and keeps nobody else from being called."""
    told: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError

    revocations = Revocations()
    revocations.watchRevocations(fail)
    revocations.watchRevocations(lambda: told.append(1))
    revocations.revoke()
    assert told == [1]
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1
