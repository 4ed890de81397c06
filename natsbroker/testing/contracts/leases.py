"""
The duties of every store that several brokers share, as tests, for L{ILeasedStore}. Mix
L{LeasedContract} with a trial C{SynchronousTestCase}, as the contracts of
L{natsbroker.testing.contracts.stores}, and provide C{share} and C{expire} as well.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ILeasedStore, IStoreWatcher
from natsbroker.interfaces.records import LeaseLost, NoSuchLog, StoreClosed
from natsbroker.testing.contracts.harness import StoreHarness, entry, numbered

__all__ = ["LeasedContract"]

SOON = 10.0
"""Seconds in which a waiting store looks at least once whether a log is free."""


@implementer(IStoreWatcher)
class LossWatcher:
    def __init__(self) -> None:
        self.lost: list[str] = []

    def _ignore(self, *details: object) -> None:
        """Ignore a result."""

    recordsDamaged = stateDamaged = logQuarantined = writesStopped = writesResumed = _ignore

    def logLost(self, log: str) -> None:
        self.lost.append(log)


class LeasedContract(StoreHarness):
    def share(self, store: Any) -> Any:
        """Open the same store as another broker would. It is closed by the contract."""
        raise NotImplementedError

    def expire(self) -> None:
        """
        Let all leases expire, as if their brokers had been stopped for that time. The brokers must
        not notice before they are called.
        """
        raise NotImplementedError

    def brokers(self) -> tuple[Any, Any]:
        one = self.store()
        other = self.share(one)
        self.addCleanup(lambda: self.wait(other.close()))
        return one, other

    def opened(self, store: Any) -> Any:
        log = self.wait(store.open("log"))
        self.wait(log.append(numbered(0, 3)))
        return log

    def test_leasedInterface(self) -> None:
        """A store that is shared provides its interface."""
        self.assertTrue(verifyObject(ILeasedStore, self.store()))

    def test_oneAtATime(self) -> None:
        """A log that one broker serves can be listed by another one, but not opened or dropped."""
        one, other = self.brokers()
        self.opened(one)
        self.failsWith(LeaseLost, other.open("log"))
        self.failsWith(LeaseLost, other.open("log", create=False))
        self.failsWith(LeaseLost, other.drop("log"))
        self.assertEqual(self.wait(other.logs()), ["log"])

    def test_eachItsOwn(self) -> None:
        """A broker can serve a log while the other broker serves another one."""
        one, other = self.brokers()
        log = self.opened(one)
        another = self.wait(other.open("another"))
        self.wait(another.append(numbered(0, 2)))
        self.wait(log.append(numbered(3, 4)))
        self.assertEqual(self.payloads(log), [b"0", b"1", b"2", b"3"])
        self.assertEqual(self.payloads(another), [b"0", b"1"])

    def test_closedIsFree(self) -> None:
        """A broker that closes the store releases all leases at once."""
        one, other = self.brokers()
        bounds = self.opened(one).bounds()
        self.wait(one.close())
        log = self.wait(other.open("log"))
        self.assertEqual(log.bounds(), bounds)
        self.assertEqual(self.wait(log.append(numbered(3, 4))), range(4, 5))

    def test_givenUp(self) -> None:
        """A log that was given up can be opened by another broker, with all earlier writes."""
        one, other = self.brokers()
        log = self.opened(one)
        pending = log.append(numbered(3, 5))
        given = one.giveUp("log")
        self.failsWith(LeaseLost, log.append([entry(b"late")]))
        self.assertEqual(self.wait(pending), range(4, 6))
        self.wait(given)
        moved = self.wait(other.open("log"))
        self.assertEqual(self.payloads(moved), [b"0", b"1", b"2", b"3", b"4"])
        self.failsWith(LeaseLost, one.open("log"))
        self.failsWith(NoSuchLog, one.giveUp("log"))

    def test_takenOver(self) -> None:
        """
        When a broker's lease is over, another one takes its log, and the first cannot write to it
        again.
        """
        one, other = self.brokers()
        log = self.opened(one)
        watcher = LossWatcher()
        one.watch(watcher)
        self.expire()
        taken = self.wait(other.open("log"))
        self.wait(taken.append([entry(b"new")]))
        pending = [log.append([entry(b"old")]), log.append([entry(b"old")]), log.delete([1])]
        for change in pending:
            self.failsWith(LeaseLost, change)
        self.failsWith(LeaseLost, log.append([entry(b"old")]))
        self.failsWith(LeaseLost, log.read(1))
        self.failsWith(LeaseLost, one.open("log"))
        self.assertEqual(watcher.lost, ["log"])
        self.assertEqual(self.payloads(taken), [b"0", b"1", b"2", b"new"])

    def test_othersGoOn(self) -> None:
        """A broker that lost one log continues with its others at the same time."""
        one, other = self.brokers()
        log, kept = self.opened(one), self.wait(one.open("kept"))
        self.expire()
        self.wait(other.open("log"))
        lost, stored = log.append([entry(b"old")]), kept.append([entry(b"kept")])
        self.failsWith(LeaseLost, lost)
        self.assertEqual(self.wait(stored), range(1, 2))

    def test_fight(self) -> None:
        """Two brokers that take a log from each other repeatedly never both write."""
        brokers = self.brokers()
        expected = []
        losers: list[Any] = []
        log: Any = None
        for turn in range(12):
            self.expire()
            log = self.wait(brokers[turn % 2].open("log"))
            for loser in losers:
                self.failsWith(LeaseLost, loser.append([entry(b"never")]))
            batch = [entry(b"%d" % turn), entry(b"%d" % turn)]
            self.assertEqual(self.wait(log.append(batch)), range(2 * turn + 1, 2 * turn + 3))
            expected += [b"%d" % turn] * 2
            losers = [log]
        self.assertEqual(self.payloads(log), expected)

    def test_whenFree(self) -> None:
        """A waiting broker gets a log when the other broker releases it, and not before."""
        one, other = self.brokers()
        self.opened(one)
        waiting = other.whenFree("log")
        self.advance(SOON)
        self.wait(other.logs())
        self.assertNoResult(waiting)
        self.wait(one.close())
        self.advance(SOON)
        self.assertEqual(self.payloads(self.wait(waiting)), [b"0", b"1", b"2"])

    def test_whenFreeAtOnce(self) -> None:
        """A log without a holder is opened at once, and is made if it does not exist."""
        _, other = self.brokers()
        self.assertEqual(self.wait(other.whenFree("new")).name, "new")

    def test_whenFreeEnds(self) -> None:
        """Waiting can be cancelled, and ends when the store is closed."""
        one, other = self.brokers()
        self.opened(one)
        cancelled, closed = other.whenFree("log"), other.whenFree("log")
        self.wait(other.logs())
        cancelled.cancel()
        self.failsWith(CancelledError, cancelled)
        self.wait(other.close())
        self.failsWith(StoreClosed, closed)
        self.failsWith(StoreClosed, other.whenFree("log"))

    def test_census(self) -> None:
        """Each broker sees who has which lease, by the names that brokers introduced."""
        one, other = self.brokers()
        self.wait(one.introduce("ONE"))
        self.wait(other.introduce("OTHER"))
        self.opened(one)
        self.wait(other.open("logs"))
        self.wait(other.open("elsewhere"))
        census = self.wait(other.census("log"))
        self.assertEqual(census.logs, {"log": "ONE", "logs": "OTHER"})
        self.assertEqual(set(census.holders), {"ONE", "OTHER"})
        self.assertTrue(census.holders["ONE"].isAlive)
        self.assertLess(census.holders["ONE"].age, one.lease)
        self.expire()
        self.wait(other.open("log"))
        census = self.wait(one.census("log"))
        self.assertEqual(set(census.logs), {"log", "logs"})
        self.assertIs(census.logs["logs"], None)
        self.assertFalse(census.holders["ONE"].isAlive)

    def test_peek(self) -> None:
        """State can be read without its lease, by prefixes of spaces and keys."""
        one, other = self.brokers()
        self.wait(one.states("a/1").change({b"k1": b"1", b"k2": b"2", b"x": b"3"}))
        self.wait(one.states("a/2").put(b"k1", b"4"))
        self.wait(one.states("a/3").put(b"x", b"5"))
        self.wait(one.states("b/1").put(b"k1", b"6"))
        values = self.wait(other.peek("a/", b"k"))
        self.assertEqual(values, {"a/1": {b"k1": b"1", b"k2": b"2"}, "a/2": {b"k1": b"4"}})
        self.wait(one.states("a/1").put(b"k1", b"7"))

    def test_giveUpStates(self) -> None:
        """A broker that gave up state cannot write to it before having loaded it again."""
        one, other = self.brokers()
        ours, theirs = one.states("space"), other.states("space")
        self.wait(ours.put(b"k", b"1"))
        self.wait(other.giveUpStates("space"))
        self.failsWith(LeaseLost, theirs.load())
        self.wait(one.giveUpStates("space"))
        self.failsWith(LeaseLost, ours.put(b"k", b"2"))
        self.assertEqual(self.wait(theirs.load()), {b"k": b"1"})
        self.failsWith(LeaseLost, ours.load())
        self.wait(other.giveUpStates("space"))
        self.assertEqual(self.wait(ours.load()), {b"k": b"1"})

    def test_stateIsLeased(self) -> None:
        """
        State belongs to its first user. A broker that lost the lease cannot write to it, and has to
        load it again once it is free.
        """
        one, other = self.brokers()
        ours, theirs = one.states("space"), other.states("space")
        self.wait(ours.put(b"k", b"1"))
        self.failsWith(LeaseLost, theirs.load())
        self.failsWith(LeaseLost, theirs.put(b"k", b"2"))
        self.expire()
        self.assertEqual(self.wait(theirs.load()), {b"k": b"1"})
        self.wait(theirs.put(b"k", b"3"))
        self.failsWith(LeaseLost, ours.put(b"k", b"4"))
        self.failsWith(LeaseLost, ours.delete(b"k"))
        self.assertEqual(self.wait(theirs.load()), {b"k": b"3"})
        self.wait(other.close())
        self.failsWith(LeaseLost, ours.put(b"k", b"5"))
        self.assertEqual(self.wait(ours.load()), {b"k": b"3"})
        self.wait(ours.put(b"k", b"6"))
