"""Contract tests for L{IStreamStore}, L{IStreamLog} and L{IStateStore}."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

from zope.interface.verify import verifyObject

from natsbroker.interfaces import (
    IExportableLog,
    IGroupingLog,
    IHeldLog,
    IRetainedLog,
    IStateStore,
    IStreamLog,
    IStreamStore,
    ISubjectIndexedLog,
)
from natsbroker.interfaces.records import LogBounds, NoSuchLog, Record, StoreClosed
from natsbroker.testing.contracts.harness import StoreHarness, entry, numbered

__all__ = ["GroupingContract", "LogContract", "StateContract"]


class LogContract(StoreHarness):
    """L{IStreamStore} and L{IStreamLog}."""

    def test_providesTheInterfaces(self) -> None:
        """A store and its logs provide the interfaces that they declare."""
        store = self.store()
        log = self.wait(store.open("log"))
        self.assertTrue(verifyObject(IStreamStore, store))
        for interface in (IStreamLog, IRetainedLog, IHeldLog, ISubjectIndexedLog, IExportableLog):
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
        """Appended records are read back, byte for byte, with sequences from 1."""
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
        """The next sequence counts an append at once; the bounds count it when it is durable."""
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

        def kept(sequences: range) -> range:
            fired.append(sequences)
            return sequences

        deferreds = [log.append(numbered(number * 3, number * 3 + 3)) for number in range(50)]
        for deferred in deferreds:
            deferred.addCallback(kept)
        results = [self.wait(deferred) for deferred in deferreds]
        self.assertEqual(results, [range(1 + 3 * n, 4 + 3 * n) for n in range(50)])
        self.assertEqual(fired, results)
        self.assertEqual(self.payloads(log), [b"%d" % number for number in range(150)])

    def test_emptyBatch(self) -> None:
        """An empty batch fires, with no sequences, when all earlier calls are durable."""
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
        """A subject that is too long refuses the whole batch, and uses no sequence."""
        log = self.log()
        with self.assertRaises(ValueError):
            log.append([entry(b"ok"), entry(b"no", b"x" * 65536)])
        self.assertEqual(log.nextSequence, 1)
        self.assertEqual(self.wait(log.append([entry(b"yes")])), range(1, 2))
        self.assertEqual(self.payloads(log), [b"yes"])

    def test_timestamps(self) -> None:
        """Timestamps are kept as given, or come from the clock, and never go back."""
        log = self.log()
        now = self.time
        self.wait(log.append([entry(b"a", time=5), entry(b"b"), entry(b"c", time=7)]))
        self.time -= 1000
        self.wait(log.append([entry(b"d")]))
        self.assertEqual([record.timestamp for record in self.allOf(log)], [5, now, now, now])

    def test_largeRecords(self) -> None:
        """Large records can be stored beside small ones."""
        log = self.log()
        payloads = [b"a", b"b" * 1_500_000, b"c", b"d" * 70_000, b"e" * 65_536, b"f"]
        self.wait(log.append([entry(payload) for payload in payloads]))
        self.assertEqual(self.payloads(log), payloads)

    def test_readLimits(self) -> None:
        """A read stops at its limit of records, or after the record that reaches that of bytes."""
        log = self.log([entry(b"x" * 99) for _ in range(1000)])
        self.assertEqual([record.sequence for record in self.wait(log.read(5, 3))], [5, 6, 7])
        self.assertEqual(len(self.wait(log.read(1, 1000, 1000))), 10)
        self.assertEqual(len(self.wait(log.read(1, 1000, 1))), 1)
        self.assertEqual(len(self.wait(log.read(1, 1000, 1 << 30))), 1000)
        self.assertEqual(len(self.wait(log.read(999, 1000))), 2)

    def test_manySmallAppends(self) -> None:
        """Records that came one by one read like those that came together."""
        log = self.log()
        for number in range(400):
            self.wait(log.append([entry(b"%d" % number * 9)]))
        self.assertEqual(self.payloads(log), [b"%d" % number * 9 for number in range(400)])
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
            batch = [entry(b"", time=second * 10) for second in range(start + 1, start + 1001)]
            self.wait(log.append(batch))
        answers = [self.wait(log.sequenceAt(time)) for time in (0, 10, 11, 9999, 10000, 30000)]
        self.assertEqual(answers, [1, 1, 2, 1000, 1000, 3000])
        self.assertEqual(self.wait(log.sequenceAt(30001)), 3001)

    def test_sequenceAtSameTime(self) -> None:
        """Of records of the same time, the first is found."""
        log = self.log()
        for _ in range(5):
            self.wait(log.append([entry(b"x" * 50000, time=77)] * 4))
        self.assertEqual(self.wait(log.sequenceAt(77)), 1)

    def test_openAgain(self) -> None:
        """Opening the same name twice gives the same log."""
        store = self.store()
        self.assertIs(self.wait(store.open("a")), self.wait(store.open("a")))

    def test_opensTogether(self) -> None:
        """A log that is opened twice before it exists is made once."""
        store = self.store()
        first, second = store.open("a"), store.open("a")
        self.assertIs(self.wait(first), self.wait(second))
        self.assertEqual(self.wait(store.logs()), ["a"])

    def test_logs(self) -> None:
        """The names of all logs are listed in order, whatever their characters."""
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
        """A missing log is made only if C{create} asks for that."""
        store = self.store()
        self.failsWith(NoSuchLog, store.open("a", create=False))
        self.assertEqual(self.wait(store.logs()), [])
        log = self.wait(store.open("a"))
        self.assertIs(self.wait(store.open("a", create=False)), log)

    def test_logsAreSeparate(self) -> None:
        """Each log has its own sequences and records, even when logs are written together."""
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
            self.assertEqual([record.payload for record in records], [b"%d" % n for n in range(40)])
            self.assertEqual({record.subject for record in records}, {b"%d" % index})
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
        self.assertEqual(self.payloads(other), [b"%d" % number for number in range(10)])

    def test_dropFrees(self) -> None:
        """The store keeps nothing of a log that is dropped."""
        store = self.store()
        log = self.wait(store.open("log"))
        self.wait(log.append([entry(b"a")]))
        self.wait(store.drop("log"))
        self.wait(store.logs())
        dropped = ref(log)
        del log
        gc.collect()
        self.assertIsNone(dropped())

    def test_dropWhatIsNotThere(self) -> None:
        """Dropping a missing log fails."""
        self.failsWith(NoSuchLog, self.store().drop("log"))

    def test_closed(self) -> None:
        """After closing, every call fails with StoreClosed; calls made before are completed."""
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
    def states(self) -> Any:
        return self.store().states("space")

    def test_stateInterface(self) -> None:
        """State provides its interface."""
        self.assertTrue(verifyObject(IStateStore, self.states()))

    def test_putAndLoad(self) -> None:
        """Values that are put are loaded, in the order of the keys; the last value counts."""
        states = self.states()
        self.assertEqual(self.wait(states.load()), {})
        self.wait(states.put(b"b", b"2"))
        self.wait(states.put(b"a", b""))
        self.wait(states.put(b"b", b"3"))
        loaded = self.wait(states.load())
        self.assertEqual(list(loaded.items()), [(b"a", b""), (b"b", b"3")])

    def test_delete(self) -> None:
        """A deleted value is gone; deleting a missing value does nothing."""
        states = self.states()
        self.wait(states.put(b"a", b"1"))
        self.wait(states.delete(b"a"))
        self.wait(states.delete(b"a"))
        self.assertEqual(self.wait(states.load()), {})

    def test_loadSeesWhatWasAskedBefore(self) -> None:
        """A load sees all changes that were requested before it."""
        states = self.states()
        pending = [states.put(b"k", b"%d" % number) for number in range(20)]
        pending.append(states.delete(b"gone"))
        self.assertEqual(self.wait(states.load()), {b"k": b"19"})
        for deferred in pending:
            self.wait(deferred)

    def test_prefix(self) -> None:
        """Keys are selected by their prefix, which may be any bytes."""
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
        """Spaces do not see each other, even if the name of one is the prefix of another's."""
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


