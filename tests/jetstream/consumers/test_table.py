"""Which consumers learn of a stored message, and how the others know about it otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.consumers import table
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.consumers.table import ConsumerTable
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.steps import PIECE, Steps, finish
from natsbroker.subjects.grammar import matches, overlaps
from tests.jetstream.api.support import ApiStage


class Listed:
    """A consumer that records the messages and notifications that it gets."""

    isHolding = False
    config = ConsumerConfig()
    lowest = 0

    def __init__(self, name: str, *filters: bytes) -> None:
        self.gone: list[Any] = []
        self.name = name
        self.filters = filters
        self.handed: list[tuple[list[int], int]] = []

    def removed(self, *what: Any) -> None:
        self.gone.append(what)

    def stored(self, records: Sequence[Record], last: int) -> bool:
        self.handed.append(([record.sequence for record in records], last))
        return False


def test_shown() -> None:
    """Consumers of mirrors and sources, and deleted ones, are not counted."""
    table, direct = ConsumerTable(), Listed("direct")
    direct.config = ConsumerConfig(direct=True)
    known: list[Any] = [Listed("a"), Listed("b"), direct]
    for consumer in known:
        table.add(consumer)
    assert (table.shown, len(table)) == (2, 3)
    for consumer in known[1:]:
        table.remove(consumer)
        table.remove(consumer)
    assert (table.shown, len(table)) == (1, 1)


def records(*subjects: bytes) -> list[Record]:
    """Messages with these subjects, from sequence 1 on."""
    return [Record(place, 0, subject, b"", b"") for place, subject in enumerate(subjects, 1)]


def tableOf(*consumers: Any) -> ConsumerTable:
    """A table with these consumers."""
    made = ConsumerTable()
    for consumer in consumers:
        made.add(consumer)
    return made


def test_mapping() -> None:
    """Consumers are found by name. If a consumer was replaced, its removal leaves the new one."""
    first, second, other = Listed("a", b"x"), Listed("a", b"y"), Listed("b")
    made: Any = tableOf(first, other)
    assert (dict(made), len(made)) == ({"a": first, "b": other}, 2)
    made.remove(first)
    made.add(second)
    made.remove(first)
    assert made["a"] is second
    made.stored(records(b"x", b"y"))
    assert (first.handed, second.handed) == ([], [([2], 2)])


def test_stored() -> None:
    """
    Each consumer gets the stored messages that it wants, once. A consumer that wants none is not
    called.
    """
    everything, one, overlapping, none = (
        Listed("e"),
        Listed("o", b"a.1"),
        Listed("v", b"a.*", b"*.1", b"b.>"),
        Listed("n", b"c"),
    )
    made = tableOf(everything, one, overlapping, none)
    made.stored(records(b"a.1", b"b.1", b"d", b"a.2"))
    assert everything.handed == [([1, 2, 3, 4], 4)]
    assert one.handed == [([1], 4)]
    assert overlapping.handed == [([1, 2, 4], 4)]
    assert none.handed == []
    assert made.announced == 4


def test_removed() -> None:
    """
    Removals are announced to consumers that hold messages, and a purge that moves the first
    sequence to all.
    """
    idle, holding = Listed("i"), Listed("h")
    made: Any = tableOf(idle, holding)
    made.removed([1])
    holding.isHolding = True
    made.mayHold(holding)
    for _ in range(2):
        made.removed([2], 2)
    holding.isHolding = False
    made.removed((), 3)
    made.removed([4])
    made.removed([4], 0, True)
    made.removed((), 5, True)
    made.remove(holding)
    made.mayHold(holding)
    made.removed([6])
    assert idle.gone == [([1], 0, False), ((), 5, True)]
    assert holding.gone == [
        ([1], 0, False),
        *[([2], 2, False)] * 2,
        ((), 3, False),
        ((), 5, True),
    ]
    assert made.removals == 6


def test_removedOfOneGroup() -> None:
    """A removal for certain filters is announced only to consumers with one of those filters."""
    wanting, other = Listed("w", b"x"), Listed("o", b"y")
    made: Any = tableOf(wanting, other)
    for consumer in (wanting, other):
        consumer.isHolding = True
    made.removed([5, 4], 0, False, (b"x",))
    assert (wanting.gone, other.gone) == ([([5, 4], 0, False)], [])
    assert (made.removalsOf((b"x",)), made.removalsOf((b"y",))) == ((1, 5), (0, 0))
    made.removed([3], 0, False, (b"z",))
    made.removed([7])
    assert other.gone == wanting.gone[1:] == [([3], 0, False), ([7], 0, False)]
    assert (made.removalsOf((b"x",)), made.removalsOf((b"y",))) == ((3, 7), (2, 7))


def test_evicted() -> None:
    """An eviction is announced only to consumers that hold an evicted message."""
    old, new = Listed("o"), Listed("n")
    old.isHolding = new.isHolding = True
    old.lowest, new.lowest = 5, 9
    made: Any = tableOf(old, new)
    made.removed((), 5)
    assert (old.gone, new.gone) == ([], [])
    made.removed((), 6)
    old.lowest = 7
    made.removed((), 7)
    assert (old.gone, new.gone) == ([((), 6, False), ((), 7, False)], [])
    for _ in range(300):
        new.isHolding = False
        made.removed([12])
        new.isHolding = True
        made.mayHold(new)
    assert len(made._lows) < 100
    old.gone.clear()
    new.lowest = 3  # It was reset.
    made.mayHold(new)
    made.removed((), 4)
    assert (old.gone, new.gone[-1]) == ([], ((), 4, False))
    made.remove(old)
    made.removed((), 90)
    assert (old.gone, new.gone[-1]) == ([], ((), 90, False))


@pytest.mark.parametrize("limits", [{}, {"max_msgs_per_subject": 1}])
def test_sleeping(monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]) -> None:
    """
    A consumer without pull requests stops being handed messages. It still counts them, and delivers
    them at the next request.
    """
    handed: Counter[str] = Counter()
    original = Consumer.stored

    def stored(self: Consumer, records: Sequence[Record], last: int) -> bool:
        handed[self.name] += 1
        return original(self, records, last)

    monkeypatch.setattr(Consumer, "stored", stored)
    stage = ApiStage()
    stage.make(**limits)
    inboxes = {name: stage.inbox(b"_INBOX.%b" % name.encode()) for name in ("idle", "busy")}
    pull = b"$JS.API.CONSUMER.MSG.NEXT.S."
    for name in inboxes:
        config = {"durable_name": name, "ack_policy": "none", "filter_subject": "s.>"}
        stage.ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    stage.send(pull + b"busy", b'{"batch":100,"expires":1000000000000}', b"_INBOX.busy")
    for turn in range(3):
        handed.clear()
        for number in range(10):
            stage.send(b"s.%d" % number)
            stage.settle()
        assert handed["busy"] == 10 and handed["idle"] <= 2
        pending = 10 if limits else 10 * (turn + 1) - turn
        consumer = stage.jetstream.streams["S"].consumers["idle"]
        assert consumer.info()["num_pending"] == pending or limits
        assert stage.ask("CONSUMER.INFO.S.idle")["num_pending"] == pending
        stage.send(pull + b"idle", b'{"batch":1,"no_wait":true}', b"_INBOX.idle")
        stage.settle()
        assert len(inboxes["idle"].got) == turn + 1
    assert len(inboxes["busy"].got) == 30


def test_isWanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subject is wanted if a filter matches it, or a consumer has none."""
    monkeypatch.setattr(table, "_SUBJECTS", 3)
    made: Any = tableOf(Listed("a", b"x.*"))
    for _ in range(2):
        assert [
            made.isWanted(b"%b.%d" % (token, n)) for n in range(9) for token in (b"x", b"y")
        ] == [
            True,
            False,
        ] * 9
    consumer = Listed("b")
    made.add(consumer)
    assert made.isWanted(b"y.1")
    made.remove(consumer)
    assert not made.isWanted(b"y.1")


