"""
What every store must do, as tests: for our own stores and for those of others.

To hold a store to them, mix the classes that fit with a trial C{SynchronousTestCase} and say how
a store is made::

    class MyStoreTests(LogContract, StateContract, SynchronousTestCase):
        def makeStore(self):
            return MyStore(..., now=self.now)

A store that works with threads or sockets overrides C{wait}; L{natsbroker.testing.pumped} has a
reactor for that. A store that survives provides C{reopen}, and takes L{DurableContract} as well.

L{LogContract} and L{StateContract} are for all stores; L{RetainedContract}, L{HeldContract},
L{SubjectContract} and L{ExportContract} for those whose logs provide the interface; and
L{HistoryContract} holds all of them together against a model. That of stores which several brokers
share is L{natsbroker.testing.contracts.leases}.

Only the public interfaces are used.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast
from unittest import SkipTest

from twisted.internet.defer import Deferred
from zope.interface.verify import verifyObject

from natsbroker.interfaces import (
    IExportableLog,
    IHeldLog,
    IRetainedLog,
    IStateStore,
    IStreamLog,
    IStreamStore,
    ISubjectIndexedLog,
)
from natsbroker.interfaces.records import (
    Columns,
    Entry,
    LogBounds,
    NoSuchLog,
    Record,
    Retention,
    StoreClosed,
)

if TYPE_CHECKING:
    from unittest import TestCase

    class _Base(TestCase):
        """
        What a suite may use of the trial case that it is mixed with.
        """

        successResultOf: Any
        failureResultOf: Any
        assertNoResult: Any
        mktemp: Any
else:
    _Base = object

__all__ = [
    "DurableContract",
    "ExportContract",
    "HeldContract",
    "HistoryContract",
    "LogContract",
    "RetainedContract",
    "StateContract",
    "StoreHarness",
    "SubjectContract",
]

T = TypeVar("T")

SECOND = 1_000_000_000


def entry(payload: bytes, subject: bytes = b"s", headers: bytes = b"", time: int = 0) -> Entry:
    """
    An entry, most of it by default.
    """
    return (subject, headers, payload, time)


def numbered(start: int, stop: int, subject: bytes = b"s") -> list[Entry]:
    """
    Entries whose payloads are numbers.
    """
    return [entry(b"%d" % each, subject) for each in range(start, stop)]


class StoreHarness(_Base):
    """
    How the contracts get at a store.

    @ivar time: what the store's wall clock shows, in nanoseconds.
    """

    time = 1_700_000_000 * SECOND

    def now(self) -> int:
        """
        The wall clock to give to the store.
        """
        return self.time

    def makeStore(self) -> Any:
        """
        Make an empty store, with L{now} as its clock. It is closed by the contract.
        """
        raise NotImplementedError

    def reopen(self, store: Any) -> Any:
        """
        Close a store and open it again.
        """
        raise SkipTest("this store does not survive")

    def wait(self, deferred: Deferred[T]) -> T:
        """
        Get the result of a Deferred that fires in its time.

        @raise Exception: with which it fails.
        """
        results: list[Any] = []
        deferred.addCallbacks(results.append, results.append)
        if not results:
            self.fail("the Deferred has not fired")
        if hasattr(results[0], "raiseException"):
            results[0].raiseException()
        return cast(T, results[0])

    def advance(self, seconds: float) -> None:
        """
        Let time pass: L{time} and the reactor's.
        """
        self.time += int(seconds * SECOND)

    def failsWith(self, error: type[Exception], deferred: Deferred[Any]) -> Exception:
        """
        Assert that a Deferred fails.

        @return: with what.
        """
        try:
            result = self.wait(deferred)
        except error as failure:
            return failure
        self.fail(f"did not fail with {error.__name__}: {result!r}")

    def store(self) -> IStreamStore:
        """
        A store that is closed when the test ends.
        """
        store: IStreamStore = self.makeStore()
        self.addCleanup(lambda: self.wait(store.close()))
        return store

    def log(self, name: str = "log") -> Any:
        """
        A log in a store of its own.
        """
        return self.wait(self.store().open(name))

    def allOf(self, log: IStreamLog, start: int = 1) -> list[Record]:
        """
        All records of a log, page by page.
        """
        found: list[Record] = []
        while True:
            page = self.wait(log.read(start))
            if not page:
                return found
            found += page
            start = page[-1].sequence + 1

    def payloads(self, log: IStreamLog) -> list[bytes]:
        """
        The payloads of all records.
        """
        return [each.payload for each in self.allOf(log)]

    def sequences(self, log: IStreamLog) -> list[int]:
        """
        The sequences of all records.
        """
        return [each.sequence for each in self.allOf(log)]


class LogContract(StoreHarness):
    """
    L{IStreamStore} and L{IStreamLog}.
    """

    def test_providesTheInterfaces(self) -> None:
        """A store and its logs provide what they say."""
        store = self.store()
        log = self.wait(store.open("log"))
        self.assertTrue(verifyObject(IStreamStore, store))
        for interface in (
            IStreamLog,
            IRetainedLog,
            IHeldLog,
            ISubjectIndexedLog,
            IExportableLog,
        ):
            if interface.providedBy(log):
                self.assertTrue(verifyObject(interface, log))
        self.assertTrue(IStreamLog.providedBy(log))

    def test_emptyLog(self) -> None:
        """A new log has no records, and the next sequence is 1."""
        log = self.log()
        self.assertEqual(log.bounds(), LogBounds(1, 0, 0, 0, 0))
        self.assertEqual(log.nextSequence, 1)
        self.assertEqual(self.wait(log.read(1)), [])
        self.assertEqual(log.name, "log")

    def test_appendsAndReads(self) -> None:
        """What is appended is read back, byte for byte, with sequences from 1."""
        log = self.log()
        batch = [
            (b"orders.new", b"NATS/1.0\r\nA: b\r\n\r\n", b"one", 5),
            (b"orders.old", b"", b"", 6),
            (b"x" * 300, b"", bytes(range(256)), 7),
        ]
        self.assertEqual(self.wait(log.append(batch)), range(1, 4))
        expected = [
            Record(1, 5, b"orders.new", b"NATS/1.0\r\nA: b\r\n\r\n", b"one"),
            Record(2, 6, b"orders.old", b"", b""),
            Record(3, 7, b"x" * 300, b"", bytes(range(256))),
        ]
        self.assertEqual(self.wait(log.read(1)), expected)
        self.assertEqual(self.wait(log.read(3)), expected[2:])
        self.assertEqual(self.wait(log.read(4)), [])

    def test_countsBeforeItIsDurable(self) -> None:
        """The next sequence counts an append at once; the bounds do when it is durable."""
        log = self.log()
        deferred = log.append(numbered(0, 5))
        self.assertEqual(log.nextSequence, 6)
        self.wait(deferred)
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.last, bounds.count, bounds.size), (1, 5, 5, 10))
        self.assertEqual(bounds.lastTime, self.time)

    def test_appendsOverlap(self) -> None:
        """Appends made before earlier ones are durable fire in the order of the calls."""
        log = self.log()
        fired: list[range] = []

        def kept(each: range) -> range:
            fired.append(each)
            return each

        deferreds = [log.append(numbered(each * 3, each * 3 + 3)) for each in range(50)]
        for deferred in deferreds:
            deferred.addCallback(kept)
        results = [self.wait(deferred) for deferred in deferreds]
        self.assertEqual(results, [range(1 + 3 * n, 4 + 3 * n) for n in range(50)])
        self.assertEqual(fired, results)
        self.assertEqual(self.payloads(log), [b"%d" % each for each in range(150)])

    def test_emptyBatch(self) -> None:
        """An empty batch fires when all before it is durable, with no sequences."""
        log = self.log()
        fired: list[str] = []
        log.append(numbered(0, 3)).addCallback(lambda _: fired.append("append"))
        self.assertEqual(list(self.wait(log.append([]))), [])
        self.assertEqual(fired, ["append"])
        self.assertEqual(log.nextSequence, 4)

    def test_batchMayChange(self) -> None:
        """The list that was appended may be used again at once."""
        log = self.log()
        batch = numbered(0, 3)
        deferred = log.append(batch)
        batch.clear()
        self.wait(deferred)
        self.assertEqual(self.payloads(log), [b"0", b"1", b"2"])

    def test_refusesTooLarge(self) -> None:
        """A subject that is too long refuses the whole batch, and nothing is used up."""
        log = self.log()
        with self.assertRaises(ValueError):
            log.append([entry(b"ok"), entry(b"no", b"x" * 65536)])
        self.assertEqual(log.nextSequence, 1)
        self.assertEqual(self.wait(log.append([entry(b"yes")])), range(1, 2))
        self.assertEqual(self.payloads(log), [b"yes"])

    def test_timestamps(self) -> None:
        """Timestamps are kept as given, are the clock's where none is, and never go back."""
        log = self.log()
        now = self.time
        self.wait(log.append([entry(b"a", time=5), entry(b"b"), entry(b"c", time=7)]))
        self.time -= 1000
        self.wait(log.append([entry(b"d")]))
        self.assertEqual([each.timestamp for each in self.allOf(log)], [5, now, now, now])

    def test_largeRecords(self) -> None:
        """Large records lie beside small ones."""
        log = self.log()
        payloads = [b"a", b"b" * 1_500_000, b"c", b"d" * 70_000, b"e" * 65_536, b"f"]
        self.wait(log.append([entry(each) for each in payloads]))
        self.assertEqual(self.payloads(log), payloads)

    def test_readLimits(self) -> None:
        """A read stops at its limit of records, or after the record that reaches that of bytes."""
        log = self.log()
        self.wait(log.append([entry(b"x" * 99) for _ in range(1000)]))
        self.assertEqual([each.sequence for each in self.wait(log.read(5, 3))], [5, 6, 7])
        self.assertEqual(len(self.wait(log.read(1, 1000, 1000))), 10)
        self.assertEqual(len(self.wait(log.read(1, 1000, 1))), 1)
        self.assertEqual(len(self.wait(log.read(1, 1000, 1 << 30))), 1000)
        self.assertEqual(len(self.wait(log.read(999, 1000))), 2)

    def test_manySmallAppends(self) -> None:
        """Records that came one by one read like those that came together."""
        log = self.log()
        for each in range(400):
            self.wait(log.append([entry(b"%d" % each * 9)]))
        self.assertEqual(self.payloads(log), [b"%d" % each * 9 for each in range(400)])
        self.assertEqual(self.wait(log.read(217, 1))[0].payload, b"216" * 9)

    def test_manyRecords(self) -> None:
        """Thousands of records are found at every sequence."""
        log = self.log()
        for start in range(0, 6000, 1500):
            self.wait(log.append(numbered(start, start + 1500)))
        for sequence in (1, 2, 1499, 1500, 1501, 4321, 5999, 6000):
            [record] = self.wait(log.read(sequence, 1))
            self.assertEqual((record.sequence, record.payload), (sequence, b"%d" % (sequence - 1)))
        self.assertEqual(self.sequences(log), list(range(1, 6001)))

    def test_sequenceAt(self) -> None:
        """A time finds the first record that is not older."""
        log = self.log()
        self.assertEqual(self.wait(log.sequenceAt(0)), 1)
        for start in range(0, 3000, 1000):
            batch = [entry(b"", time=each * 10) for each in range(start + 1, start + 1001)]
            self.wait(log.append(batch))
        answers = [self.wait(log.sequenceAt(each)) for each in (0, 10, 11, 9999, 10000, 30000)]
        self.assertEqual(answers, [1, 1, 2, 1000, 1000, 3000])
        self.assertEqual(self.wait(log.sequenceAt(30001)), 3001)

    def test_sequenceAtSameTime(self) -> None:
        """Of records of the same time, the first is found."""
        log = self.log()
        for _ in range(5):
            self.wait(log.append([entry(b"x" * 50000, time=77)] * 4))
        self.assertEqual(self.wait(log.sequenceAt(77)), 1)

    def test_openAgain(self) -> None:
        """The same name gives the same log."""
        store = self.store()
        self.assertIs(self.wait(store.open("a")), self.wait(store.open("a")))

    def test_opensTogether(self) -> None:
        """A log that is asked for twice before it is made is made once."""
        store = self.store()
        first, second = store.open("a"), store.open("a")
        self.assertIs(self.wait(first), self.wait(second))
        self.assertEqual(self.wait(store.logs()), ["a"])

    def test_logs(self) -> None:
        """The names of all logs are listed in order, whatever characters they have."""
        store = self.store()
        names = ["b", "a", "stan/test-cluster/foo.bar", "\u00e4\u20ac", "with blank\n", "x" * 400]
        for name in names:
            self.wait(store.open(name))
        self.assertEqual(self.wait(store.logs()), sorted(names))

    def test_badNames(self) -> None:
        """A name that is empty or too long is refused."""
        store = self.store()
        for name in ("", "x" * 401, "\u20ac" * 134):
            with self.assertRaises(ValueError):
                store.open(name)
        with self.assertRaises(ValueError):
            store.states("")

    def test_openWithoutMaking(self) -> None:
        """A log that is not there is made only if that is wanted."""
        store = self.store()
        self.failsWith(NoSuchLog, store.open("a", create=False))
        self.assertEqual(self.wait(store.logs()), [])
        log = self.wait(store.open("a"))
        self.assertIs(self.wait(store.open("a", create=False)), log)

    def test_logsAreSeparate(self) -> None:
        """Logs count for themselves and hold their own records, also when written together."""
        store = self.store()
        logs = [self.wait(store.open(name)) for name in "abc"]
        waiting = []
        for turn in range(20):
            for index, log in enumerate(logs):
                waiting.append(log.append(numbered(turn * 2, turn * 2 + 2, b"%d" % index)))
        for deferred in waiting:
            self.wait(deferred)
        for index, log in enumerate(logs):
            records = self.allOf(log)
            self.assertEqual([each.payload for each in records], [b"%d" % n for n in range(40)])
            self.assertEqual({each.subject for each in records}, {b"%d" % index})
            self.assertEqual(log.bounds().last, 40)

    def test_drop(self) -> None:
        """A log that is dropped is gone; a new one of its name is empty and begins with 1."""
        store = self.store()
        other = self.wait(store.open("other"))
        log = self.wait(store.open("log"))
        self.wait(other.append(numbered(0, 10)))
        self.wait(log.append([entry(b"old" * 1000) for _ in range(200)]))
        self.wait(store.drop("log"))
        self.assertEqual(self.wait(store.logs()), ["other"])
        self.failsWith(StoreClosed, log.append([entry(b"late")]))
        self.failsWith(StoreClosed, log.read(1))
        again = self.wait(store.open("log"))
        self.assertEqual(again.bounds(), LogBounds(1, 0, 0, 0, 0))
        self.assertEqual(len({log.identity, other.identity, again.identity}), 3)
        self.assertTrue(0 <= again.identity < 1 << 64)
        self.wait(again.append([entry(b"new")]))
        self.assertEqual(self.payloads(again), [b"new"])
        self.assertEqual(self.payloads(other), [b"%d" % each for each in range(10)])

    def test_dropWhatIsNotThere(self) -> None:
        """Dropping a log that is not there fails."""
        self.failsWith(NoSuchLog, self.store().drop("log"))

    def test_closed(self) -> None:
        """After closing, everything fails with StoreClosed; what was asked before is done."""
        store = self.store()
        log = self.wait(store.open("log"))
        pending = log.append([entry(b"a")])
        self.wait(store.close())
        self.assertEqual(self.wait(pending), range(1, 2))
        self.failsWith(StoreClosed, log.append([entry(b"b")]))
        self.failsWith(StoreClosed, log.read(1))
        self.failsWith(StoreClosed, log.sequenceAt(1))
        self.failsWith(StoreClosed, store.open("log"))
        self.failsWith(StoreClosed, store.logs())
        self.failsWith(StoreClosed, store.drop("log"))
        self.failsWith(StoreClosed, store.states("s").put(b"k", b"v"))
        self.wait(store.close())


