"""Interest edges: the changes of interest that other brokers need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import hot
from natsbroker.accounts.interest import AccountInterest
from natsbroker.subjects.subscription import Subscription
from natsbroker.wire.values import Kind
from tests.support import WatchRecorder


class Book:
    """
    Subscriptions and their interest.
    """

    def __init__(self) -> None:
        self.there: list[Subscription] = []
        self.soon: list[Callable[[], None]] = []
        self.interest = AccountInterest(self.there, lambda: (), hot.FlushBatch(self.soon.append))

    def add(
        self, pattern: bytes, queue: bytes = b"", kind: Kind = Kind.CLIENT, weight: int = 1
    ) -> Subscription:
        """Add a subscription."""
        subscription: Any = Subscription(
            None, pattern, queue, int(kind), object(), b"", weight=weight
        )
        self.there.append(subscription)
        self.interest.added(subscription)
        return subscription  # type: ignore[no-any-return]

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        self.there.remove(subscription)
        self.interest.removed(subscription)


class TestEdges:
    """The changes of interest that a watcher receives."""

    def test_firstAndLast(self) -> None:
        """A watcher hears of the first and of the last plain subscription to a pattern."""
        book, watcher = Book(), WatchRecorder()
        book.interest.watch(watcher)
        one = book.add(b"foo")
        assert watcher.taken() == [("+", b"foo", b"", 1)]
        two = book.add(b"foo")
        book.remove(one)
        assert watcher.taken() == []
        book.remove(two)
        assert watcher.taken() == [("-", b"foo", b"", 0)]

    def test_weights(self) -> None:
        """A watcher hears of every change of a group's size."""
        book, watcher = Book(), WatchRecorder()
        book.interest.watch(watcher)
        one = book.add(b"foo", b"q")
        two = book.add(b"foo", b"q")
        three = book.add(b"foo", b"q", weight=5, kind=Kind.SPOKE)
        book.remove(two)
        book.remove(three)
        book.remove(one)
        assert watcher.taken() == [
            ("+", b"foo", b"q", 1),
            ("=", b"foo", b"q", 2),
            ("=", b"foo", b"q", 7),
            ("=", b"foo", b"q", 6),
            ("=", b"foo", b"q", 1),
            ("-", b"foo", b"q", 0),
        ]

    def test_separateCounts(self) -> None:
        """Patterns, groups and plain subscriptions are counted apart."""
        book, watcher = Book(), WatchRecorder()
        book.interest.watch(watcher)
        for pattern in (b"foo", b"foo.*", b">"):
            for queue in (b"", b"q", b"r"):
                book.add(pattern, queue)
        assert [sign for sign, *_ in watcher.told] == ["+"] * 9

    @pytest.mark.parametrize("kind", Kind)
    def test_originsThatCount(self, kind: Kind) -> None:
        """
        Subscriptions of clients, services and spokes count as interest, and those learned from
        other brokers do not.
        """
        book, watcher = Book(), WatchRecorder()
        book.interest.watch(watcher)
        book.remove(book.add(b"foo", kind=kind))
        late = WatchRecorder()
        book.add(b"foo", kind=kind)
        book.interest.watch(late)
        told = kind in (Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE)
        assert [sign for sign, *_ in watcher.told] == (["+", "-", "+"] if told else [])
        assert [sign for sign, *_ in late.told] == (["+"] if told else [])