def test_refiltered() -> None:
    """New filters apply at once. A consumer that is not in the table stays outside."""
    consumer, gone = Listed("a", b"x"), Listed("g", b"x")
    made: Any = tableOf(consumer)
    assert made.isWanted(b"x")
    consumer.filters = (b"y", b"z")
    made.refiltered(consumer, (b"x",))
    assert [made.isWanted(subject) for subject in (b"x", b"y", b"z")] == [False, True, True]
    consumer.filters = ()
    made.refiltered(consumer, (b"y", b"z"))
    assert made.isWanted(b"x")
    gone.filters = (b"q",)
    consumer.filters = (b"y",)
    made.refiltered(consumer, ())
    made.refiltered(gone, (b"x",))
    assert not made.isWanted(b"q")


SUBJECTS = [b"s.%d.%d" % (one, two) for one in range(3) for two in range(3)]
FILTERS = (b"s.0.0", b"s.*.1", b"s.1.>", b"s.>", b"s.2.2", b"s.9.9")


def disjoint(random: Random) -> list[bytes]:
    """Random filters that do not overlap, possibly none."""
    chosen: list[bytes] = []
    for pattern in random.sample(FILTERS, len(FILTERS)):
        if random.random() < 0.5 and not any(overlaps(pattern, one) for one in chosen):
            chosen.append(pattern)
    return chosen