class StateContract(StoreHarness):
    """
    L{IStateStore}.
    """

    def states(self) -> Any:
        """
        Some state in a store of its own.
        """
        return self.store().states("space")

    def test_stateInterface(self) -> None:
        """State provides its interface."""
        self.assertTrue(verifyObject(IStateStore, self.states()))

    def test_putAndLoad(self) -> None:
        """What is put is loaded, in the order of the keys; the last value counts."""
        states = self.states()
        self.assertEqual(self.wait(states.load()), {})
        self.wait(states.put(b"b", b"2"))
        self.wait(states.put(b"a", b""))
        self.wait(states.put(b"b", b"3"))
        loaded = self.wait(states.load())
        self.assertEqual(list(loaded.items()), [(b"a", b""), (b"b", b"3")])

    def test_delete(self) -> None:
        """What is deleted is gone; deleting what is not there does nothing."""
        states = self.states()
        self.wait(states.put(b"a", b"1"))
        self.wait(states.delete(b"a"))
        self.wait(states.delete(b"a"))
        self.assertEqual(self.wait(states.load()), {})

    def test_loadSeesWhatWasAskedBefore(self) -> None:
        """Changes are seen by a load that is asked for after them, in their order."""
        states = self.states()
        pending = [states.put(b"k", b"%d" % each) for each in range(20)]
        pending.append(states.delete(b"gone"))
        self.assertEqual(self.wait(states.load()), {b"k": b"19"})
        for deferred in pending:
            self.wait(deferred)

    def test_prefix(self) -> None:
        """Keys are selected by how they begin, any bytes."""
        states = self.states()
        keys = [b"a", b"a\x00", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff", b"\x00"]
        self.wait(states.change({key: key for key in keys}))
        for prefix in (b"", b"a", b"a\xff", b"\xff", b"\xff\xff", b"\x00", b"c"):
            expected = sorted(key for key in keys if key.startswith(prefix))
            self.assertEqual(list(self.wait(states.load(prefix))), expected)

    def test_changeSeveral(self) -> None:
        """Several values change together."""
        states = self.states()
        self.wait(states.change({b"a": b"1", b"b": b"2", b"c": b"3"}))
        self.wait(states.change({b"a": None, b"b": b"5", b"d": b"4"}))
        self.assertEqual(self.wait(states.load()), {b"b": b"5", b"c": b"3", b"d": b"4"})
        self.wait(states.change({}))

    def test_spacesAreSeparate(self) -> None:
        """Spaces do not see each other, not even where one name begins like another."""
        store = self.store()
        names = ["a", "ab", "b", "a\x00"]
        for name in names:
            self.wait(store.states(name).put(b"bkey", name.encode()))
        for name in names:
            self.assertEqual(self.wait(store.states(name).load()), {b"bkey": name.encode()})

    def test_largeValues(self) -> None:
        """Values may be large, and keys have 1 to 300 bytes."""
        states = self.states()
        self.wait(states.put(b"k" * 300, b"v" * 1_000_000))
        self.assertEqual(self.wait(states.load()), {b"k" * 300: b"v" * 1_000_000})
        for key, value in ((b"", b""), (b"k" * 301, b""), (b"k", bytes((16 << 20) + 1))):
            with self.assertRaises(ValueError):
                states.put(key, value)

    def test_stateOutlivesLogs(self) -> None:
        """Dropping a log does not touch state."""
        store = self.store()
        self.wait(store.open("space"))
        self.wait(store.states("space").put(b"k", b"v"))
        self.wait(store.drop("space"))
        self.assertEqual(self.wait(store.states("space").load()), {b"k": b"v"})


class RetainedContract(StoreHarness):
    """
    L{IRetainedLog}.
    """

    def test_delete(self) -> None:
        """Single records go, wherever they are; what is not there is passed over."""
        log = self.log()
        self.wait(log.append(numbered(0, 10)))
        self.assertEqual(self.wait(log.delete([3, 5, 5, 99, 0])), 2)
        self.assertEqual(self.wait(log.delete([3])), 0)
        self.assertEqual(self.sequences(log), [1, 2, 4, 6, 7, 8, 9, 10])
        self.assertEqual(log.bounds().count, 8)
        self.assertEqual(log.bounds().size, 16)
        self.assertEqual(self.wait(log.read(3, 1))[0].sequence, 4)

    def test_deleteTheEnds(self) -> None:
        """The bounds follow when the oldest go, and no sequence is used again."""
        log = self.log()
        self.wait(log.append(numbered(0, 5)))
        self.wait(log.delete([1, 2, 5]))
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.last, bounds.count), (3, 5, 2))
        self.assertEqual(self.wait(log.append([entry(b"x")])), range(6, 7))
        self.assertEqual(self.sequences(log), [3, 4, 6])

    def test_deleteAll(self) -> None:
        """A log whose records are all deleted is empty and goes on counting."""
        log = self.log()
        self.wait(log.append(numbered(0, 300)))
        self.assertEqual(self.wait(log.delete(range(1, 301))), 300)
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.last, bounds.count, bounds.size), (301, 300, 0, 0))
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(self.sequences(log), [301])

    def test_deleteMany(self) -> None:
        """Deleting every second of many records leaves the others."""
        log = self.log()
        self.wait(log.append([entry(b"%d" % each * 30) for each in range(3000)]))
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
        """All records below a sequence go."""
        log = self.log()
        self.wait(log.append([entry(b"x" * 98) for _ in range(2000)]))
        self.assertEqual(self.wait(log.discardBefore(1234)), 1234)
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.count, bounds.size), (1234, 767, 767 * 99))
        self.assertEqual(self.sequences(log), list(range(1234, 2001)))
        self.assertEqual(self.wait(log.discardBefore(5)), 1234)

    def test_discardEverything(self) -> None:
        """Discarding beyond the end empties the log; the sequences go on."""
        log = self.log()
        self.wait(log.append(numbered(0, 10)))
        self.assertEqual(self.wait(log.discardBefore(99999)), 11)
        self.assertEqual(log.bounds().count, 0)
        self.assertEqual(self.wait(log.append([entry(b"x")])), range(11, 12))

    def test_skipTo(self) -> None:
        """Sequences can be skipped, forwards only."""
        log = self.log()
        self.wait(log.append(numbered(0, 2)))
        skipped = log.skipTo(10_000_000_000)
        appended = log.append(numbered(2, 4))
        self.wait(skipped)
        self.assertEqual(self.wait(appended), range(10_000_000_000, 10_000_000_002))
        self.assertEqual(self.sequences(log), [1, 2, 10_000_000_000, 10_000_000_001])
        with self.assertRaises(ValueError):
            log.skipTo(5)
        self.assertEqual(log.bounds().count, 4)

    def test_skipAlone(self) -> None:
        """Skipping in an empty log moves its bounds."""
        log = self.log()
        self.wait(log.skipTo(100))
        bounds = log.bounds()
        self.assertEqual((bounds.first, bounds.last, bounds.count), (100, 99, 0))

    def test_manyGaps(self) -> None:
        """Records with gaps between them are found like others."""
        log = self.log()
        for each in range(1, 200):
            log.skipTo(each * 7)
            log.append([entry(b"%d" % each)])
        self.wait(log.append([]))
        self.assertEqual(self.sequences(log), [each * 7 for each in range(1, 200)])
        self.assertEqual(self.wait(log.read(700, 1))[0].payload, b"100")
        self.assertEqual(self.wait(log.read(701, 1))[0].payload, b"101")

    def test_keepsACount(self) -> None:
        """The limit of records holds by the time an append is durable."""
        log = self.log()
        log.retain(Retention(count=100))
        for start in range(0, 5000, 70):
            self.wait(log.append(numbered(start, start + 70)))
            bounds = log.bounds()
            last = start + 70
            self.assertEqual((bounds.count, bounds.last), (min(100, last), last))
            self.assertEqual(bounds.first, max(1, last - 99))
        self.assertEqual(self.sequences(log), list(range(last - 99, last + 1)))

    def test_keepsBytes(self) -> None:
        """The limit of bytes holds, but the newest record always stays."""
        log = self.log()
        log.retain(Retention(size=1000))
        for _ in range(10):
            self.wait(log.append([entry(b"x" * 99) for _ in range(7)]))
            self.assertLessEqual(log.bounds().size, 1000)
        self.assertEqual(log.bounds().count, 10)
        self.wait(log.append([entry(b"x" * 5000)]))
        self.assertEqual(self.sequences(log), [71])
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(self.sequences(log), [72])

    def test_keepsAnAge(self) -> None:
        """Records go when they are too old, without any append."""
        log = self.log()
        log.retain(Retention(age=10 * SECOND))
        self.wait(log.append(numbered(0, 3)))
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
        """
        Wait until what a timer caused is done.
        """
        for _ in range(3):
            self.wait(log.append([]))

    def test_clockSetBack(self) -> None:
        """When the clock is set back, nothing goes early and timestamps do not fall."""
        log = self.log()
        log.retain(Retention(age=100 * SECOND))
        self.wait(log.append(numbered(0, 3)))
        self.time -= 3600 * SECOND
        self.wait(log.append(numbered(3, 6)))
        self.advance(50)
        self.settle(log)
        self.assertEqual(log.bounds().count, 6)
        times = [each.timestamp for each in self.allOf(log)]
        self.assertEqual(times, sorted(times))

    def test_limitsTogether(self) -> None:
        """The limit that allows least counts."""
        log = self.log()
        log.retain(Retention(count=50, size=300))
        self.wait(log.append([entry(b"x" * 9) for _ in range(100)]))
        self.assertEqual(log.bounds().count, 30)
        self.wait(log.append([entry(b"") for _ in range(100)]))
        self.assertEqual(log.bounds().count, 50)

    def test_limitsLowered(self) -> None:
        """Lower limits reach what is there already."""
        log = self.log()
        self.wait(log.append([entry(b"x" * 500) for _ in range(3000)]))
        log.retain(Retention(count=10))
        for _ in range(40):
            self.wait(log.append([]))
        self.assertEqual(self.sequences(log), list(range(2991, 3001)))

    def test_limitsLifted(self) -> None:
        """A log without limits keeps everything again."""
        log = self.log()
        log.retain(Retention(count=5))
        self.wait(log.append(numbered(0, 10)))
        log.retain(Retention())
        self.wait(log.append(numbered(10, 20)))
        self.assertEqual(log.bounds().count, 15)

    def test_retentionAndDeletes(self) -> None:
        """What was deleted from the middle does not count for the limits."""
        log = self.log()
        log.retain(Retention(count=10))
        self.wait(log.append(numbered(0, 10)))
        self.wait(log.delete([2, 4, 6, 8]))
        self.wait(log.append(numbered(10, 14)))
        self.assertEqual(self.sequences(log), [1, 3, 5, 7, 9, 10, 11, 12, 13, 14])
        self.wait(log.append(numbered(14, 16)))
        self.assertEqual(self.sequences(log), [5, 7, 9, 10, 11, 12, 13, 14, 15, 16])


