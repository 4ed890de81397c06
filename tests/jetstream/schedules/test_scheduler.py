"""
The messages of schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from natsbroker.connections.turns import AccountTurns
from natsbroker.interfaces.records import Record, StoreFailed, StoreFull
from natsbroker.jetstream.model.streamconfig import StorageType
from natsbroker.jetstream.schedules.scheduler import NOTE, TOGETHER, producedHeaders
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.pure.backlog import SHARE
from tests.jetstream.support import Stage

# The stage begins at 2023-11-14T22:13:20Z.
_AT = {"Nats_Schedule": "@at 2023-11-14T22:13:25Z", "Nats_Schedule_Target": "s.target"}
_EVERY = {"Nats_Schedule": "@every 10s", "Nats_Schedule_Target": "s.target"}


def _stream(stage: Stage, **config: object) -> Stream:
    return stage.stream(
        **{
            "allow_msg_schedules": True,
            "allow_rollup_hdrs": True,
            "allow_msg_ttl": True,
            **config,
        }
    )


def _pass(stage: Stage, seconds: float) -> None:
    stage.clock.advance(seconds)
    stage.settle()


def _again(stage: Stage, stream: Stream) -> Stream:
    """The stream after a restart."""
    stream.close()
    opened = Stream(stage.jetstream, stream.config, 1, stream.log)
    stage.jetstream.streams[stream.name] = opened
    stage.wait(opened.applyConfig(opened.config))
    return opened


def test_producedHeaders() -> None:
    """
    A scheduled message keeps the headers of its schedule, except for those of schedules, ids,
    rollups and times to live.
    """
    schedule = Record(
        1,
        0,
        b"s.a",
        b"NATS/1.0\r\nA: b\r\nNats-Schedule: @every 1s\r\nNats-Schedule-TTL: 5m\r\n"
        b"Nats-Schedule-Rollup: sub\r\nNats-Msg-Id: 1\r\nNats-TTL: 1h\r\nNats-Rollup: sub\r\n\r\n",
        b"",
    )
    tail = (
        b"Nats-Scheduler: s.a\r\nNats-Schedule-Next: n\r\nNats-TTL: 5m\r\nNats-Rollup: sub\r\n\r\n"
    )
    assert producedHeaders(schedule, schedule, b"n") == b"NATS/1.0\r\nA: b\r\n" + tail
    origin = schedule._replace(headers=b"")
    assert producedHeaders(schedule, origin, b"n") == b"NATS/1.0\r\n" + tail


@pytest.mark.parametrize("storage", list(StorageType))
def test_once(storage: StorageType) -> None:
    """A message with a single time is published then, and its schedule is removed."""
    stage = Stage()
    stream = _stream(stage, storage=storage)
    stage.publish(b"s.a", b"body", A="b", **_AT)
    _pass(stage, 4.9)
    assert [entry[0] for entry in stage.stored(stream)] == [1]
    _pass(stage, 0.1)
    assert stage.stored(stream) == [(2, b"s.target", b"body")]
    record = stage.wait(stream.get(2))
    assert record is not None
    assert record.headers == (
        b"NATS/1.0\r\nA: b\r\nNats-Scheduler: s.a\r\nNats-Schedule-Next: purge\r\n\r\n"
    )
    _pass(stage, 100)
    assert stream.last == 2


def test_manyAtStart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a stream with hundreds of schedules takes several turns."""
    stage = Stage()
    stream = _stream(stage)
    for number in range(300):
        stage.publish(b"s.%d" % number, b"body", **_AT)
    take, costs = AccountTurns.take, list[int]()

    def note(turns: AccountTurns, cost: int = 0) -> Deferred[None]:
        costs.append(cost)
        return take(turns, cost)

    monkeypatch.setattr(AccountTurns, "take", note)
    _again(stage, stream)
    assert sum(costs) >= 300 * NOTE
    assert max(costs) <= SHARE // 2


def test_repeated() -> None:
    """
    A repeated schedule publishes a message each time, with the time of the next one in a header.
    """
    stage = Stage()
    stream = _stream(stage)
    stage.publish(b"s.a", b"body", **_EVERY)
    for _ in range(30):
        _pass(stage, 1)
    assert [entry[:2] for entry in stage.stored(stream)] == [
        (1, b"s.a"),
        (2, b"s.target"),
        (3, b"s.target"),
        (4, b"s.target"),
    ]
    record = stage.wait(stream.get(4))
    assert record is not None
    assert b"Nats-Schedule-Next: 2023-11-14T22:14:00Z\r\n" in record.headers


def test_inThePast() -> None:
    """A schedule with a past time is due at once."""
    stage = Stage()
    stream = _stream(stage)
    stage.publish(b"s.a", b"x", **{**_AT, "Nats_Schedule": "@at 2009-11-10T23:00:00Z"})
    assert [record[0] for record in stage.stored(stream)] == [1]
    _pass(stage, 0.25)
    assert [record[0] for record in stage.stored(stream)] == [2]


def test_source() -> None:
    """
    A schedule with a source publishes a copy of the source's last message, or else its own payload.
    """
    stage = Stage()
    stream = _stream(stage)
    stage.publish(b"s.a", b"own", Nats_Schedule_Source="s.source", **_EVERY)
    _pass(stage, 10)
    stage.publish(b"s.source", b"old")
    stage.publish(b"s.source", b"new", B="c")
    _pass(stage, 10)
    bodies = [entry[2] for entry in stage.stored(stream) if entry[1] == b"s.target"]
    assert bodies == [b"own", b"new"]
    record = stage.wait(stream.get(5))
    assert record is not None
    assert record.headers.startswith(b"NATS/1.0\r\nB: c\r\nNats-Scheduler: s.a\r\n")


