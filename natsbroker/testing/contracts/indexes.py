"""Contract tests for L{ISubjectIndexedLog} and L{IExportableLog}."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

from natsbroker.interfaces import ICountedLog
from natsbroker.interfaces.records import Columns, Record, Retention
from natsbroker.subjects.grammar import matches
from natsbroker.testing.contracts.harness import StoreHarness, entry, numbered

__all__ = ["ExportContract", "SubjectContract"]


class SubjectContract(StoreHarness):
    """L{ISubjectIndexedLog}, of a log that is an L{IRetainedLog} as well."""

    def tallies(self, log: Any, pattern: bytes = b">") -> dict[bytes, tuple[int, int, int]]:
        tallies = self.wait(log.subjects(pattern))
        if pattern == b">" and ICountedLog.providedBy(log):
            self.assertEqual(self.wait(log.countSubjects()), len(tallies))
        return {
            subject: (tally.count, tally.first, tally.last) for subject, tally in tallies.items()
        }

    def test_lastFor(self) -> None:
        """The newest record of a subject is found."""
        log = self.log()
        self.assertIsNone(self.wait(log.lastFor(b"a")))
        self.wait(log.append([entry(b"1", b"a"), entry(b"2", b"a")]))
        self.assertEqual(self.wait(log.lastFor(b"a")).payload, b"2")
        self.assertIsNone(self.wait(log.lastFor(b"b")))
        self.wait(log.append([entry(b"3", b"b"), entry(b"4", b"a"), entry(b"5", b"c")]))
        last = [self.wait(log.lastFor(subject)).payload for subject in (b"a", b"b", b"c")]
        self.assertEqual(last, [b"4", b"3", b"5"])

    def test_tallies(self) -> None:
        """The records of each subject are counted, for those that a pattern matches."""
        log = self.log()
        self.assertEqual(self.tallies(log), {})
        self.wait(log.append([entry(b"", b"a.x")] * 3))
        self.assertEqual(self.tallies(log), {b"a.x": (3, 1, 3)})
        self.wait(log.append([entry(b"", b"a.y"), entry(b"", b"b.x"), entry(b"", b"a.x")]))
        self.assertEqual(
            self.tallies(log), {b"a.x": (4, 1, 6), b"a.y": (1, 4, 4), b"b.x": (1, 5, 5)}
        )
        self.assertEqual(list(self.tallies(log, b"a.*")), [b"a.x", b"a.y"])
        self.assertEqual(list(self.tallies(log, b"*.x")), [b"a.x", b"b.x"])
        self.assertEqual(list(self.tallies(log, b"b.x")), [b"b.x"])
        self.assertEqual(self.tallies(log, b"c.>"), {})

    def test_pagesOfSubjects(self) -> None:
        """Subjects come page by page, in the order of their bytes."""
        log = self.log()
        names = [b"s.%03d" % number for number in range(250)]
        self.wait(log.append([entry(b"", name) for name in reversed(names)]))
        subjects: list[bytes] = []
        while page := list(self.wait(log.subjects(b"s.*", subjects[-1] if subjects else b"", 40))):
            self.assertLessEqual(len(page), 40)
            subjects += page
        self.assertEqual(subjects, names)

    def test_patterns(self) -> None:
        """
        Patterns with wildcards match the right subjects, whatever the number and length of tokens.
        """
        random = Random(7)
        tokens = [b"a", b"b", b"a-", b"a0", b"nope", b"x" * 300, b"y" * 500]
        subjects = {
            b".".join(random.choices(tokens, (5, 5, 2, 2, 1, 1, 1), k=random.randrange(1, 5)))
            for _ in range(400)
        }
        log = self.log([entry(b"", subject) for subject in subjects])
        for _ in range(40):
            wanted = random.choices([*tokens, b"*"], (5, 5, 2, 2, 5, 1, 1, 12), k=3)
            pattern = b".".join(wanted[: random.randrange(1, 4)] + [b">"] * random.randrange(2))
            expected = sorted(subject for subject in subjects if matches(pattern, subject))
            self.assertEqual(sorted(self.tallies(log, pattern)), expected)

    def test_talliesFollowDeletes(self) -> None:
        """Deleting, discarding and retention change the tallies."""
        log = self.log()
        subjects = [b"a", b"b", b"a", b"c", b"a", b"b", b"a"]
        self.wait(log.append([entry(b"", subject) for subject in subjects]))
        self.wait(log.delete([7]))
        self.assertEqual(self.tallies(log)[b"a"], (3, 1, 5))
        self.assertEqual(self.wait(log.lastFor(b"a")).sequence, 5)
        self.wait(log.delete([1, 4]))
        self.assertEqual(self.tallies(log), {b"a": (2, 3, 5), b"b": (2, 2, 6)})
        self.assertIsNone(self.wait(log.lastFor(b"c")))
        self.wait(log.discardBefore(4))
        self.assertEqual(self.tallies(log), {b"a": (1, 5, 5), b"b": (1, 6, 6)})
        log.retain(Retention(count=1))
        self.wait(log.append([entry(b"", b"d")]))
        self.assertEqual(self.tallies(log), {b"d": (1, 8, 8)})

    def test_talliesOfOneSubject(self) -> None:
        """
        The tally of a log's only subject stays right after deletions, and when a second subject
        comes.
        """
        log = self.log(numbered(0, 10, b"a"))
        self.wait(log.delete([1, 10]))
        self.assertEqual(self.tallies(log), {b"a": (8, 2, 9)})
        self.assertEqual(self.wait(log.lastFor(b"a")).sequence, 9)
        self.wait(log.append([entry(b"", b"b")]))
        self.assertEqual(self.tallies(log), {b"a": (8, 2, 9), b"b": (1, 11, 11)})
        self.wait(log.delete(range(1, 11)))
        self.assertEqual(self.tallies(log), {b"b": (1, 11, 11)})

    def test_talliesSurvive(self) -> None:
        """Tallies survive reopening."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append([entry(b"", b"s.%d" % (number % 30)) for number in range(40)]))
        self.wait(log.delete([1, 15]))
        self.wait(log.append([entry(b"", b"s.new")]))
        before = self.tallies(log)
        again = self.reopen(store)
        self.addCleanup(lambda: self.wait(again.close()))
        self.assertEqual(self.tallies(self.wait(again.open("log"))), before)

    def test_longSubjects(self) -> None:
        """Subjects longer than any key of an index are distinguished."""
        log = self.log()
        names = [b"x" * 600 + b".%d" % number for number in range(5)] + [b"x" * 600, b"y"]
        self.wait(log.append([entry(name, name) for name in names]))
        for name in names:
            self.assertEqual(self.wait(log.lastFor(name)).payload, name)
        self.assertEqual(set(self.tallies(log)), set(names))

    def test_keepsPerSubject(self) -> None:
        """The limit of records per subject holds."""
        log = self.log(retention=Retention(perSubject=2))
        for turn in range(6):
            batch = [entry(b"%d" % turn, b"k.%d" % number) for number in range(turn, 6)]
            self.wait(log.append(batch))
        tallies = self.tallies(log)
        self.assertEqual([tally[0] for tally in tallies.values()], [1, 2, 2, 2, 2, 2])
        self.assertEqual(log.bounds().count, 11)
        last = {record.subject: record.payload for record in self.allOf(log)}
        self.assertEqual(last, {b"k.%d" % number: b"%d" % number for number in range(6)})

    def test_keepsOnePerSubject(self) -> None:
        """With one record for each subject, a log is a table of last values."""
        log = self.log(retention=Retention(perSubject=1))
        random = Random(5)
        expected: dict[bytes, bytes] = {}
        for turn in range(300):
            key = b"k.%d" % random.randrange(20)
            expected[key] = b"%d" % turn
            self.wait(log.append([entry(expected[key], key)]))
        self.assertEqual({record.subject: record.payload for record in self.allOf(log)}, expected)
        self.assertEqual(log.bounds().count, 20)

    def test_keepsFewOfOnlySubject(self) -> None:
        """The limit holds with each append, also in a log that has one subject."""
        log = self.log(retention=Retention(perSubject=2))
        for turn in range(1, 6):
            self.wait(log.append([entry(b"", b"k")]))
            self.assertEqual(self.sequences(log), list(range(max(turn - 1, 1), turn + 1)))
            self.assertEqual(log.bounds().count, min(turn, 2))

    def test_perSubjectLowered(self) -> None:
        """A lower limit for each subject applies to stored messages too."""
        log = self.log([entry(b"", b"k.%d" % (number % 7)) for number in range(700)])
        log.retain(Retention(perSubject=3))
        for _ in range(40):
            self.wait(log.append([]))
        self.assertEqual(self.sequences(log), list(range(680, 701)))

    def test_perSubjectManyKept(self) -> None:
        """A large limit for each subject is enforced too."""
        log = self.log(retention=Retention(perSubject=150))
        for start in range(0, 900, 60):
            batch = [
                entry(b"%d" % number, b"k.%d" % (number % 3)) for number in range(start, start + 60)
            ]
            self.wait(log.append(batch))
        self.assertEqual([tally[0] for tally in self.tallies(log).values()], [150, 150, 150])
        self.assertEqual(self.sequences(log), list(range(451, 901)))

    def test_readMatching(self) -> None:
        """Records are selected by subject, and the result contains the sequence to continue at."""
        log = self.log()
        subjects = [b"a.1", b"b.1", b"a.2", b"c", b"b.2", b"a.1"] * 200
        self.wait(log.append([entry(b"", subject) for subject in subjects]))
        sequences = self.matching(log, [b"a.*"], 100)
        self.assertEqual(sequences, [n for n, s in enumerate(subjects, 1) if s.startswith(b"a.")])
        self.wait(
            log.append([entry(b"", subject) for subject in (b"few", b"d", b"few", b"e", b"few")])
        )
        self.wait(log.delete([1203]))
        self.assertEqual(self.matching(log, [b"few"], 1), [1201, 1205])
        self.assertEqual(self.matching(log, [b"few"], 10), [1201, 1205])
        sequences = self.matching(log, [b"c", b"b.2"], 7)
        self.assertEqual(sequences, [n for n, s in enumerate(subjects, 1) if s in (b"c", b"b.2")])
        self.assertEqual(self.matching(log, [b"nothing.>"], 10), [])

    def matching(self, log: Any, patterns: Sequence[bytes], limit: int) -> list[int]:
        sequences: list[int] = []
        start = 1
        while start <= log.bounds().last:
            page = self.wait(log.readMatching(patterns, start, limit))
            self.assertLessEqual(len(page.records), limit)
            self.assertGreater(page.next, start)
            sequences += [record.sequence for record in page.records]
            start = page.next
        return sequences