class HeldContract(StoreHarness):
    """
    L{IHeldLog}.
    """

    def test_holdKeeps(self) -> None:
        """Retention and discardBefore do not pass the lowest floor."""
        log = self.log()
        log.retain(Retention(count=10))
        self.wait(log.append(numbered(0, 10)))
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
        """A hold of the same name replaces the one before."""
        log = self.log()
        log.retain(Retention(count=1))
        self.wait(log.hold("a", 1))
        self.wait(log.append(numbered(0, 10)))
        self.assertEqual(log.bounds().count, 10)
        self.wait(log.hold("a", 7))
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(log.bounds().first, 7)

    def test_holdAge(self) -> None:
        """Age does not pass a hold either."""
        log = self.log()
        log.retain(Retention(age=SECOND))
        self.wait(log.append(numbered(0, 10)))
        self.wait(log.hold("a", 4))
        self.advance(5)
        self.wait(log.append([]))
        self.wait(log.append([]))
        self.assertEqual(self.sequences(log), list(range(4, 11)))

    def test_deleteInspiteOfHold(self) -> None:
        """A single record can be deleted although it is held."""
        log = self.log()
        self.wait(log.append(numbered(0, 5)))
        self.wait(log.hold("a", 1))
        self.assertEqual(self.wait(log.delete([3])), 1)
        self.assertEqual(self.sequences(log), [1, 2, 4, 5])

    def test_releaseWhatIsNotThere(self) -> None:
        """Releasing a hold that is not there does nothing."""
        log = self.log()
        self.wait(log.release("nobody"))
        self.assertEqual(log.holds(), {})

    def test_tooManyHolds(self) -> None:
        """A log takes 64 holds, and names of a sensible length."""
        log = self.log()
        for each in range(64):
            self.wait(log.hold(f"h{each}", 1))
        self.wait(log.hold("h3", 2))
        with self.assertRaises(ValueError):
            log.hold("one more", 1)
        with self.assertRaises(ValueError):
            log.hold("x" * 101, 1)


