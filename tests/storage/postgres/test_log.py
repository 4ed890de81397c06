"""
Logs that are read without their lease.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ISubjectIndexedLog, IViewableStore
from natsbroker.interfaces.records import LeaseLost, NoSuchLog, Retention, SubjectTally
from natsbroker.testing.contracts.harness import numbered
from tests.storage.postgres.harness import PostgresHarness


class ViewTests(PostgresHarness, SynchronousTestCase):
    """Views of a log that another broker writes."""

    def test_view(self) -> None:
        """A view has the records that are durable when it is read; its bounds do not change."""
        one: Any = self.store()
        other: Any = self.store()
        assert verifyObject(IViewableStore, other)
        log = self.wait(one.open("log"))
        self.wait(log.append(numbered(1, 4)))
        view = self.wait(other.view("log"))
        assert verifyObject(ISubjectIndexedLog, view)
        self.wait(log.append(numbered(4, 6)))
        records = self.wait(view.read(1))
        assert [record.sequence for record in records] == [1, 2, 3, 4, 5]
        assert records == self.wait(log.read(1))
        last = self.wait(view.lastFor(records[-1].subject))
        assert last == records[-1]
        assert (view.bounds().first, view.bounds().last, view.bounds().count) == (1, 3, 3)
        assert self.wait(other.view("log")).bounds() == log.bounds()

    def test_replaced(self) -> None:
        """A record that was replaced after the view was made is found in its new place."""
        one: Any = self.store()
        other: Any = self.store()
        log = self.wait(one.open("log"))
        log.retain(Retention(perSubject=1))
        self.wait(log.append(numbered(1, 2)))
        view = self.wait(other.view("log"))
        self.wait(log.append(numbered(2, 3)))
        assert self.wait(view.lastFor(b"s")).sequence == 2
        assert [record.sequence for record in self.wait(view.read(1))] == [2]
        matching = self.wait(view.readMatching([b"s"], 1))
        assert [record.sequence for record in matching.records] == [2]
        assert matching.next == 3
        assert self.wait(view.subjects(b">")) == {b"s": SubjectTally(1, 2, 2)}

    def test_refusals(self) -> None:
        """A view refuses appends; a missing log has no view."""
        store: Any = self.store()
        self.wait(store.open("log"))
        view = self.wait(store.view("log"))
        self.failureResultOf(view.append(numbered(1, 2)), LeaseLost)
        failures: list[Any] = []
        self.wait(store.view("none").addErrback(failures.append))
        assert failures[0].check(NoSuchLog)


class ReadTests(PostgresHarness, SynchronousTestCase):
    """Reads of records that the reactor does not know yet."""

    def test_givenUp(self) -> None:
        """
        A read that waits for an append ends when the log is given up, as no commit would end it.
        """
        store: Any = self.store()
        log = self.wait(store.open("log"))
        kept: list[Any] = []
        self.patch(store, "committed", kept.append)  # type: ignore[no-untyped-call]
        appending = log.append(numbered(1, 4))
        self.reactor.turn()
        pages: list[Any] = []
        log.read(1).addCallback(pages.append)
        self.reactor.turn()
        assert (len(kept), pages, log.bounds().last) == (1, [], 0)
        self.patch(store, "committed", type(store).committed.__get__(store))  # type: ignore[no-untyped-call]
        givingUp = store.giveUp("log")
        assert [record.sequence for record in pages[0]] == [1, 2, 3]
        store.committed(kept[0])
        self.successResultOf(appending)
        self.wait(givingUp)