class Histories:
    """A stream with several consumers, and the messages that each of them has to deliver."""

    def __init__(self, random: Random, limits: dict[str, int]) -> None:
        self.random = random
        self.stage = ApiStage()
        self.stage.make(**limits)
        self.stream: Any = self.stage.jetstream.streams["S"]
        self.filters = {f"c{number}": disjoint(random) for number in range(6)}
        self.inboxes = {
            name: self.stage.inbox(b"_INBOX.%b" % name.encode()) for name in self.filters
        }
        self.isPerSubject = "max_msgs_per_subject" in limits
        self.forgetful = {name for name in self.filters if random.random() < 0.5}
        self.stored: dict[int, bytes] = {}
        for name, filters in self.filters.items():
            config = {
                "durable_name": name,
                "ack_policy": "none" if name in self.forgetful else "explicit",
                "filter_subjects": [pattern.decode() for pattern in filters],
            }
            body = {"stream_name": "S", "config": config}
            assert "error" not in self.stage.ask(f"CONSUMER.CREATE.S.{name}", body)

    def publish(self) -> None:
        """Some messages, in one batch or in several."""
        for _ in range(self.random.randrange(1, 5)):
            subject = self.random.choice(SUBJECTS)
            self.stage.send(subject)
            if self.random.random() < 0.5:
                self.stage.settle()
            self.stored[len(self.stored) + 1] = subject

    def pull(self) -> None:
        """Send a pull request, with no_wait or an expiry."""
        name = self.random.choice(list(self.filters)).encode()
        wait = self.random.choice((b'"no_wait":true', b'"expires":1000000000000'))
        body = b'{"batch":%d,%b}' % (self.random.randrange(1, 6), wait)
        self.stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S." + name, body, b"_INBOX." + name)

    def delete(self) -> None:
        """Delete a stored message, if there is one."""
        if self.stored:
            sequence = self.random.choice(list(self.stored))
            self.stage.ask("STREAM.MSG.DELETE.S", {"seq": sequence})

    def check(self) -> None:
        """Check that each consumer has delivered its messages, and counts the rest as pending."""
        self.stage.settle()
        kept = self.stage.wait(self.stream.read((), 1, 1 << 20)).records
        for name, filters in self.filters.items():
            wanted = {
                sequence
                for sequence, subject in self.stored.items()
                if any(matches(pattern, subject) for pattern in filters or (b">",))
            }
            there = wanted & {record.sequence for record in kept}
            delivered = [
                int(message.reply.split(b".")[5])
                for message in self.inboxes[name].got
                if message.reply
            ]
            assert delivered == sorted(set(delivered)) and wanted.issuperset(delivered)
            left = {sequence for sequence in there if sequence > max(delivered, default=0)}
            assert there - left <= set(delivered)
            info = self.stage.ask(f"CONSUMER.INFO.S.{name}")
            assert info["num_pending"] == len(left)
            held = set(delivered) & there if name not in self.forgetful else ()
            assert info["num_ack_pending"] == len(held) or self.isPerSubject


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limits", [{}, {"max_msgs_per_subject": 1}, {"max_msgs": 9}])
def test_anyOrder(seed: int, limits: dict[str, int]) -> None:
    """
    With any filters, and publishes, pulls and deletions in any order, consumers deliver each wanted
    message once and in order.
    """
    random = Random(seed)
    histories = Histories(random, limits)
    steps = [histories.publish, histories.pull, histories.delete]
    for _ in range(150):
        random.choices(steps, (6, 4, 1))[0]()
        if random.random() < 0.3:
            histories.check()
    histories.check()


MANY = tuple(b"x.%d.*" % number for number in range(2 * PIECE + 1))


def test_prepared() -> None:
    """
    The filters of a consumer are indexed in steps before it is added. It gets no messages before.
    """
    made: Any = ConsumerTable()
    first = Listed("a", *MANY)
    steps = made.prepare(MANY)
    assert sum(1 for _ in steps) >= 3
    assert not made.isWanted(b"x.1.y")
    made.add(first)
    assert made.isWanted(b"x.1.y") and made.isWanted(b"x.%d.y" % (2 * PIECE))
    made.release(MANY)
    made.stored(records(b"x.1.y", b"q"))
    assert first.handed == [([1], 2)]


def test_preparedAtOnce() -> None:
    """Two consumers with the same filters can be prepared at the same time."""
    made: Any = ConsumerTable()
    for _ in zip(made.prepare(MANY), made.prepare(MANY), strict=False):
        pass
    made.add(Listed("a", *MANY))
    made.release(MANY)
    made.remove(made["a"])
    made.add(Listed("b", *MANY))
    made.release(MANY)
    assert made.isWanted(b"x.1.y")
    made.remove(made["b"])
    assert not made.isWanted(b"x.1.y")


def test_filtersLeaveInSteps() -> None:
    """
    The filters of a removed consumer leave the index in steps. Equal filters of a new consumer stay
    in the index.
    """
    later: list[Steps[None]] = []
    made: Any = ConsumerTable(later.append)
    first, second = Listed("a", *MANY), Listed("b", *MANY)
    made.add(first)
    made.remove(first)
    assert not made.isWanted(b"x.1.y")
    made.stored(records(b"x.1.y"))
    made.add(second)
    (steps,) = later
    assert sum(1 for _ in steps) == 3
    made.stored(records(b"x.1.y"))
    assert (first.handed, second.handed) == ([], [([1], 1)])


def test_refusedAfterPreparation() -> None:
    """
    Filters that were prepared for a refused consumer leave the index, unless another consumer has
    them.
    """
    later: list[Steps[None]] = []
    made: Any = ConsumerTable(later.append)
    finish(made.prepare(MANY))
    made.release(MANY)
    assert len(later) == 1
    made.add(Listed("a", *MANY))
    finish(later[0])
    assert made.isWanted(b"x.1.y")