class SubjectContract(StoreHarness):
    """
    L{ISubjectIndexedLog}, of a log that is an L{IRetainedLog} as well.
    """

    def tallies(self, log: Any, pattern: bytes = b">") -> dict[bytes, tuple[int, int, int]]:
        """
        Count, first and last by subject.
        """
        found = self.wait(log.subjects(pattern))
        return {subject: (each.count, each.first, each.last) for subject, each in found.items()}

    def test_lastFor(self) -> None:
        """The newest record of a subject is found."""
        log = self.log()
        self.assertIsNone(self.wait(log.lastFor(b"a")))
        self.wait(log.append([entry(b"1", b"a"), entry(b"2", b"a")]))
        self.assertEqual(self.wait(log.lastFor(b"a")).payload, b"2")
        self.assertIsNone(self.wait(log.lastFor(b"b")))
        self.wait(log.append([entry(b"3", b"b"), entry(b"4", b"a"), entry(b"5", b"c")]))
        found = [self.wait(log.lastFor(each)).payload for each in (b"a", b"b", b"c")]
        self.assertEqual(found, [b"4", b"3", b"5"])

    def test_tallies(self) -> None:
        """What there is of each subject is counted, for those that a pattern matches."""
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
        names = [b"s.%03d" % each for each in range(250)]
        self.wait(log.append([entry(b"", each) for each in reversed(names)]))
        found: list[bytes] = []
        while page := list(self.wait(log.subjects(b"s.*", found[-1] if found else b"", 40))):
            self.assertLessEqual(len(page), 40)
            found += page
        self.assertEqual(found, names)

    def test_talliesFollowDeletes(self) -> None:
        """Deleting, discarding and retention change the tallies."""
        log = self.log()
        subjects = [b"a", b"b", b"a", b"c", b"a", b"b", b"a"]
        self.wait(log.append([entry(b"", each) for each in subjects]))
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
        """A log of one subject counts right through deletes, and when a second one comes."""
        log = self.log()
        self.wait(log.append(numbered(0, 10, b"a")))
        self.wait(log.delete([1, 10]))
        self.assertEqual(self.tallies(log), {b"a": (8, 2, 9)})
        self.assertEqual(self.wait(log.lastFor(b"a")).sequence, 9)
        self.wait(log.append([entry(b"", b"b")]))
        self.assertEqual(self.tallies(log), {b"a": (8, 2, 9), b"b": (1, 11, 11)})
        self.wait(log.delete(range(1, 11)))
        self.assertEqual(self.tallies(log), {b"b": (1, 11, 11)})

    def test_longSubjects(self) -> None:
        """Subjects longer than any key of an index are distinguished."""
        log = self.log()
        names = [b"x" * 600 + b".%d" % each for each in range(5)] + [b"x" * 600, b"y"]
        self.wait(log.append([entry(each, each) for each in names]))
        for name in names:
            self.assertEqual(self.wait(log.lastFor(name)).payload, name)
        self.assertEqual(set(self.tallies(log)), set(names))

    def test_keepsPerSubject(self) -> None:
        """The limit of records per subject holds."""
        log = self.log()
        log.retain(Retention(perSubject=2))
        for turn in range(6):
            batch = [entry(b"%d" % turn, b"k.%d" % each) for each in range(turn, 6)]
            self.wait(log.append(batch))
        tallies = self.tallies(log)
        self.assertEqual([each[0] for each in tallies.values()], [1, 2, 2, 2, 2, 2])
        self.assertEqual(log.bounds().count, 11)
        last = {each.subject: each.payload for each in self.allOf(log)}
        self.assertEqual(last, {b"k.%d" % each: b"%d" % each for each in range(6)})

    def test_keepsOnePerSubject(self) -> None:
        """With one record for each subject, a log is a table of last values."""
        log = self.log()
        log.retain(Retention(perSubject=1))
        random = Random(5)
        expected: dict[bytes, bytes] = {}
        for turn in range(300):
            key = b"k.%d" % random.randrange(20)
            expected[key] = b"%d" % turn
            self.wait(log.append([entry(expected[key], key)]))
        self.assertEqual({each.subject: each.payload for each in self.allOf(log)}, expected)
        self.assertEqual(log.bounds().count, 20)

    def test_perSubjectLowered(self) -> None:
        """A lower limit for each subject reaches what is there already."""
        log = self.log()
        self.wait(log.append([entry(b"", b"k.%d" % (each % 7)) for each in range(700)]))
        log.retain(Retention(perSubject=3))
        for _ in range(40):
            self.wait(log.append([]))
        self.assertEqual(self.sequences(log), list(range(680, 701)))

    def test_perSubjectManyKept(self) -> None:
        """Limits for each subject may be large."""
        log = self.log()
        log.retain(Retention(perSubject=150))
        for start in range(0, 900, 60):
            batch = [entry(b"%d" % each, b"k.%d" % (each % 3)) for each in range(start, start + 60)]
            self.wait(log.append(batch))
        self.assertEqual([each[0] for each in self.tallies(log).values()], [150, 150, 150])
        self.assertEqual(self.sequences(log), list(range(451, 901)))

    def test_readMatching(self) -> None:
        """Records are selected by subject, and the answer says where to go on."""
        log = self.log()
        subjects = [b"a.1", b"b.1", b"a.2", b"c", b"b.2", b"a.1"] * 200
        self.wait(log.append([entry(b"", each) for each in subjects]))
        found = self.matching(log, [b"a.*"], 100)
        self.assertEqual(found, [n for n, s in enumerate(subjects, 1) if s.startswith(b"a.")])
        found = self.matching(log, [b"c", b"b.2"], 7)
        self.assertEqual(found, [n for n, s in enumerate(subjects, 1) if s in (b"c", b"b.2")])
        self.assertEqual(self.matching(log, [b"nothing.>"], 10), [])

    def matching(self, log: Any, patterns: Sequence[bytes], limit: int) -> list[int]:
        """
        The sequences of all records that match, page by page.
        """
        found: list[int] = []
        start = 1
        while start <= log.bounds().last:
            page = self.wait(log.readMatching(patterns, start, limit))
            self.assertLessEqual(len(page.records), limit)
            self.assertGreater(page.next, start)
            found += [each.sequence for each in page.records]
            start = page.next
        return found