@pytest.mark.parametrize("how", ["purge", "delete", "replace", "end"])
def test_ends(how: str) -> None:
    """A schedule that was removed, replaced or ended publishes nothing."""
    stage = Stage()
    stream = _stream(stage)
    stage.publish(b"s.a", b"x", **_AT)
    if how == "purge":
        stage.wait(stream.purge(b"s.>"))
    elif how == "delete":
        stage.wait(stream.remove([1]))
    elif how == "replace":
        stage.publish(b"s.a", b"no schedule")
    else:
        stage.publish(b"s.b", b"x", Nats_Schedule_Next="purge", Nats_Scheduler="s.a")
    for _ in range(10):
        _pass(stage, 1)
    assert b"s.target" not in [record[1] for record in stage.stored(stream)]


def test_restart() -> None:
    """Messages that became due while the broker was stopped are published once after its start."""
    stage = Stage()
    stream = _stream(stage)
    stage.publish(b"s.a", b"x", **_EVERY)
    stage.publish(b"s.b", b"x", **_AT)
    _pass(stage, 11)
    assert stream.last == 4
    stage.publish(b"s.c", b"x", **{**_AT, "Nats_Schedule": "@at 2023-11-14T22:14:00Z"})
    stream = _again(stage, stream)
    _pass(stage, 3)
    assert stream.last == 5
    stream.close()
    _pass(stage, 60)
    stream = _again(stage, stream)
    _pass(stage, 0.25)
    assert [record[:2] for record in stage.stored(stream)][-2:] == [
        (6, b"s.target"),
        (7, b"s.target"),
    ]
    _pass(stage, 8)
    assert stream.last == 7


def test_endsAfterCrash() -> None:
    """
    After a crash between publishing a message and removing its schedule, the schedule is removed
    without another message.
    """
    stage = Stage()
    stream = _stream(stage)
    stage.publish(b"s.a", b"x", **_AT)
    headers = b"NATS/1.0\r\nNats-Scheduler: s.a\r\nNats-Schedule-Next: purge\r\n\r\n"
    stored = len(headers).to_bytes(4, "big") + headers if stream.isInFile else headers
    others = [(b"s.other", b"", b"", 0)] * 200
    stage.wait(stream.log.append([(b"s.target", stored, b"x", 0), *others]))
    stream = _again(stage, stream)
    _pass(stage, 1)
    assert (stream.first, stream.messages) == (2, 201)
    stage.wait(stream.remove([2]))
    stream = _again(stage, stream)
    _pass(stage, 100)
    assert stream.last == 202


@pytest.mark.parametrize("storage", list(StorageType))
def test_many(storage: StorageType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many due messages are published with one append, and removed with one deletion."""
    stage = Stage()
    stream = _stream(stage, storage=storage)
    for number in range(TOGETHER + 10):
        stage.publish(b"s.%d" % number, b"%d" % number, **_AT)
    calls: list[tuple[str, int]] = []
    for name in ("append", "delete"):
        real = getattr(stream.log, name)

        def note(given: Sequence[object], name: str = name, real: Any = real) -> Any:
            if given:
                calls.append((name, len(given)))
            return real(given)

        monkeypatch.setattr(stream.log, name, note)
    _pass(stage, 5)
    assert calls == [("append", TOGETHER), ("delete", TOGETHER), ("append", 10), ("delete", 10)]
    stored = stage.stored(stream)
    assert [message[2] for message in stored] == [b"%d" % number for number in range(TOGETHER + 10)]
    assert {message[1] for message in stored} == {b"s.target"}


@pytest.mark.parametrize("isBefore", [True, False])
def test_replacedMeanwhile(isBefore: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a schedule is replaced while its due message is being stored, the message is not published.
    """
    stage = Stage()
    stream = _stream(stage)
    for number in range(3):
        stage.publish(b"s.%d" % number, b"old", **_AT)
    learn, append = stream.publisher.learn, stream.log.append
    waiting: list[Deferred[None]] = []

    def appended(batch: Sequence[Any]) -> Any:
        if batch and batch[0][2] == b"new":
            waiting.append(Deferred())
            return append(batch).addCallback(
                lambda result: waiting[0].addCallback(lambda _: result)
            )
        return append(batch)

    def replace(result: Any = None) -> None:
        stream.publisher.take(b"s.1", b"", b"", b"new")
        stream.publisher.flush()

    def learned(lasts: Any) -> Any:
        if isBefore:
            return learn(lambda: replace() or lasts())  # type: ignore[func-returns-value]
        return learn(lasts).addCallback(replace)

    monkeypatch.setattr(stream.log, "append", appended)
    stream.publisher.learn = learned  # type: ignore[method-assign]
    _pass(stage, 5)
    waiting[0].callback(None)
    stage.settle()
    bodies = [message[1:] for message in stage.stored(stream)]
    assert bodies.count((b"s.target", b"old")) == 2
    assert (b"s.1", b"new") in bodies


def test_storeIsFull(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishing a due message is repeated until the store can write it, and read its schedule."""
    stage = Stage()
    stream = _stream(stage)
    stage.publish(b"s.a", b"x", **_AT)
    with monkeypatch.context() as patch:
        patch.setattr(
            stream.log,
            "append",
            lambda batch: fail(StoreFull("full")) if batch else succeed(None),
        )
        _pass(stage, 5)
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "read", lambda *_: fail(StoreFailed("broken")))
        _pass(stage, 2)
    assert stream.last == 1
    _pass(stage, 2)
    assert stage.stored(stream) == [(2, b"s.target", b"x")]
