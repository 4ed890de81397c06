"""
Waiting for the lease of a shared store.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, fail
from twisted.internet.task import Clock
from zope.interface import alsoProvides

from natsbroker.interfaces import ILeasedStore
from natsbroker.interfaces.records import LeaseLost
from natsbroker.storage.leases import StoreWatch, lead
from natsbroker.storage.memory import MemoryStore


class Taken:
    """A shared store whose logs another broker holds."""

    def __init__(self) -> None:
        self.free: Deferred[Any] = Deferred()
        self.asked: list[str] = []
        alsoProvides(self, ILeasedStore)

    def open(self, name: str, create: bool = True) -> Deferred[Any]:
        """Refuse."""
        self.asked.append(name)
        return fail(LeaseLost("taken"))

    def whenFree(self, name: str) -> Deferred[Any]:
        """Wait."""
        self.asked.append(name)
        return self.free


def test_unshared() -> None:
    """A store of one broker is served at once."""
    waited: list[None] = []
    leading = ensureDeferred(lead(MemoryStore(Clock()), "x", lambda: waited.append(None)))
    assert leading.called
    assert not waited


def test_waits() -> None:
    """A broker waits as a standby until the lease of another one ends."""
    store: Any = Taken()
    waited: list[None] = []
    leading = ensureDeferred(lead(store, "x", lambda: waited.append(None)))
    assert (waited, store.asked, leading.called) == ([None], ["x", "x"], False)
    store.free.callback(None)
    assert leading.called


def test_lost() -> None:
    """
    The loss of a log is reported by its name; the watch keeps the reason why a store accepts no
    writes.
    """
    lost: list[str] = []
    watch = StoreWatch(lost.append)
    watch.logLost("x")
    assert lost == ["x"]
    watch.writesStopped("full")
    assert watch.stopped == "full"
    watch.writesResumed()
    assert watch.stopped == ""


def test_damaged() -> None:
    """Damage is reported by the name of the log, with its sequences."""
    reports: list[Any] = []
    watch = StoreWatch(damaged=lambda *report: reports.append(report))
    watch.recordsDamaged("x", 3, 5, "broken")
    assert reports == [("x", range(3, 5))]