class ExportContract(StoreHarness):
    """
    L{IExportableLog}, of a log that is an L{IRetainedLog} as well.
    """

    def rows(self, columns: Columns) -> list[Record]:
        """
        The records in some columns.
        """
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
        """
        A log with records of all kinds, some deleted.
        """
        log = self.log()
        self.wait(
            log.append([(b"s.%d" % (n % 3), b"h" * (n % 5), b"p" * n, n + 1) for n in range(1000)])
        )
        self.wait(log.delete([1, 500, 501]))
        return log

    def test_columns(self) -> None:
        """A range comes as columns that hold what reading gives."""
        log = self.filled()
        columns = self.wait(log.exportRange(1, 1001))
        self.assertEqual(self.rows(columns), self.allOf(log))
        self.assertEqual((columns.next, columns.damaged), (1001, ()))
        self.assertEqual(columns.sequences.typecode, "Q")
        self.assertEqual(columns.payloadEnds.typecode, "q")
        self.assertEqual(columns.payloadEnds[0], 0)

    def test_partOfARange(self) -> None:
        """A range begins and stops where it says; beyond the end there is nothing."""
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
        found = self.wait(log.digest(1, 1001))
        records = self.allOf(log)
        self.assertEqual((found.sha256, found.count), (self.digestOf(records), 997))
        self.assertEqual(found.damaged, ())
        part = self.wait(log.digest(10, 20))
        self.assertEqual(part.sha256, self.digestOf([r for r in records if 10 <= r.sequence < 20]))
        self.assertEqual(self.wait(log.digest(500, 502)).sha256, self.digestOf([]))

    def test_digestIsSensitive(self) -> None:
        """Logs that differ in one byte, or in the order, have different digests."""
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