class TestWatchers:
    """The watchers that are called."""

    def test_lateWatcher(self) -> None:
        """A late watcher first receives the present interest."""
        book = Book()
        book.add(b"foo")
        book.add(b"foo")
        book.add(b"foo", b"q")
        book.add(b"foo", b"q")
        first, second = WatchRecorder(), WatchRecorder()
        book.interest.watch(first)
        book.add(b"bar")
        book.interest.watch(second)
        assert sorted(first.told) == sorted(second.told)
        assert set(second.told) == {
            ("+", b"foo", b"", 2),
            ("+", b"foo", b"q", 2),
            ("+", b"bar", b"", 1),
        }

    def test_raises(self) -> None:
        """
        A watcher that raises an exception is reported, and the watchers after it are called too.
        """

        class Failing(WatchRecorder):
            def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
                raise SystemExit

        reported: list[str] = []
        book = Book()
        interest = AccountInterest(
            (), lambda: (), hot.FlushBatch(lambda call: None), reported.append
        )
        recorder = WatchRecorder()
        interest.watch(Failing())
        interest.watch(recorder)
        interest.added(book.add(b"foo"))
        assert recorder.told == [("+", b"foo", b"", 1)]
        assert reported == ["An interest watcher failed"]

    def test_stopped(self) -> None:
        """
        A watcher that has stopped is not called again, and others are. Stopping twice does no harm.
        """
        book, gone, there = Book(), WatchRecorder(), WatchRecorder()
        stop = book.interest.watch(gone)
        book.interest.watch(there)
        stop()
        stop()
        book.add(b"foo")
        assert gone.told == []
        assert there.told == [("+", b"foo", b"", 1)]

    def test_watchedAgain(self) -> None:
        """A change while no watcher exists is known to the next watcher."""
        book, first, second = Book(), WatchRecorder(), WatchRecorder()
        one = book.add(b"foo")
        book.interest.watch(first)()
        book.remove(one)
        bar = book.add(b"bar")
        book.interest.watch(second)
        assert second.taken() == [("+", b"bar", b"", 1)]
        book.remove(bar)
        assert second.taken() == [("-", b"bar", b"", 0)]

    def test_stopsDuringCall(self) -> None:
        """A watcher may stop while it is called."""
        book = Book()

        class Impatient(WatchRecorder):
            def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
                super().interestGained(pattern, queue, weight)
                stop()

        impatient, patient = Impatient(), WatchRecorder()
        stop = book.interest.watch(impatient)
        book.interest.watch(patient)
        book.add(b"foo")
        book.add(b"bar")
        assert [pattern for _, pattern, *_ in impatient.told] == [b"foo"]
        assert [pattern for _, pattern, *_ in patient.told] == [b"foo", b"bar"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"a.*"]),
        st.sampled_from([b"", b"q"]),
        st.sampled_from(list(Kind)),
        st.integers(1, 3),
        st.booleans(),
    ),
    max_size=25,
)


@given(STEPS, st.integers(0, 25))
def test_watcherKnowsSubscriptions(
    steps: list[tuple[bytes, bytes, Kind, int, bool]], comes: int
) -> None:
    """A watcher knows all subscriptions, whenever it begins to watch."""
    book, watcher = Book(), WatchRecorder()
    for place, (pattern, queue, kind, weight, removes) in enumerate(steps):
        if place == comes:
            book.interest.watch(watcher)
        if removes and book.there:
            book.remove(book.there[place % len(book.there)])
        else:
            book.add(pattern, queue, kind, weight)
    if comes >= len(steps):
        book.interest.watch(watcher)
    known: dict[tuple[bytes, bytes], int] = {}
    for sign, pattern, queue, weight in watcher.told:
        key = (pattern, queue)
        assert (key in known) is (sign != "+")
        if sign == "-":
            del known[key]
        else:
            known[key] = weight
    expected: dict[tuple[bytes, bytes], int] = {}
    for subscription in book.there:
        if subscription.kind in (Kind.CLIENT, Kind.INTERNAL, Kind.SPOKE):
            key = (subscription.pattern, subscription.queue)
            expected[key] = expected.get(key, 0) + subscription.weight
    # The weight of plain interest is only told when it begins.
    assert set(known) == set(expected)
    assert all(known[key] == expected[key] for key in known if key[1])


