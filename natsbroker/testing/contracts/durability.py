"""Contract tests for the durability of a store: after reopening, and in random histories."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from unittest import SkipTest

from natsbroker.interfaces import IHeldLog, ISubjectIndexedLog
from natsbroker.interfaces.records import Retention
from natsbroker.testing.contracts.harness import SECOND, StoreHarness, entry, numbered

__all__ = ["DurableContract", "HistoryContract"]


class DurableContract(StoreHarness):
    """A durable store: needs C{reopen}, and logs that provide L{IRetainedLog}."""

    def test_recordsSurvive(self) -> None:
        """Records, bounds and the next sequence survive reopening."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        for start in range(0, 3000, 500):
            self.wait(log.append(numbered(start, start + 500)))
        for number in range(3000, 3050):
            self.wait(log.append([entry(b"%d" % number)]))
        before, bounds, identity = self.allOf(log), log.bounds(), log.identity
        store = self.reopen(store)
        self.assertEqual(self.wait(store.logs()), ["log"])
        log = self.wait(store.open("log", create=False))
        self.assertEqual((log.bounds(), log.identity), (bounds, identity))
        self.assertEqual(self.allOf(log), before)
        self.assertEqual(self.wait(log.append([entry(b"x")])), range(3051, 3052))
        self.assertEqual(self.allOf(log)[:-1], before)

    def test_noSequenceTwice(self) -> None:
        """Sequences continue after everything was deleted, also after reopening."""
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
        """The timestamp of the last record counts after reopening, even if the record is gone."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append([entry(b"a", time=self.time + SECOND)]))
        self.wait(log.delete([1]))
        store = self.reopen(store)
        log = self.wait(store.open("log"))
        self.wait(log.append([entry(b"b")]))
        self.assertEqual(self.allOf(log)[0].timestamp, self.time + SECOND)

    def test_deletesSurvive(self) -> None:
        """Deleted and discarded records do not come back."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append([entry(b"%d" % number * 20) for number in range(2000)]))
        self.wait(log.delete(range(3, 1999, 3)))
        self.wait(log.discardBefore(700))
        before, bounds = self.allOf(log), log.bounds()
        store = self.reopen(store)
        log = self.wait(store.open("log"))
        self.assertEqual(log.bounds(), bounds)
        self.assertEqual(self.allOf(log), before)

    def test_holdsSurvive(self) -> None:
        """Holds are in force after reopening. Limits are set again by the owner."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        if not IHeldLog.providedBy(log):
            raise SkipTest("the logs of this store have no holds")
        self.wait(log.append(numbered(0, 100)))
        self.wait(log.hold("archive", 20))
        self.wait(log.hold("gone", 1))
        self.wait(log.release("gone"))
        store = self.reopen(store)
        log = self.wait(store.open("log"))
        self.assertEqual(log.holds(), {"archive": 20})
        self.assertEqual(self.wait(log.discardBefore(50)), 20)

    def test_subjectsSurvive(self) -> None:
        """Tallies and last records are the same after reopening."""
        store = self.store()
        logs: list[Any] = [self.wait(store.open(name)) for name in ("one", "many")]
        if not ISubjectIndexedLog.providedBy(logs[0]):
            raise SkipTest("the logs of this store have no index of subjects")
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
        """A dropped log does not come back after reopening; a new log of its name does."""
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
        """State survives reopening."""
        store = self.store()
        states = store.states("space")
        self.wait(states.change({b"a": b"1", b"b": b"2" * 5000, b"c": b""}))
        self.wait(states.delete(b"a"))
        store = self.reopen(store)
        self.assertEqual(self.wait(store.states("space").load()), {b"b": b"2" * 5000, b"c": b""})


class _Model:
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
            for removed in chosen:
                del model.records[removed]
        elif action == "discard":
            sequence = random.randrange(max(1, model.next - 400), model.next + 2)
            self.wait(log.discardBefore(sequence))
            limit = min(sequence, model.floor())
            for old in [known for known in model.records if known < limit]:
                del model.records[old]
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
        records = self.allOf(log)
        self.assertEqual(
            {record.sequence: (record.subject, record.payload) for record in records}, model.records
        )
        bounds = log.bounds()
        self.assertEqual(bounds.last, model.next - 1)
        self.assertEqual(bounds.first, min(model.records, default=model.next))
        self.assertEqual(bounds.count, len(model.records))
        size = sum(len(subject) + len(payload) for subject, payload in model.records.values())
        self.assertEqual(bounds.size, size)
        listed = self.wait(log.subjects(b">"))
        tallies: dict[bytes, list[int]] = {}
        for sequence in sorted(model.records):
            tallies.setdefault(model.records[sequence][0], []).append(sequence)
        self.assertEqual(
            {subject: (tally.count, tally.first, tally.last) for subject, tally in listed.items()},
            {
                subject: (len(sequences), sequences[0], sequences[-1])
                for subject, sequences in tallies.items()
            },
        )
        for subject, sequences in tallies.items():
            self.assertEqual(self.wait(log.lastFor(subject)).sequence, sequences[-1])

    def survives(self) -> bool:
        return type(self).reopen is not StoreHarness.reopen

    def history(self, seed: int, steps: int = 60) -> None:
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
        """A random history has the same results as its model."""
        self.history(1)

    def test_history2(self) -> None:
        """A second random history has the same results as its model."""
        self.history(2)

    def test_history3(self) -> None:
        """A third random history has the same results as its model."""
        self.history(3)
