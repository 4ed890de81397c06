"""
Watching the interest in single subjects.
"""

from __future__ import annotations

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
    """A watch of a queue group disregards other subscriptions."""
    stage = Stage()
    seen: list[bool] = []
    stage.jetstream.watchInterest(b"a", b"q", seen.append)
    stage.bus.subscribe(b"a", Inbox())
    stage.bus.subscribe(b"a", Inbox(), queue=b"other")
    assert seen == [False]
    stage.bus.subscribe(b"a", Inbox(), queue=b"q").cancel()
    assert seen == [False, True, False]


def test_wildcards() -> None:
    """As in nats-server, a client that subscribes to a pattern is no interest."""
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
    """A stream that stores a pattern is no interest in a subject."""
    stage = Stage()
    stage.stream(subjects=("s.>", "t"))
    seen: list[bool] = []
    stage.jetstream.watchInterest(b"s.a", b"", seen.append)
    stage.jetstream.watchInterest(b"t", b"", seen.append)
    assert seen == [False, True]