class DurableContract(StoreHarness):
    """
    A store that survives: needs C{reopen}, and logs that provide everything.
    """

    def test_recordsSurvive(self) -> None:
        """Records, bounds and the next sequence are there after opening again."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        for start in range(0, 3000, 500):
            self.wait(log.append(numbered(start, start + 500)))
        for each in range(3000, 3050):
            self.wait(log.append([entry(b"%d" % each)]))
        before, bounds, identity = self.allOf(log), log.bounds(), log.identity
        store = self.reopen(store)
        self.assertEqual(self.wait(store.logs()), ["log"])
        log = self.wait(store.open("log", create=False))
        self.assertEqual((log.bounds(), log.identity), (bounds, identity))
        self.assertEqual(self.allOf(log), before)
        self.assertEqual(self.wait(log.append([entry(b"x")])), range(3051, 3052))
        self.assertEqual(self.allOf(log)[:-1], before)

    def test_noSequenceTwice(self) -> None:
        """After everything was deleted, the sequences go on, also after opening again."""
        store = self.store()
        deleted: Any = self.wait(store.open("deleted"))
        skipped: Any = self.wait(store.open("skipped"))
        self.wait(deleted.append(numbered(0, 10)))
        self.wait(deleted.delete(range(1, 11)))
        self.wait(skipped.skipTo(77))
        store = self.reopen(store)
        for name, following in (("deleted", 11), ("skipped", 77)):
            log = self.wait(store.open(name))
            self.assertEqual(log.bounds().count, 0)
            self.assertEqual(log.nextSequence, following)
            self.assertEqual(self.wait(log.append([entry(b"")])), range(following, following + 1))

    def test_timeDoesNotGoBack(self) -> None:
        """The timestamp of the last record counts after opening again, even if that is gone."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append([entry(b"a", time=self.time + SECOND)]))
        self.wait(log.delete([1]))
        store = self.reopen(store)
        log = self.wait(store.open("log"))
        self.wait(log.append([entry(b"b")]))
        self.assertEqual(self.allOf(log)[0].timestamp, self.time + SECOND)

    def test_deletesSurvive(self) -> None:
        """What was deleted or discarded stays away."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append([entry(b"%d" % each * 20) for each in range(2000)]))
        self.wait(log.delete(range(3, 1999, 3)))
        self.wait(log.discardBefore(700))
        before, bounds = self.allOf(log), log.bounds()
        store = self.reopen(store)
        log = self.wait(store.open("log"))
        self.assertEqual(log.bounds(), bounds)
        self.assertEqual(self.allOf(log), before)

    def test_holdsSurvive(self) -> None:
        """Holds are in force after opening again; limits come from the owner again."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append(numbered(0, 100)))
        self.wait(log.hold("archive", 20))
        self.wait(log.hold("gone", 1))
        self.wait(log.release("gone"))
        store = self.reopen(store)
        log = self.wait(store.open("log"))
        self.assertEqual(log.holds(), {"archive": 20})
        self.assertEqual(self.wait(log.discardBefore(50)), 20)

    def test_subjectsSurvive(self) -> None:
        """Tallies and last records are the same after opening again."""
        store = self.store()
        logs: list[Any] = [self.wait(store.open(name)) for name in ("one", "many")]
        self.wait(logs[0].append(numbered(0, 10, b"only")))
        self.wait(logs[1].append([entry(b"%d" % n, b"k.%d" % (n % 9)) for n in range(500)]))
        for log in logs:
            self.wait(log.delete([1, 2, 10, 490]))
        before = [self.wait(log.subjects(b">")) for log in logs]
        store = self.reopen(store)
        logs = [self.wait(store.open(name)) for name in ("one", "many")]
        self.assertEqual([self.wait(log.subjects(b">")) for log in logs], before)
        self.assertEqual(self.wait(logs[0].lastFor(b"only")).payload, b"8")
        self.assertEqual(self.wait(logs[1].lastFor(b"k.4")).sequence, 500 - (500 - 1 - 4) % 9)

    def test_dropsSurvive(self) -> None:
        """A log that was dropped is not there after opening again; a new one of its name is."""
        store = self.store()
        for name in ("a", "b"):
            log = self.wait(store.open(name))
            self.wait(log.append([entry(b"old" * 500) for _ in range(500)]))
            self.wait(store.drop(name))
        log = self.wait(store.open("b"))
        self.wait(log.append([entry(b"new")]))
        store = self.reopen(store)
        self.assertEqual(self.wait(store.logs()), ["b"])
        self.assertEqual(self.payloads(self.wait(store.open("b"))), [b"new"])

    def test_stateSurvives(self) -> None:
        """State is there after opening again."""
        store = self.store()
        states = store.states("space")
        self.wait(states.change({b"a": b"1", b"b": b"2" * 5000, b"c": b""}))
        self.wait(states.delete(b"a"))
        store = self.reopen(store)
        self.assertEqual(self.wait(store.states("space").load()), {b"b": b"2" * 5000, b"c": b""})