class ExportContract(StoreHarness):
    """L{IExportableLog}, of a log that is an L{IRetainedLog} as well."""

    def rows(self, columns: Columns) -> list[Record]:
        rows = []
        for index, (sequence, timestamp) in enumerate(
            zip(columns.sequences, columns.timestamps, strict=True)
        ):
            values = [
                data[ends[index] : ends[index + 1]]
                for data, ends in (
                    (columns.subjects, columns.subjectEnds),
                    (columns.headers, columns.headerEnds),
                    (columns.payloads, columns.payloadEnds),
                )
            ]
            rows.append(Record(sequence, timestamp, *values))
        return rows

    def filled(self) -> Any:
        log = self.log()
        self.wait(
            log.append([(b"s.%d" % (n % 3), b"h" * (n % 5), b"p" * n, n + 1) for n in range(1000)])
        )
        self.wait(log.delete([1, 500, 501]))
        return log

    def test_columns(self) -> None:
        """A range as columns holds the same values as the records that are read."""
        log = self.filled()
        columns = self.wait(log.exportRange(1, 1001))
        self.assertEqual(self.rows(columns), self.allOf(log))
        self.assertEqual((columns.next, columns.damaged), (1001, ()))
        self.assertEqual(columns.sequences.typecode, "Q")
        self.assertEqual(columns.payloadEnds.typecode, "q")
        self.assertEqual(columns.payloadEnds[0], 0)

    def test_partOfARange(self) -> None:
        """A range has exactly its bounds; beyond the end of the log it is empty."""
        log = self.filled()
        columns = self.wait(log.exportRange(499, 504))
        self.assertEqual(list(columns.sequences), [499, 502, 503])
        self.assertEqual(columns.next, 504)
        columns = self.wait(log.exportRange(999, 5000))
        self.assertEqual((list(columns.sequences), columns.next), ([999, 1000], 1001))
        columns = self.wait(log.exportRange(2000, 5000))
        self.assertEqual(list(columns.sequences), [])
        self.assertEqual(list(columns.payloadEnds), [0])

    def test_pagesOfColumns(self) -> None:
        """A large range comes in parts, which together are the whole."""
        log = self.filled()
        rows: list[Record] = []
        start = 1
        while start < 1001:
            columns = self.wait(log.exportRange(start, 1001, 20000))
            rows += self.rows(columns)
            self.assertGreater(columns.next, start)
            start = columns.next
        self.assertEqual(rows, self.allOf(log))

    def digestOf(self, records: Sequence[Record]) -> bytes:
        """
        The digest as the documentation of L{natsbroker.interfaces.records.RangeDigest} defines it.
        """
        sha256 = hashlib.sha256()
        for sequence, timestamp, subject, headers, payload in records:
            lengths = (len(subject), len(headers), len(payload))
            sha256.update(struct.pack("<QqIII", sequence, timestamp, *lengths))
            sha256.update(subject + headers + payload)
        return sha256.digest()

    def test_digest(self) -> None:
        """The digest of a range is that of its records in order, as it is documented."""
        log = self.filled()
        digest = self.wait(log.digest(1, 1001))
        records = self.allOf(log)
        self.assertEqual((digest.sha256, digest.count), (self.digestOf(records), 997))
        self.assertEqual(digest.damaged, ())
        part = self.wait(log.digest(10, 20))
        self.assertEqual(part.sha256, self.digestOf([r for r in records if 10 <= r.sequence < 20]))
        self.assertEqual(self.wait(log.digest(500, 502)).sha256, self.digestOf([]))

    def test_digestIsSensitive(self) -> None:
        """Logs that differ in one byte, or in the order of records, have different digests."""
        store = self.store()
        batches = [
            [entry(b"a", time=1), entry(b"b", time=1)],
            [entry(b"b", time=1), entry(b"a", time=1)],
            [entry(b"a", time=1), entry(b"c", time=1)],
            [entry(b"a", time=1), entry(b"b", b"t", time=1)],
            [entry(b"a", time=1), entry(b"b", time=2)],
            [entry(b"", time=1), entry(b"ab", time=1)],
        ]
        digests = set()
        for index, batch in enumerate(batches):
            log: Any = self.wait(store.open(f"log{index}"))
            self.wait(log.append(batch))
            digests.add(self.wait(log.digest(1, 3)).sha256)
        self.assertEqual(len(digests), len(batches))
