"""Contract tests for L{IRetainedLog} and L{IHeldLog}."""

from __future__ import annotations

from natsbroker.interfaces import IStreamLog
from natsbroker.interfaces.records import Retention, SequenceTooLarge
from natsbroker.testing.contracts.harness import SECOND, StoreHarness, entry, numbered

__all__ = ["HeldContract", "RetainedContract"]


class RetainedContract(StoreHarness):
    def test_delete(self) -> None:
        """Single records are deleted anywhere in the log; missing ones are ignored."""
        log = self.log(numbered(0, 10))
        self.assertEqual(self.wait(log.delete([3, 5, 5, 99, 0])), 2)
        self.assertEqual(self.wait(log.delete([3])), 0)
        self.assertEqual(self.sequences(log), [1, 2, 4, 6, 7, 8, 9, 10])
        self.assertEqual(log.bounds().count, 8)
        self.assertEqual(log.bounds().size, 16)
        self.assertEqual(self.wait(log.read(3, 1))[0].sequence, 4)

    def test_deleteTheEnds(self) -> None:
        """The bounds follow when the oldest records are deleted, and no sequence is used again."""
        log = self.log(numbered(0, 5))
        self.wait(log.delete([1, 2, 5]))
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.last, bounds.count), (3, 5, 2))
        self.assertEqual(self.wait(log.append([entry(b"x")])), range(6, 7))
        self.assertEqual(self.sequences(log), [3, 4, 6])

    def test_deleteAll(self) -> None:
        """A log whose records are all deleted is empty, and its sequences continue."""
        log = self.log(numbered(0, 300))
        self.assertEqual(self.wait(log.delete(range(1, 301))), 300)
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.last, bounds.count, bounds.size), (301, 300, 0, 0))
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(self.sequences(log), [301])

    def test_deleteMany(self) -> None:
        """Deleting every second of many records leaves the others."""
        log = self.log([entry(b"%d" % number * 30) for number in range(3000)])
        self.assertEqual(self.wait(log.delete(range(1, 3001, 2))), 1500)
        self.assertEqual(self.sequences(log), list(range(2, 3001, 2)))
        self.assertEqual(self.wait(log.delete(range(2, 2001, 2))), 1000)
        self.assertEqual(self.sequences(log), list(range(2002, 3001, 2)))
        self.assertEqual(log.bounds().count, 500)

    def test_deleteWhatIsUnderWay(self) -> None:
        """A record that is not durable yet can be deleted."""
        log = self.log()
        appended = log.append(numbered(0, 3))
        deleted = log.delete([2])
        self.wait(appended)
        self.assertEqual(self.wait(deleted), 1)
        self.assertEqual(self.sequences(log), [1, 3])

    def test_discardBefore(self) -> None:
        """All records below a sequence are discarded."""
        log = self.log([entry(b"x" * 98) for _ in range(2000)])
        self.assertEqual(self.wait(log.discardBefore(1234)), 1234)
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.count, bounds.size), (1234, 767, 767 * 99))
        self.assertEqual(self.sequences(log), list(range(1234, 2001)))
        self.assertEqual(self.wait(log.discardBefore(5)), 1234)

    def test_discardEverything(self) -> None:
        """Discarding beyond the end empties the log; its sequences continue."""
        log = self.log(numbered(0, 10))
        self.assertEqual(self.wait(log.discardBefore(99999)), 11)
        self.assertEqual(log.bounds().count, 0)
        self.assertEqual(self.wait(log.append([entry(b"x")])), range(11, 12))

    def test_skipTo(self) -> None:
        """Sequences can be skipped forwards only."""
        log = self.log(numbered(0, 2))
        skipped = log.skipTo(10_000_000_000)
        appended = log.append(numbered(2, 4))
        self.wait(skipped)
        self.assertEqual(self.wait(appended), range(10_000_000_000, 10_000_000_002))
        self.assertEqual(self.sequences(log), [1, 2, 10_000_000_000, 10_000_000_001])
        with self.assertRaises(ValueError):
            log.skipTo(5)
        self.assertEqual(log.bounds().count, 4)

    def test_skipTooFar(self) -> None:
        """Skipping so far that too few sequences are left is refused, and changes nothing."""
        log = self.log(numbered(0, 2))
        for sequence in ((1 << 62) + 1, 1 << 63, (1 << 64) - 1):
            with self.assertRaises(SequenceTooLarge):
                self.wait(log.skipTo(sequence))
        self.assertEqual(self.wait(log.append(numbered(2, 3))), range(3, 4))
        self.wait(log.skipTo(1 << 62))
        self.assertEqual(self.wait(log.append(numbered(3, 4))), range(1 << 62, (1 << 62) + 1))

    def test_skipAlone(self) -> None:
        """Skipping in an empty log moves its bounds."""
        log = self.log()
        self.wait(log.skipTo(100))
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.last, bounds.count), (100, 99, 0))

    def test_manyGaps(self) -> None:
        """Records with gaps between them are found like others."""
        log = self.log()
        for number in range(1, 200):
            log.skipTo(number * 7)
            log.append([entry(b"%d" % number)])
        self.wait(log.append([]))
        self.assertEqual(self.sequences(log), [number * 7 for number in range(1, 200)])
        self.assertEqual(self.wait(log.read(700, 1))[0].payload, b"100")
        self.assertEqual(self.wait(log.read(701, 1))[0].payload, b"101")

    def test_keepsACount(self) -> None:
        """The limit of records is enforced when an append is durable."""
        log = self.log(retention=Retention(count=100))
        for start in range(0, 5000, 70):
            self.wait(log.append(numbered(start, start + 70)))
            bounds = log.bounds()
            last = start + 70
            self.assertEqual((bounds.count, bounds.last), (min(100, last), last))
            self.assertEqual(bounds.first, max(1, last - 99))
        self.assertEqual(self.sequences(log), list(range(last - 99, last + 1)))

    def test_keepsBytes(self) -> None:
        """The limit of bytes is enforced, but the newest record always stays."""
        log = self.log(retention=Retention(size=1000))
        for _ in range(10):
            self.wait(log.append([entry(b"x" * 99) for _ in range(7)]))
            self.assertLessEqual(log.bounds().size, 1000)
        self.assertEqual(log.bounds().count, 10)
        self.wait(log.append([entry(b"x" * 5000)]))
        self.assertEqual(self.sequences(log), [71])
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(self.sequences(log), [72])

    def test_keepsAnAge(self) -> None:
        """Records are removed when they are too old, without any append."""
        log = self.log(numbered(0, 3), Retention(age=10 * SECOND))
        self.advance(6)
        self.wait(log.append(numbered(3, 5)))
        self.assertEqual(self.sequences(log), [1, 2, 3, 4, 5])
        self.advance(6)
        self.settle(log)
        self.assertEqual(self.sequences(log), [4, 5])
        self.advance(6)
        self.settle(log)
        self.assertEqual(log.bounds().count, 0)
        self.assertEqual(log.nextSequence, 6)

    def settle(self, log: IStreamLog) -> None:
        for _ in range(3):
            self.wait(log.append([]))

    def test_clockSetBack(self) -> None:
        """When the clock is set back, no record is removed early, and timestamps do not fall."""
        log = self.log(numbered(0, 3), Retention(age=100 * SECOND))
        self.time -= 3600 * SECOND
        self.wait(log.append(numbered(3, 6)))
        self.advance(50)
        self.settle(log)
        self.assertEqual(log.bounds().count, 6)
        times = [record.timestamp for record in self.allOf(log)]
        self.assertEqual(times, sorted(times))

    def test_limitsTogether(self) -> None:
        """The limit that allows least counts."""
        log = self.log([entry(b"x" * 9) for _ in range(100)], Retention(count=50, size=300))
        self.assertEqual(log.bounds().count, 30)
        self.wait(log.append([entry(b"") for _ in range(100)]))
        self.assertEqual(log.bounds().count, 50)

    def test_limitsLowered(self) -> None:
        """Lower limits apply to stored records too."""
        log = self.log([entry(b"x" * 500) for _ in range(3000)])
        log.retain(Retention(count=10))
        for _ in range(40):
            self.wait(log.append([]))
        self.assertEqual(self.sequences(log), list(range(2991, 3001)))

    def test_limitsLifted(self) -> None:
        """A log without limits keeps everything again."""
        log = self.log(numbered(0, 10), Retention(count=5))
        log.retain(Retention())
        self.wait(log.append(numbered(10, 20)))
        self.assertEqual(log.bounds().count, 15)

    def test_retentionAndDeletes(self) -> None:
        """Records deleted from the middle do not count for the limits."""
        log = self.log(numbered(0, 10), Retention(count=10))
        self.wait(log.delete([2, 4, 6, 8]))
        self.wait(log.append(numbered(10, 14)))
        self.assertEqual(self.sequences(log), [1, 3, 5, 7, 9, 10, 11, 12, 13, 14])
        self.wait(log.append(numbered(14, 16)))
        self.assertEqual(self.sequences(log), [5, 7, 9, 10, 11, 12, 13, 14, 15, 16])