class _Model:
    """
    What a log should hold, in the simplest way.
    """

    def __init__(self) -> None:
        self.records: dict[int, tuple[bytes, bytes]] = {}
        self.next = 1
        self.retention = Retention()
        self.holds: dict[str, int] = {}

    def append(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        for pair in pairs:
            self.records[self.next] = pair
            self.next += 1
        self.enforce()

    def floor(self) -> int:
        return min(self.holds.values(), default=self.next)

    def enforce(self) -> None:
        if self.retention.perSubject:
            for subject in {pair[0] for pair in self.records.values()}:
                same = [n for n, pair in self.records.items() if pair[0] == subject]
                for sequence in same[: -self.retention.perSubject]:
                    if sequence < self.floor():
                        del self.records[sequence]
        limit = self.retention.count
        while limit and len(self.records) > limit and min(self.records) < self.floor():
            del self.records[min(self.records)]


class HistoryContract(StoreHarness):
    """
    Long random histories, compared with a model at every step; for logs that provide everything.
    """

    def step(self, random: Random, log: Any, model: _Model) -> None:
        """
        Do one thing to a log and to its model.
        """
        action = random.choice(
            ["append"] * 8
            + ["one"] * 6
            + ["delete"] * 3
            + ["discard", "skip", "hold", "release"]
            + ["count", "perSubject", "free"]
        )
        if action in ("append", "one"):
            count = random.choice((1, 2, 5, 60, 300)) if action == "append" else 1
            size = random.choice((0, 3, 50, 400))
            pairs = [
                (b"k.%d" % random.randrange(8), random.randbytes(random.randrange(size + 1)))
                for _ in range(count)
            ]
            self.wait(log.append([entry(payload, subject) for subject, payload in pairs]))
            model.append(pairs)
        elif action == "delete" and model.records:
            live = sorted(model.records)
            chosen = random.sample(live, min(len(live), random.choice((1, 3, 50))))
            self.assertEqual(self.wait(log.delete([*chosen, model.next + 5])), len(chosen))
            for each in chosen:
                del model.records[each]
        elif action == "discard":
            sequence = random.randrange(max(1, model.next - 400), model.next + 2)
            self.wait(log.discardBefore(sequence))
            limit = min(sequence, model.floor())
            for each in [each for each in model.records if each < limit]:
                del model.records[each]
        elif action == "skip":
            model.next += random.choice((0, 1, 1000))
            self.wait(log.skipTo(model.next))
        elif action == "hold":
            name, floor = random.choice("ab"), max(1, model.next - random.randrange(200))
            model.holds[name] = floor
            self.wait(log.hold(name, floor))
            model.enforce()
        elif action == "release":
            name = random.choice("ab")
            model.holds.pop(name, None)
            self.wait(log.release(name))
            model.enforce()
        elif action in ("count", "perSubject", "free"):
            model.retention = {
                "count": Retention(count=random.choice((5, 100, 700))),
                "perSubject": Retention(perSubject=random.choice((1, 4, 70))),
                "free": Retention(),
            }[action]
            log.retain(model.retention)
            model.enforce()
        for _ in range(12):
            self.wait(log.append([]))

    def compare(self, log: Any, model: _Model) -> None:
        """
        Assert that a log holds what its model does.
        """
        records = self.allOf(log)
        self.assertEqual(
            {each.sequence: (each.subject, each.payload) for each in records}, model.records
        )
        bounds = log.bounds()
        self.assertEqual(bounds.last, model.next - 1)
        self.assertEqual(bounds.first, min(model.records, default=model.next))
        self.assertEqual(bounds.count, len(model.records))
        size = sum(len(subject) + len(payload) for subject, payload in model.records.values())
        self.assertEqual(bounds.size, size)
        found = self.wait(log.subjects(b">"))
        tallies: dict[bytes, list[int]] = {}
        for sequence in sorted(model.records):
            tallies.setdefault(model.records[sequence][0], []).append(sequence)
        self.assertEqual(
            {subject: (each.count, each.first, each.last) for subject, each in found.items()},
            {subject: (len(each), each[0], each[-1]) for subject, each in tallies.items()},
        )
        for subject, sequences in tallies.items():
            self.assertEqual(self.wait(log.lastFor(subject)).sequence, sequences[-1])

    def survives(self) -> bool:
        """
        Whether the store has a C{reopen}.
        """
        return type(self).reopen is not StoreHarness.reopen

    def history(self, seed: int, steps: int = 60) -> None:
        """
        One history of two logs.
        """
        random = Random(seed)
        store = self.store()
        names = ["left", "right"]
        models = {name: _Model() for name in names}
        for number in range(steps):
            name = random.choice(names)
            log: Any = self.wait(store.open(name))
            log.retain(models[name].retention)
            self.step(random, log, models[name])
            self.compare(log, models[name])
            if number % 15 == 14 and self.survives():
                store = self.reopen(store)

    def test_history1(self) -> None:
        """A random history ends as its model does."""
        self.history(1)

    def test_history2(self) -> None:
        """Another random history ends as its model does."""
        self.history(2)

    def test_history3(self) -> None:
        """A third random history ends as its model does."""
        self.history(3)
