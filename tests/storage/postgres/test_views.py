"""
Logs that are read without their lease.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ISubjectIndexedLog, IViewableStore
from natsbroker.interfaces.records import LeaseLost, NoSuchLog
from natsbroker.testing.contracts.harness import numbered
from tests.storage.postgres.harness import PostgresHarness


class ViewTests(PostgresHarness, SynchronousTestCase):
    """A broker has a log, and another one looks."""

    def test_view(self) -> None:
        """It has what is durable, and does not change."""
        one: Any = self.store()
        other: Any = self.store()
        assert verifyObject(IViewableStore, other)
        log = self.wait(one.open("log"))
        self.wait(log.append(numbered(1, 4)))
        view = self.wait(other.view("log"))
        assert verifyObject(ISubjectIndexedLog, view)
        self.wait(log.append(numbered(4, 6)))
        found = self.wait(view.read(1))
        assert [each.sequence for each in found] == [1, 2, 3]
        assert found == self.wait(log.read(1))[:3]
        last = self.wait(view.lastFor(found[-1].subject))
        assert last == found[-1]
        assert (view.bounds().first, view.bounds().last, view.bounds().count) == (1, 3, 3)
        assert self.wait(other.view("log")).bounds() == log.bounds()

    def test_refusals(self) -> None:
        """It takes nothing, and of a log that is not there is none."""
        store: Any = self.store()
        self.wait(store.open("log"))
        view = self.wait(store.view("log"))
        self.failureResultOf(view.append(numbered(1, 2)), LeaseLost)
        failures: list[Any] = []
        self.wait(store.view("none").addErrback(failures.append))
        assert failures[0].check(NoSuchLog)