class GroupingContract(StoreHarness):
    """L{IGroupingLog}."""

    def test_together(self) -> None:
        """
        A deletion and a state that are requested together become durable, and so do later requests.
        """
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.assertTrue(verifyObject(IGroupingLog, log))
        states = store.states("space")
        self.wait(log.append([entry(b"x"), entry(b"x")]))
        asked: list[Any] = []
        log.together(lambda: asked.extend([log.delete([1]), states.put(b"k", b"v")]))
        self.assertEqual([self.wait(deferred) for deferred in asked], [1, None])
        self.wait(log.append([entry(b"x")]))
        self.assertEqual(self.wait(states.load()), {b"k": b"v"})
        self.assertEqual([record.sequence for record in self.wait(log.read(1))], [2, 3])

    def test_togetherInside(self) -> None:
        """Calls inside another one belong to it."""
        log = self.log()
        asked: list[Any] = []

        def both() -> None:
            asked.append(log.append([entry(b"x")]))
            log.together(lambda: asked.append(log.append([entry(b"x")])))

        log.together(both)
        self.assertEqual([self.wait(deferred) for deferred in asked], [range(1, 2), range(2, 3)])

    def test_togetherWithoutRequests(self) -> None:
        """A call that requests nothing, or fails, leaves the log as it is."""
        log = self.log()
        log.together(lambda: None)
        self.assertRaises(ZeroDivisionError, log.together, lambda: 1 // 0)
        self.assertEqual(self.wait(log.append([entry(b"x")])), range(1, 2))