class HeldContract(StoreHarness):
    def test_holdKeeps(self) -> None:
        """Retention and discardBefore stop at the lowest floor of all holds."""
        log = self.log(numbered(0, 10), Retention(count=10))
        self.wait(log.hold("archive", 5))
        self.wait(log.hold("other", 8))
        self.assertEqual(log.holds(), {"archive": 5, "other": 8})
        self.wait(log.append(numbered(10, 100)))
        self.assertEqual(log.bounds().first, 5)
        self.assertEqual(self.wait(log.discardBefore(50)), 5)
        self.wait(log.release("archive"))
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(log.bounds().first, 8)
        self.wait(log.release("other"))
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(log.bounds().first, 93)

    def test_holdMoves(self) -> None:
        """A hold replaces an earlier one of the same name."""
        log = self.log(retention=Retention(count=1))
        self.wait(log.hold("a", 1))
        self.wait(log.append(numbered(0, 10)))
        self.assertEqual(log.bounds().count, 10)
        self.wait(log.hold("a", 7))
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(log.bounds().first, 7)

    def test_holdAge(self) -> None:
        """The limit of age stops at a hold too."""
        log = self.log(numbered(0, 10), Retention(age=SECOND))
        self.wait(log.hold("a", 4))
        self.advance(5)
        self.wait(log.append([]))
        self.wait(log.append([]))
        self.assertEqual(self.sequences(log), list(range(4, 11)))

    def test_deleteInspiteOfHold(self) -> None:
        """A single record can be deleted although a hold keeps it."""
        log = self.log(numbered(0, 5))
        self.wait(log.hold("a", 1))
        self.assertEqual(self.wait(log.delete([3])), 1)
        self.assertEqual(self.sequences(log), [1, 2, 4, 5])

    def test_releaseWhatIsNotThere(self) -> None:
        """Releasing a missing hold does nothing."""
        log = self.log()
        self.wait(log.release("nobody"))
        self.assertEqual(log.holds(), {})

    def test_tooManyHolds(self) -> None:
        """A log takes 64 holds, and names up to the permitted length."""
        log = self.log()
        for number in range(64):
            self.wait(log.hold(f"h{number}", 1))
        self.wait(log.hold("h3", 2))
        with self.assertRaises(ValueError):
            log.hold("one more", 1)
        with self.assertRaises(ValueError):
            log.hold("x" * 101, 1)
