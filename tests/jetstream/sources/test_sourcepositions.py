"""
The positions of sources when the broker starts again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.model import gojson
from natsbroker.jetstream.model.documents import toJSON
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.jetstream.sources import sourcepositions
from natsbroker.jetstream.sources.sourcepositions import (
    LATE,
    SourcePosition,
    SourcePositions,
    positionKey,
)
from natsbroker.jetstream.streams.publishanswers import ReadMessage, StreamBatch
from natsbroker.jetstream.streams.stream import Stream, positionsKey
from natsbroker.steps import PIECE
from tests.jetstream.api.support import ApiStage
from tests.jetstream.sources.test_sourcing import settleFor, sourced
from tests.jetstream.streams.test_recovery import restarted
from tests.jetstream.support import SECOND, filled


def staged(*sources: dict[str, Any], **config: Any) -> ApiStage:
    """A stage on which C{T} has taken five messages from C{S}."""
    stage = ApiStage()
    stage.make()
    filled(stage)
    stage.clock.advance(1)
    sourced(stage, *(sources or ({"name": "S"},)), **config)
    return stage


def target(stage: ApiStage) -> Stream:
    return stage.jetstream.streams["T"]


def consume(stage: ApiStage, name: str, **config: Any) -> None:
    config = {"durable_name": name, "ack_policy": "explicit", **config}
    answer = stage.ask(f"CONSUMER.CREATE.T.{name}", {"stream_name": "T", "config": config})
    assert "error" not in answer


def acknowledge(stage: ApiStage, name: str) -> list[bytes]:
    """Take everything from a consumer, and acknowledge it."""
    inbox = stage.inbox(b"_INBOX.pull")
    body = json.dumps({"batch": 100, "no_wait": True}).encode()
    stage.send(f"$JS.API.CONSUMER.MSG.NEXT.T.{name}".encode(), body, b"_INBOX.pull")
    stage.settle()
    messages = [message for message in inbox.got if message.reply]
    for message in messages:
        stage.send(message.reply, b"+ACK")
    stage.settle()
    stage.clock.advance(1)
    stage.settle()
    return [message.payload for message in messages]


def workQueue(stage: ApiStage) -> None:
    acknowledge(stage, "c")


def purge(stage: ApiStage) -> None:
    stage.ask("STREAM.PURGE.T")


def purgeSubjects(stage: ApiStage) -> None:
    for subject in ("s.a", "s.b"):
        stage.ask("STREAM.PURGE.T", {"filter": subject})


def delete(stage: ApiStage) -> None:
    for sequence in range(1, 6):
        stage.ask("STREAM.MSG.DELETE.T", {"seq": sequence})


def grow(stage: ApiStage) -> None:
    for _ in range(5):
        stage.publish(b"t", b"own")


def replace(stage: ApiStage) -> None:
    for subject in (b"t.a", b"t.b"):
        stage.publish(subject, b"own")


def rollUp(stage: ApiStage) -> None:
    stage.publish(b"t", b"all", Nats_Rollup="all")


def age(stage: ApiStage) -> None:
    stage.clock.advance(2)
    stage.settle()


EMPTIED: dict[str, tuple[dict[str, Any], Callable[[ApiStage], None]]] = {
    "work queue": ({"retention": "workqueue"}, workQueue),
    "interest": ({"retention": "interest"}, workQueue),
    "purge": ({}, purge),
    "purge of subjects": ({}, purgeSubjects),
    "delete": ({}, delete),
    "age": ({"max_age": SECOND}, age),
    "count": ({"max_msgs": 3, "subjects": ["t"]}, grow),
    "bytes": ({"max_bytes": 100, "subjects": ["t"]}, grow),
    "subjects": ({"max_msgs_per_subject": 1, "subjects": ["t.>"]}, replace),
    "rollup": ({"allow_rollup_hdrs": True, "subjects": ["t"]}, rollUp),
}


@pytest.mark.parametrize("how", EMPTIED)
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_nothingLeft(how: str, storage: str) -> None:
    """
    A stream that lost all messages of its source continues at its stored position after a restart.
    """
    config, empty = EMPTIED[how]
    source: dict[str, Any] = {"name": "S"}
    if how == "subjects":
        source["subject_transforms"] = [{"src": "s.*", "dest": "t.{{wildcard(1)}}"}]
    stage = ApiStage()
    stage.make()
    stage.ask("STREAM.CREATE.T", {"name": "T", "sources": [source], "storage": storage, **config})
    if "retention" in config:
        consume(stage, "c")
    filled(stage)
    settleFor(stage, 1)
    assert target(stage).last >= 5
    empty(stage)
    assert not [record for record in stage.stored(target(stage)) if record[2] in (b"a", b"b")]
    before, last = stage.stored(target(stage)), target(stage).last
    if storage == "file":
        restarted(stage)
    settleFor(stage, 30)
    assert (stage.stored(target(stage)), target(stage).last) == (before, last)
    stage.publish(b"s.c", b"new")
    settleFor(stage, 15)
    assert target(stage).last == last + 1
    if how != "age":
        assert stage.stored(target(stage))[-1][2] == b"new"


def test_nobodyWanted() -> None:
    """Messages that no consumer wanted are not taken again after a restart."""
    stage = staged(retention="interest")
    assert (target(stage).messages, target(stage).last) == (0, 5)
    restarted(stage)
    consume(stage, "c")
    settleFor(stage, 30)
    assert target(stage).last == 5


def test_duplicates() -> None:
    """A message that was dropped as a duplicate is not taken again after the duplicate window."""
    stage = ApiStage()
    stage.make()
    sourced(stage, {"name": "S"}, subjects=["t"], duplicate_window=100 * SECOND)
    stage.publish(b"t", b"own", Nats_Msg_Id="1")
    stage.publish(b"s.a", b"a", Nats_Msg_Id="1")
    stage.settle()
    assert target(stage).last == 1
    restarted(stage)
    settleFor(stage, 300)
    assert target(stage).last == 1


def test_severalOfOneOrigin() -> None:
    """Sources of one origin that differ in their filters have separate positions."""
    transform = {"src": "s.b", "dest": "z.b"}
    stage = staged(
        {"name": "S", "filter_subject": "s.a"},
        {"name": "S", "subject_transforms": [transform]},
    )
    stage.ask("STREAM.PURGE.T", {"filter": "s.a"})
    restarted(stage)
    settleFor(stage, 30)
    assert [record[1] for record in stage.stored(target(stage))] == [b"z.b", b"z.b"]
    shown = stage.ask("STREAM.INFO.T")["sources"]
    assert [source["seq"] for source in shown] == [5, 4]


def test_severalPushEachOtherOut() -> None:
    """A source whose messages were all evicted by those of another is not read again."""
    stage = ApiStage()
    for name in "RS":
        stage.make(name=name, subjects=[f"{name}.>"])
    sourced(stage, {"name": "R"}, {"name": "S"}, max_msgs=3)
    for _ in range(5):
        stage.publish(b"R.a")
    settleFor(stage, 1)
    for _ in range(5):
        stage.publish(b"S.a")
    settleFor(stage, 1)
    assert {record[1] for record in stage.stored(target(stage))} == {b"S.a"}
    restarted(stage)
    settleFor(stage, 30)
    assert target(stage).last == 10


@pytest.mark.parametrize(
    ("config", "isLimited"),
    [
        ({}, False),
        ({"max_msgs": 5}, True),
        ({"max_msgs": 5, "discard": "new"}, False),
        ({"max_msgs_per_subject": 1}, True),
    ],
)
def test_areApart(config: dict[str, Any], isLimited: bool) -> None:
    """In a stream with a limit, messages of different sources are appended separately."""
    stage = staged({"name": "R"}, {"name": "S"}, subjects=["t"], **config)
    reader: Any = None
    first, second = (ReadMessage(reader, 0, 1, 0, None, key) for key in ("R > >", "S > >"))
    areApart = target(stage).sources.areApart
    assert [areApart(first, second), areApart(first, None)] == [isLimited] * 2
    assert not any([areApart(first, first), areApart(None, first), areApart(None, None)])


def test_otherFilter() -> None:
    """A source with a new filter begins after the newest message of the stream."""
    stage = staged({"name": "S", "filter_subject": "s.a"})
    purge(stage)
    stage.clock.advance(1)
    source = {"name": "S", "filter_subject": "s.b"}
    stage.ask("STREAM.UPDATE.T", {"name": "T", "sources": [source]})
    settleFor(stage, 15)
    assert target(stage).last == 3
    stage.publish(b"s.b", b"new")
    settleFor(stage, 15)
    assert stage.stored(target(stage)) == [(4, b"s.b", b"new")]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ({}, 3),
        ({"opt_start_seq": 2}, 4),
        ({"opt_start_time": "2020-01-01T00:00:00Z"}, 3),
        ({"opt_start_time": "2023-11-14T22:13:50Z"}, 1),
    ],
)
def test_begins(source: dict[str, Any], count: int) -> None:
    """
    A new source begins where its configuration says. Messages that the stream takes meanwhile do
    not change that.
    """
    stage = ApiStage()
    stage.make()
    filled(stage)
    stage.make(name="T", subjects=["t"])
    stage.clock.advance(10)
    stage.publish(b"t")
    purge(stage)
    stage.clock.advance(1)
    stage.publish(b"s.x", b"1")
    stage.clock.advance(10)
    stage.publish(b"s.x", b"2")
    stage.clock.advance(10)
    stage.publish(b"s.x", b"3")
    update = {"name": "T", "subjects": ["t"], "sources": [{"name": "S", **source}]}
    stage.ask("STREAM.UPDATE.T", update)
    settleFor(stage, 15)
    assert stage.jetstream.streams["S"].last == 8
    if "opt_start_seq" in source:
        count = 7
    assert target(stage).last == 1 + count


def test_startIsKept() -> None:
    """A source whose origin is missing keeps its start, over restarts, until the origin exists."""
    stage = ApiStage()
    stage.make(name="T", subjects=["t"], sources=[{"name": "S"}])
    settleFor(stage, 5)
    stage.publish(b"t")
    purge(stage)
    restarted(stage)
    stage.make()
    filled(stage)
    stage.clock.advance(1)
    stage.publish(b"t")
    settleFor(stage, 60)
    assert target(stage).messages == 6


def test_withoutState() -> None:
    """A stream without stored positions continues after the newest message of its source."""
    stage = staged()
    stage.clock.advance(2 * LATE)
    states = target(stage).states
    stage.wait(states.delete(positionsKey("T")))
    restarted(stage)
    settleFor(stage, 30)
    assert target(stage).last == 5


def test_deleted() -> None:
    """A stream that is deleted and created again reads its source from the beginning."""
    stage = staged()
    purge(stage)
    stage.ask("STREAM.DELETE.T")
    assert positionsKey("T") not in stage.wait(stage.jetstream.states.load())
    assert sourced(stage, {"name": "S"}).messages == 5


def test_recreatedOrigin() -> None:
    """The position of a source is dropped when the origin is deleted and created again."""
    stage = staged()
    purge(stage)
    stage.ask("STREAM.DELETE.S")
    stage.clock.advance(1)
    stage.make()
    stage.publish(b"s.a", b"new")
    restarted(stage)
    settleFor(stage, 30)
    assert [record[2] for record in stage.stored(target(stage))] == [b"new"]


class Calls:
    """A record of the appends and removals of logs, and of written positions, in order."""

    def __init__(self, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self._note(type(stream.log), "append", "delete", "discardBefore", monkeypatch=monkeypatch)
        states: Any = stream.states
        self._note(type(states._states), "change", monkeypatch=monkeypatch)

    def _note(self, kind: type, *names: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in names:
            real = getattr(kind, name)

            def noted(this: Any, *args: Any, real: Any = real, name: str = name) -> Any:
                if args[0] and (name != "change" or positionsKey("T") in args[0]):
                    self.made.append(name)
                return real(this, *args)

            monkeypatch.setattr(kind, name, noted)


class TestWrites:
    """When positions are written."""

    def test_beforeRemovals(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Positions are written once before the removals that make them necessary."""
        stage = staged()
        calls = Calls(target(stage), monkeypatch)
        stage.wait(target(stage).remove([5, 4]))
        stage.wait(target(stage).remove([3]))
        assert calls.made == ["change", "delete", "delete"]

    def test_positionsAreWrittenSeldom(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """New messages of a source cause one write of its position after a delay, not one each."""
        stage = staged()
        stage.clock.advance(LATE)
        stage.settle()
        calls = Calls(target(stage), monkeypatch)
        for _ in range(20):
            stage.publish(b"s.a")
        stage.settle()
        assert set(calls.made) == {"append"}
        stage.clock.advance(LATE)
        stage.settle()
        assert calls.made.count("change") == 1

    def test_beforeOthersPushOut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Positions are written before an append that evicts messages."""
        stage = staged(max_msgs=5, subjects=["t"])
        calls = Calls(target(stage), monkeypatch)
        for _ in range(4):
            stage.publish(b"t")
        assert calls.made == ["append"] * 4
        stage.publish(b"t")
        assert calls.made == ["append"] * 4 + ["change", "append"]


def test_unknownOutcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that the store kept although it reported a failure is not taken again."""
    stage = staged(subjects=["t"])
    log = target(stage).log
    real, failing = type(log).append, [True]

    def append(this: Any, batch: Any) -> Deferred[Any]:
        done: Deferred[Any] = real(this, batch)
        if this is not log or not failing:
            return done
        return fail(StoreFailed("the connection is lost"))

    monkeypatch.setattr(type(log), "append", append)
    stage.publish(b"s.a", b"6")
    stage.settle()
    failing.clear()
    assert target(stage).last == 6
    stage.wait(target(stage).remove(range(1, 7)))
    stage.publish(b"s.a", b"7")
    settleFor(stage, 3)
    assert [record[2] for record in stage.stored(target(stage))] == [b"7"]
    stage.wait(target(stage).remove([7]))
    restarted(stage)
    settleFor(stage, 30)
    assert target(stage).last == 7


def test_outcomeLearnedLate(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    After a failure of the store, a source is read again only when it is known which messages the
    store kept.
    """
    stage = staged(subjects=["t"])
    log = target(stage).log
    real, find = type(log).append, SourcePositions.find
    lost: list[Any] = []
    isAway = True

    def append(this: Any, batch: Any) -> Deferred[Any]:
        if this is not log or not isAway:
            done: Deferred[Any] = real(this, batch)
            return done
        lost.extend(batch)
        return fail(StoreFailed("the connection is lost"))

    def returned() -> None:
        nonlocal isAway
        if isAway:
            isAway = False
            real(log, lost)

    async def findAndReturn(this: SourcePositions, source: StreamSource) -> SourcePosition:
        position = await find(this, source)
        returned()
        return position

    monkeypatch.setattr(type(log), "append", append)
    monkeypatch.setattr(SourcePositions, "find", findAndReturn)
    stage.publish(b"s.a", b"6")
    settleFor(stage, 3)
    returned()
    settleFor(stage, 30)
    assert target(stage).last == 6
    assert stage.stored(target(stage))[-1][2] == b"6"


def test_doubtsMeanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Messages that the store may have kept are read once it knows them, also if they came during the
    search.
    """
    stage = staged()
    stream, positions = target(stage), target(stage).sources
    log = stream.log
    real, read = type(log).append, Stream.read

    def taken(sequence: int) -> tuple[bytes, bytes, bytes, int]:
        line = b"NATS/1.0\r\nNats-Stream-Source: S %d > > s.a\r\n\r\n" % sequence
        headers = len(line).to_bytes(4, "big") + line if stream.isInFile else line
        return b"s.a", headers, b"", 0

    def doubt(first: int, before: int) -> None:
        batch = StreamBatch(first)
        batch.before = {positionKey(stream.config.sources[0]): SourcePosition(before)}
        positions.failed(batch)

    def reading(this: Stream, *args: Any) -> Deferred[Any]:
        messages = read(this, *args)
        if this is stream and not late:
            late.append(taken(7))
            doubt(7, 6)
        return messages

    def append(this: Any, batch: Any) -> Deferred[Any]:
        if this is log and late and not batch:
            batch, late[:] = late[:1], [()]
        done: Deferred[Any] = real(this, [record for record in batch if record])
        return done

    stage.wait(real(log, [taken(6)]))
    doubt(6, 5)
    late: list[Any] = []
    monkeypatch.setattr(Stream, "read", reading)
    monkeypatch.setattr(type(log), "append", append)
    stage.wait(Deferred.fromCoroutine(positions.readOn()))
    assert not positions.isUnread
    known = stage.wait(Deferred.fromCoroutine(positions.find(stream.config.sources[0])))
    assert known.sequence == stream.last == 7


def test_failedWrite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions whose write failed are written before the next removal."""
    stage = staged()
    states: Any = target(stage).states
    kind = type(states._states)
    real = kind.change
    monkeypatch.setattr(kind, "change", lambda this, changes: fail(StoreFailed("no")))
    target(stage).sources.save()
    monkeypatch.setattr(kind, "change", real)
    purge(stage)
    restarted(stage)
    settleFor(stage, 30)
    assert target(stage).last == 5


def written(stage: ApiStage) -> dict[str, SourcePosition]:
    """The positions of the target in the store."""
    values = stage.wait(target(stage).states.load(b"sources/"))
    sources = json.loads(values[positionsKey("T")])["sources"]
    return {key: SourcePosition.decode(text) for key, text in sources.items()}


def test_manyPositions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of positions, only those that have changed are encoded again."""
    named = [{"name": "X", "filter_subject": f"x.{number}"} for number in range(3 * PIECE)]
    stage = staged(*named)
    stream = target(stage)
    for source in stream.config.sources:
        stream.sources.begin(source, b"abc")
    stream.sources.save()
    expected = {positionKey(source): SourcePosition(0, b"abc") for source in stream.config.sources}
    assert written(stage) == expected
    encoded: list[str] = []

    def encode(value: dict[str, str]) -> bytes:
        encoded.extend(value)
        return gojson.encode(value)

    monkeypatch.setattr(sourcepositions, "encode", encode)
    stream.sources.begin(stream.config.sources[7], b"other")
    stream.sources.save()
    key = positionKey(stream.config.sources[7])
    assert encoded == [key]
    expected[key] = SourcePosition(0, b"other")
    assert written(stage) == expected
    again = SourcePositions(stream, positionsKey("T"))
    loading: Deferred[Any] = stream.states.load()
    stage.wait(again.recover(stage.wait(loading)))
    again.begin(stream.config.sources[0], b"new")
    again.save()
    expected[positionKey(stream.config.sources[0])] = SourcePosition(0, b"new")
    assert written(stage) == expected


def test_forgottenInSteps() -> None:
    """The positions of sources that were removed from the configuration leave the store."""
    named = [{"name": "X", "filter_subject": f"x.{number}"} for number in range(2 * PIECE)]
    stage = staged(*named)
    stream = target(stage)
    for source in stream.config.sources:
        stream.sources.begin(source, b"abc")
    stage.ask("STREAM.UPDATE.T", {**toJSON(stream.config), "sources": named[5:]})
    stream.sources.save()
    assert set(written(stage)) == {positionKey(source) for source in stream.config.sources}
    assert len(written(stage)) == 2 * PIECE - 5


def find(stage: ApiStage, source: StreamSource) -> SourcePosition:
    """The position of a source of the target."""
    return stage.wait(Deferred.fromCoroutine(target(stage).sources.find(source)))


def test_searchedTogether(monkeypatch: pytest.MonkeyPatch) -> None:
    """One read of the stream finds the newest messages of all sources without a position."""
    named = [{"name": "S", "filter_subject": subject} for subject in ("s.a", "s.b", "s.c")]
    stage = staged(*named)
    stream = target(stage)
    positions = {source.filter_subject: find(stage, source) for source in stream.config.sources}
    assert [positions[subject].sequence for subject in ("s.a", "s.b", "s.c")] == [5, 4, 0]
    again = SourcePositions(stream, positionsKey("T"))
    stream.sources = again
    read, reads = Stream.read, list[int]()

    def counted(this: Stream, filters: Any, sequence: int, *rest: Any) -> Deferred[Any]:
        reads.append(sequence)
        return read(this, filters, sequence, *rest)

    monkeypatch.setattr(Stream, "read", counted)
    for source in stream.config.sources:
        assert find(stage, source).sequence == positions[source.filter_subject].sequence
    assert reads == [1]


def test_searchedAgain() -> None:
    """A source that was removed and added again continues after its newest message."""
    named = [{"name": "S", "filter_subject": subject} for subject in ("s.a", "s.c")]
    stage = staged(*named)
    body = toJSON(target(stage).config)
    stage.publish(b"s.c", b"new")
    settleFor(stage, 3)
    assert [find(stage, source).sequence for source in target(stage).config.sources] == [5, 6]
    stage.ask("STREAM.UPDATE.T", {**body, "sources": named[:1]})
    stage.ask("STREAM.UPDATE.T", {**body, "sources": named})
    settleFor(stage, 3)
    assert [find(stage, source).sequence for source in target(stage).config.sources] == [5, 6]
    assert target(stage).messages == 4