class TestPatience:
    """Patient watchers, which receive existing interest in several turns."""

    COUNT = 5000

    def crowded(self) -> tuple[Book, list[Subscription]]:
        """Many subscriptions."""
        book = Book()
        return book, [book.add(b"a.%d" % number) for number in range(self.COUNT)]

    def finish(self, book: Book) -> int:
        """Let turns pass until no work is left, and count them."""
        rounds = 0
        while book.soon:
            book.soon.pop(0)()
            rounds += 1
        return rounds

    def test_inTurns(self) -> None:
        """A patient watcher receives everything, once, in several turns."""
        book, _ = self.crowded()
        watcher = WatchRecorder()
        book.interest.watch(watcher, None, True)
        told = watcher.taken()
        assert len(told) < self.COUNT
        assert self.finish(book) > 1
        told += watcher.taken()
        assert told == [("+", b"a.%d" % number, b"", 1) for number in range(self.COUNT)]

    @pytest.mark.parametrize("rounds", [0, 1, 2, 3])
    def test_changes(self, rounds: int) -> None:
        """
        A patient watcher ends with the present interest, also if that changes between its turns.
        """
        book, subscriptions = self.crowded()
        watcher = WatchRecorder()
        book.interest.watch(watcher, None, True)
        for _ in range(rounds):
            book.soon.pop(0)()
        for place in (0, 10, self.COUNT // 2, self.COUNT - 1):
            book.remove(subscriptions[place])
        book.add(b"a.10")
        book.add(b"new")
        group = [book.add(b"q", b"q") for _ in range(2)]
        book.remove(group[0])
        self.finish(book)
        known: dict[tuple[bytes, bytes], int] = {}
        for sign, pattern, queue, weight in watcher.taken():
            if sign == "-":
                del known[pattern, queue]
            else:
                assert weight > 0
                known[pattern, queue] = weight
        assert set(known) == {
            (subscription.pattern, subscription.queue) for subscription in book.there
        }
        assert known[b"q", b"q"] == 1

    def test_stopped(self) -> None:
        """
        A patient watcher that is stopped receives no more, and another one receives everything.
        """
        book, _ = self.crowded()
        one, other = WatchRecorder(), WatchRecorder()
        stop = book.interest.watch(one, None, True)
        book.interest.watch(other, None, True)
        stop()
        one.taken()
        self.finish(book)
        assert (one.taken(), len(other.taken())) == ([], self.COUNT)

    def test_atOnce(self) -> None:
        """An impatient watcher receives everything at once, also while another one waits."""
        book, _ = self.crowded()
        one, other = WatchRecorder(), WatchRecorder()
        book.interest.watch(one, None, True)
        book.interest.watch(other)
        assert len(other.taken()) == self.COUNT

    def test_callbackOnce(self) -> None:
        """The callback of a patient watcher is called once, after all existing interest."""
        book, _ = self.crowded()
        watcher, ends = WatchRecorder(), []
        book.interest.watch(watcher, None, True, lambda: ends.append(len(watcher.told)))
        assert ends == []
        self.finish(book)
        assert ends == [self.COUNT]

    def test_stoppedIsNeverComplete(self) -> None:
        """The callback of a patient watcher that is stopped is not called."""
        book, _ = self.crowded()
        ends: list[int] = []
        stop = book.interest.watch(WatchRecorder(), None, True, lambda: ends.append(1))
        stop()
        self.finish(book)
        assert ends == []

    @pytest.mark.parametrize("rounds", [0, 1, 2, 3])
    def test_weights(self, rounds: int) -> None:
        """A patient watcher learns the new weight of a group that changes between its turns."""
        book, _ = self.crowded()
        members = [book.add(b"q", b"q", weight=2) for _ in range(2)]
        watcher = WatchRecorder()
        book.interest.watch(watcher, None, True)
        for _ in range(rounds):
            book.soon.pop(0)()
        before, members[0].weight = members[0].weight, 7
        book.interest.reweighed(members[0], before)
        book.remove(members[1])
        self.finish(book)
        assert [change for change in watcher.taken() if change[1] == b"q"][-1][3] == 7

    def test_standIns(self) -> None:
        """Interest that is added and removed by different objects is gone for a patient watcher."""
        book, _ = self.crowded()
        watcher = WatchRecorder()
        book.interest.watch(watcher, None, True)
        for isThere in (True, False):
            standIn: Any = Subscription(None, b"far", b"", int(Kind.CLIENT), object(), b"")
            (book.interest.added if isThere else book.interest.removed)(standIn, True)
        self.finish(book)
        assert b"far" not in {pattern for _, pattern, *_ in watcher.taken()}
