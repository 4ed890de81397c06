"""Contract tests for reads of L{ISubjectIndexedLog} while others write."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker.interfaces.records import Record, Retention
from natsbroker.testing.contracts.harness import StoreHarness, entry

__all__ = ["ReadersContract"]

ROUNDS = 500
"""The number of times that each subject is replaced while it is read."""

SUBJECTS = [b"kv.%d" % number for number in range(3)]

WRITERS = 4
"""The number of appends under way at any time."""


class ReadersContract(StoreHarness):
    """
    Readers beside writers, in a log with a limit per subject. A subject that always has a record is
    found by every read.

    @cvar size: the bytes of a payload.
    """

    size = 1

    def _besides(self, read: Callable[[Any, int], Deferred[Any]], readers: int = 3) -> None:
        """
        Read over and over while each subject is replaced.

        @param read: called with the log and the last sequence that was acknowledged before.
        """
        log = self.log([entry(b"0", subject) for subject in SUBJECTS], Retention(perSubject=1))
        writing: deque[Deferred[Any]] = deque()
        reading: deque[Deferred[Any]] = deque()
        for _ in range(ROUNDS):
            batch = [entry(bytes(self.size), subject) for subject in SUBJECTS]
            writing.append(log.append(batch))
            while len(reading) < readers:
                reading.append(read(log, log.bounds().last))
            if len(writing) == WRITERS:
                self.wait(writing.popleft())
            while reading and reading[0].called:
                self.wait(reading.popleft())
        for asking in (*writing, *reading):
            self.wait(asking)
        self.assertEqual(log.bounds().count, len(SUBJECTS))

    def _newEnough(self, records: list[Record], known: int) -> None:
        """Check that each subject has a record, and none older than the last acknowledged one."""
        self.assertEqual({record.subject for record in records}, set(SUBJECTS))
        for record in records:
            self.assertGreater(record.sequence, known - len(SUBJECTS))

    def test_lastForBesideWriters(self) -> None:
        """The last record of a subject is always found."""

        def check(record: Record | None, known: int) -> None:
            self.assertIsNotNone(record)
            if record is not None:
                self.assertGreater(record.sequence, known - len(SUBJECTS))

        self._besides(lambda log, known: log.lastFor(SUBJECTS[1]).addCallback(check, known))

    def test_readBesideWriters(self) -> None:
        """A read from the beginning gives a record of each subject."""
        self._besides(lambda log, known: log.read(1, 1000).addCallback(self._newEnough, known))

    def test_readMatchingBesideWriters(self) -> None:
        """A search finds a record of each subject, and ends behind all of them."""

        def check(matching: Any, known: int) -> None:
            self._newEnough(list(matching.records), known)
            self.assertGreater(matching.next, matching.records[-1].sequence)

        def search(log: Any, known: int) -> Any:
            return log.readMatching([b"kv.*"], 1, 1000).addCallback(check, known)

        self._besides(search)

    def test_searchBesideWriters(self) -> None:
        """A search for one subject finds its record while it is replaced."""

        def check(matching: Any, known: int) -> None:
            [record] = matching.records
            self.assertGreater(record.sequence, known - len(SUBJECTS))

        def search(log: Any, known: int) -> Any:
            return log.readMatching([SUBJECTS[2]], 1, 1).addCallback(check, known)

        self._besides(search)

    def test_talliesBesideWriters(self) -> None:
        """Each subject is listed, with one record."""

        def check(tallies: Any, known: int) -> None:
            self.assertEqual(list(tallies), SUBJECTS)
            for tally in tallies.values():
                self.assertEqual((tally.count, tally.first), (1, tally.last))
                self.assertGreater(tally.last, known - len(SUBJECTS))

        self._besides(lambda log, known: log.subjects(b"kv.*").addCallback(check, known))

    def test_afterItsTimeBesideWriters(self) -> None:
        """From the sequence that is found for a time on, each subject has a record."""

        def check(sequence: int, log: Any) -> Any:
            return log.readMatching([b"kv.*"], sequence, 1000).addCallback(
                lambda matching: self._newEnough(list(matching.records), 0)
            )

        self._besides(
            lambda log, known: log.sequenceAt(self.time).addCallback(check, log), readers=2
        )

    def test_knownWhenRead(self) -> None:
        """A record that a read finds is within the bounds at that moment."""

        def check(record: Record | None, log: Any) -> None:
            self.assertIsNotNone(record)
            if record is not None:
                self.assertLessEqual(record.sequence, log.bounds().last)

        self._besides(lambda log, known: log.lastFor(SUBJECTS[0]).addCallback(check, log))
