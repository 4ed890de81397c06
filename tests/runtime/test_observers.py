"""Tests for L{natsbroker.runtime.observers}."""

from __future__ import annotations

import pytest
from zope.interface import implementer

from natsbroker.advisories import Advisory, LameDuckStarted
from natsbroker.interfaces import IObserver
from natsbroker.runtime.observers import Observers
from tests.conftest import FlushLoggedErrors


@implementer(IObserver)
class Seeing:
    """Records advisories."""

    def __init__(self) -> None:
        self.seen: list[Advisory] = []

    def observe(self, advisory: Advisory) -> None:
        self.seen.append(advisory)


@implementer(IObserver)
class Failing:
    """Fails."""

    def observe(self, advisory: Advisory) -> None:
        raise ZeroDivisionError


def test_tellsEverybody() -> None:
    """An advisory is given to every observer."""
    first, second = Seeing(), Seeing()
    observers = Observers([first])
    observers.add(second)
    advisory = LameDuckStarted()
    observers.notify(advisory)
    assert first.seen == second.seen == [advisory]


def test_removedObserver() -> None:
    """A removed observer is not notified. Removing it twice does nothing."""
    observer = Seeing()
    observers = Observers()
    remove = observers.add(observer)
    remove()
    remove()
    observers.notify(LameDuckStarted())
    assert observer.seen == []


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """An observer that fails is logged, and the others are called."""
    observer = Seeing()
    observers = Observers([Failing(), observer])
    observers.notify(LameDuckStarted())
    assert len(observer.seen) == 1
    assert (observers.calls.number, observers.calls.failures) == (2, 1)
    assert observers.calls.seconds > 0
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1


def test_refuses() -> None:
    """An object that is no observer is refused when it is added."""
    with pytest.raises(TypeError, match=r"object of object provides no I"):
        Observers().add(object())  # type: ignore[arg-type]
