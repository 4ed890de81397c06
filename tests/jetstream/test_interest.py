"""
Watching the interest in single subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from natsbroker.jetstream.interest import SubjectInterest
from natsbroker.pure.backlog import WorkQueue
from natsbroker.steps import PIECE
from natsbroker.wire.values import Kind
from tests.counting import callsOf
from tests.jetstream.support import Inbox, Stage


def test_literal() -> None:
    """The watcher learns the present interest, then each change."""
    stage = Stage()
    seen: list[bool] = []
    end = stage.jetstream.watchInterest(b"a.b", b"", seen.append)
    subscription = stage.bus.subscribe(b"a.b", Inbox())
    other = stage.bus.subscribe(b"a.b", Inbox())
    subscription.cancel()
    assert seen == [False, True]
    other.cancel()
    assert seen == [False, True, False]
    end()
    stage.bus.subscribe(b"a.b", Inbox())
    assert seen == [False, True, False]


def test_queueGroup() -> None:
    """Watching a queue group ignores other subscriptions to the subject."""
    stage = Stage()
    seen: list[bool] = []
    stage.jetstream.watchInterest(b"a", b"q", seen.append)
    stage.bus.subscribe(b"a", Inbox())
    stage.bus.subscribe(b"a", Inbox(), queue=b"other")
    assert seen == [False]
    stage.bus.subscribe(b"a", Inbox(), queue=b"q").cancel()
    assert seen == [False, True, False]


def test_wildcards() -> None:
    """As in nats-server, a client's subscription with a wildcard is no interest."""
    stage = Stage()
    plain: list[bool] = []
    grouped: list[bool] = []
    stage.jetstream.watchInterest(b"a.b", b"", plain.append)
    stage.jetstream.watchInterest(b"a.b", b"q", grouped.append)
    stage.bus.subscribe(b"a.*", Inbox())
    stage.bus.subscribe(b"a.>", Inbox(), queue=b"q")
    assert (plain, grouped) == ([False], [False])
    stage.bus.subscribe(b"a.b", Inbox(), queue=b"q")
    assert (plain, grouped) == ([False], [False, True])


def test_streams() -> None:
    """A stream with a wildcard subject is no interest."""
    stage = Stage()
    stage.stream(subjects=("s.>", "t"))
    seen: list[bool] = []
    stage.jetstream.watchInterest(b"s.a", b"", seen.append)
    stage.jetstream.watchInterest(b"t", b"", seen.append)
    assert seen == [False, True]


def test_amongMany(monkeypatch: pytest.MonkeyPatch) -> None:
    """The existing subscriptions are counted in steps. Changes during the count are reported."""
    stage = Stage()
    subjects = [b"a.%d" % number for number in range(3000)]
    subscriptions = [stage.bus.subscribe(subject, Inbox()) for subject in subjects]
    counting: list[Iterator[object]] = []
    monkeypatch.setattr(WorkQueue, "exhaust", lambda _, steps: counting.append(steps))
    seen: dict[bytes, list[bool]] = {}

    def watch(subject: bytes) -> Callable[[], None]:
        return stage.jetstream.watchInterest(
            subject, b"", seen.setdefault(subject, list[bool]()).append
        )

    for subject in (b"a.7", b"a.8", b"b", b"c"):
        watch(subject)
    (steps,) = counting
    for _ in range(100):
        next(steps)
    subscriptions[8].cancel()
    subscriptions[2999].cancel()
    watch(b"a.2999")
    stage.bus.subscribe(b"b", Inbox())
    assert sum(1 for _ in steps) > 1000
    expected = {b"a.7": [True], b"a.8": [True, False], b"b": [False, True], b"c": [False]}
    assert seen == {**expected, b"a.2999": [False]}
    subscriptions[7].cancel()
    assert seen[b"a.7"] == [True, False]


def test_goneMeanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a subscription ends before it is counted, the loss of interest is reported."""
    stage = Stage()
    subscription = stage.bus.subscribe(b"a", Inbox())
    counting: list[Iterator[object]] = []
    monkeypatch.setattr(WorkQueue, "exhaust", lambda _, steps: counting.append(steps))
    seen: list[bool] = []
    stage.jetstream.watchInterest(b"a", b"", seen.append)
    subscription.cancel()
    for _ in counting[0]:
        pass
    assert seen == [True, False]


def test_manyWatches() -> None:
    """A new subscription with wildcards is not compared with every watched subject."""
    stage = Stage()
    seen: list[bool] = []
    for number in range(5000):
        stage.jetstream.watchInterest(b"box.%d.x" % number, b"", seen.append)
    inbox = Inbox()
    calls = callsOf(lambda: stage.bus.subscribe(b"other.>", inbox).cancel())
    assert calls < 2000


def test_manyMatches() -> None:
    """Very many subjects that a pattern matches are looked at in steps, and each counts."""
    stage = Stage()
    works: list[Iterator[None]] = []
    interest = SubjectInterest(stage.bus, works.append)
    seen: list[bool] = []
    subjects = [b"box.%d.x" % number for number in range(10 * PIECE)]
    for subject in subjects:
        interest.watch(subject, b"", seen.append)
    for steps in works:
        assert not list(filter(None, steps))
    works.clear()
    seen.clear()
    remote, inbox = stage.account.busFor(Kind.ROUTE), Inbox()
    subscription = remote.subscribe(b"box.*.x", inbox)
    (steps,) = works
    next(steps)
    assert seen == [True] * PIECE
    subscription.cancel()
    assert works == [steps]
    assert sum(1 for _ in steps) > 10
    assert seen == [True] * PIECE + [False] * PIECE
    interest.close()
