"""
The duties of a stream while its store fails.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, fail

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.streams.stream import Stream, consumerKeys
from natsbroker.jetstream.streams.streamrecords import SLICE
from natsbroker.storage.lmdb.environment import Environment
from natsbroker.storage.lmdb.journal import Journal
from natsbroker.storage.memory import MemoryLog, MemoryStates
from natsbroker.storage.retrying import MOST
from natsbroker.wire.values import Message
from tests.jetstream.api.support import ApiStage
from tests.jetstream.crash.place import Place
from tests.jetstream.streams.test_recovery import restarted
from tests.jetstream.support import SECOND

REMOVALS = ((MemoryLog, "delete"), (MemoryLog, "discardBefore"))
WRITES = (*REMOVALS, (MemoryStates, "change"), (MemoryStates, "put"))
READS = ((MemoryLog, "read"), (MemoryLog, "readMatching"))


@contextmanager
def failing(*methods: tuple[type, str]) -> Iterator[None]:
    """Let some methods of the store fail."""
    with pytest.MonkeyPatch.context() as patch:
        for kind, name in methods:
            patch.setattr(kind, name, lambda *_, **__: fail(StoreFailed("the database is away")))
        yield


@contextmanager
def held(kind: type, name: str) -> Iterator[list[Deferred[None]]]:
    """
    Hold up a method of the store until the test lets its calls continue.

    @return: the calls; each is made when it is fired.
    """
    method, calls = getattr(kind, name), list[Deferred[None]]()

    def call(*args: Any) -> Deferred[Any]:
        calls.append(Deferred())
        return calls[-1].addCallback(lambda _: method(*args))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, name, call)
        yield calls


def staged(consumers: str = "c", **config: Any) -> ApiStage:
    stage = ApiStage()
    assert "error" not in stage.make(**config)
    for name in consumers:
        consume(stage, name)
    return stage


def consume(stage: ApiStage, name: str, **config: Any) -> None:
    config = {"durable_name": name, "ack_policy": "explicit", **config}
    answer = stage.ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    assert "error" not in answer


def publish(stage: ApiStage, count: int = 5) -> Stream:
    for number in range(count):
        stage.publish(b"s.a", b"%d" % number)
    return stage.jetstream.streams["S"]


def acknowledge(stage: ApiStage, name: str = "c", count: int = 100) -> list[bytes]:
    """Fetch messages and acknowledge them; return their payloads."""
    inbox = stage.inbox(b"_INBOX.pull")
    body = json.dumps({"batch": count, "no_wait": True}).encode()
    stage.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}".encode(), body, b"_INBOX.pull")
    stage.settle()
    messages = [message for message in inbox.got if message.reply]
    for message in messages:
        stage.send(message.reply, b"+ACK")
    stage.settle()
    return [message.payload for message in messages]


def wait(stage: ApiStage) -> None:
    """Let the longest pause before a repetition pass."""
    for _ in range(round(2 * MOST)):
        stage.clock.advance(0.5)
        stage.settle()


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
@pytest.mark.parametrize("broken", [REMOVALS, WRITES, (*REMOVALS, *READS)], ids=len)
class TestSettled:
    """Messages that every consumer has settled."""

    def test_laterRemoved(self, retention: str, broken: Any) -> None:
        """
        Settled messages that the store failed to remove are removed later, together with those
        settled since.
        """
        stage = staged("ab" if retention == "interest" else "a", retention=retention)
        stream = publish(stage)
        consumers = list(stream.consumers)
        inboxes = [stage.inbox(b"_INBOX.%b" % consumer.encode()) for consumer in consumers]
        for consumer in consumers:
            subject = f"$JS.API.CONSUMER.MSG.NEXT.S.{consumer}".encode()
            stage.send(subject, b'{"batch":4}', b"_INBOX.%b" % consumer.encode())
        stage.settle()
        with failing(*broken):
            for half in (slice(0, 2), slice(2, 4)):
                for inbox in inboxes:
                    for message in inbox.got[half]:
                        stage.send(message.reply, b"+ACK")
                stage.clock.advance(1.0)
                stage.settle()
        assert stream.messages == 5
        wait(stage)
        assert [record[0] for record in stage.stored(stream)] == [5]

    def test_afterRestart(self, retention: str, broken: Any) -> None:
        """
        After a restart, settled messages that were not yet removed are removed, and no others.
        """
        stage = staged("ab" if retention == "interest" else "a", retention=retention)
        stream = publish(stage)
        with failing(*REMOVALS):
            for consumer in list(stream.consumers):
                assert len(acknowledge(stage, consumer, 3)) == 3
            stage.clock.advance(1.0)
            stage.settle()
            restarted(stage)
            stage.settle()
            stream = stage.jetstream.streams["S"]
            assert stream.messages == 5
        wait(stage)
        assert [record[0] for record in stage.stored(stream)] == [4, 5]
        for consumer in list(stream.consumers):
            assert acknowledge(stage, consumer) == [b"3", b"4"]
        assert stream.messages == 0


def test_settledMeanwhile() -> None:
    """Messages that are settled while others are being removed are removed too."""
    stage = staged("ab", retention="interest")
    stream = publish(stage)
    early, late = stage.inbox(b"_INBOX.a"), stage.inbox(b"_INBOX.b")
    for name in "ab":
        subject = f"$JS.API.CONSUMER.MSG.NEXT.S.{name}".encode()
        stage.send(subject, b'{"batch":5}', b"_INBOX.%b" % name.encode())
    stage.settle()

    def confirm(*messages: Message) -> None:
        for message in messages:
            stage.send(message.reply, b"+ACK")
        stage.clock.advance(1.0)
        stage.settle()

    with failing(*REMOVALS):
        confirm(late.got[0], *early.got)
    with held(MemoryLog, "delete") as removals:
        wait(stage)
        assert len(removals) == 1
        confirm(*late.got[1:])
        for removal in removals:
            removal.callback(None)
    wait(stage)
    assert stage.stored(stream) == []


class TestCompared:
    """Removal of settled messages from a work queue after a restart."""

    def test_pending(self) -> None:
        """
        After a restart, a message stays if it is pending, undelivered, or wanted by no consumer.
        """
        stage = staged("", retention="workqueue")
        consume(stage, "c", filter_subject="s.a")
        for subject in (b"s.b", b"s.a", b"s.a", b"s.b", b"s.a"):
            stage.publish(subject, subject)
        body = b'{"batch":2,"no_wait":true}'
        stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S.c", body, b"_INBOX.pull")
        stage.settle()
        stage.clock.advance(1)
        restarted(stage)
        wait(stage)
        assert len(stage.stored(stage.jetstream.streams["S"])) == 5

    @pytest.mark.parametrize("isReset", [False, True])
    def test_passedOver(self, isReset: bool) -> None:
        """After a restart, a message that its consumer skipped without acknowledgement stays."""
        stage = staged("", retention="workqueue")
        consume(stage, "c", filter_subject="" if isReset else "s.a")
        for subject in (b"s.b", b"s.a", b"s.b"):
            stage.publish(subject, subject)
        if isReset:
            stage.ask("CONSUMER.RESET.S.c", {"seq": 3})
        else:
            acknowledge(stage)
            consume(stage, "c", filter_subject="s.>")
        stage.publish(b"s.c", b"s.c")
        assert acknowledge(stage)[-1] == b"s.c"
        stage.clock.advance(1)
        before = stage.stored(stage.jetstream.streams["S"])
        assert [record[0] for record in before] == ([1, 2] if isReset else [1, 3])
        restarted(stage)
        wait(stage)
        assert stage.stored(stage.jetstream.streams["S"]) == before

    def test_inSlices(self) -> None:
        """After a restart, looking for settled messages is limited work in each turn."""
        stage = staged("", retention="workqueue")
        stream = publish(stage, 0)
        stage.wait(stream.log.append([(b"s.a", b"", b"", 0)] * 5000))
        consume(stage, "c")
        with failing(*REMOVALS):
            while acknowledge(stage, count=1000):
                pass
            stage.clock.advance(1)
            stream = restarted(stage).jetstream.streams["S"]
            stage.settle()
        retaining = stream._retaining
        _, busiest = stage.busiest(stream, lambda: ensureDeferred(retaining.compare()))
        assert stream.messages == 0
        assert busiest <= SLICE


def maxBytes(stage: ApiStage) -> Callable[[], object]:
    stream = stage.jetstream.streams["S"]
    stage.publish(b"s.a", b"x" * 200)
    return lambda: stream.size <= 300


def maxAge(stage: ApiStage) -> Callable[[], object]:
    stream = stage.jetstream.streams["S"]
    stage.clock.advance(1)
    stage.settle()
    return lambda: stream.messages == 0


def rollUp(stage: ApiStage) -> Callable[[], object]:
    stream = stage.jetstream.streams["S"]
    inbox = stage.inbox(b"_INBOX.rolled")
    stage.send(b"s.a", b"all", b"_INBOX.rolled", Nats_Rollup="sub")
    stage.settle()
    assert not inbox.got
    return lambda: stream.messages == 1 and len(inbox.got) == 1


def lowerLimit(stage: ApiStage) -> Callable[[], object]:
    stream = stage.jetstream.streams["S"]
    answer = stage.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_bytes": 100})
    assert "error" in answer
    return lambda: stream.size <= 100


def timeToLive(stage: ApiStage) -> Callable[[], object]:
    stream = stage.jetstream.streams["S"]
    stage.publish(b"s.b", b"x", Nats_TTL="1")
    stage.clock.advance(1)
    stage.settle()
    return lambda: stream.messages == 5


LIMITS: tuple[tuple[Callable[[ApiStage], Callable[[], object]], dict[str, Any]], ...] = (
    (maxBytes, {"max_bytes": 300}),
    (maxAge, {"max_age": SECOND}),
    (rollUp, {"allow_rollup_hdrs": True}),
    (lowerLimit, {}),
    (timeToLive, {"allow_msg_ttl": True}),
)


@pytest.mark.parametrize(("do", "config"), LIMITS, ids=lambda limit: getattr(limit, "__name__", ""))
def test_limits(do: Callable[[ApiStage], Callable[[], object]], config: dict[str, Any]) -> None:
    """A message over the limits that the store failed to remove is removed later."""
    stage = staged("", **config)
    publish(stage)
    with failing(*REMOVALS):
        isDone = do(stage)
        wait(stage)
        assert not isDone()
    wait(stage)
    assert isDone()
    assert not stage.jetstream.streams["S"].upkeep._carried


class TestDeleted:
    """Deletions that the store could not keep."""

    def test_consumer(self) -> None:
        """
        The deletion of a consumer that the store failed to write is repeated, and then removes its
        messages.
        """
        stage = staged("ab", retention="interest")
        stream = publish(stage)
        acknowledge(stage, "a")
        with failing(*WRITES):
            assert "error" in stage.ask("CONSUMER.DELETE.S.b")
        assert stream.messages == 5
        wait(stage)
        assert stream.messages == 0
        assert list(restarted(stage).jetstream.streams["S"].consumers) == ["a"]

    def test_consumerMadeAgain(self) -> None:
        """If a consumer is created again before its deletion is repeated, it stays."""
        stage = staged("c")
        with failing(*WRITES):
            assert "error" in stage.ask("CONSUMER.DELETE.S.c")
        consume(stage, "c")
        wait(stage)
        assert list(restarted(stage).jetstream.streams["S"].consumers) == ["c"]

    def test_inactive(self) -> None:
        """A consumer that ended by inactivity while the store failed does not come back."""
        stage = staged("")
        consume(stage, "c", inactive_threshold=SECOND)
        with failing(*WRITES):
            for _ in range(6):
                stage.clock.advance(1)
                stage.settle()
            assert not stage.jetstream.streams["S"].consumers
        wait(stage)
        values = stage.wait(stage.jetstream.states.load())
        assert not set(consumerKeys("S", "c")) & set(values)

    @pytest.mark.parametrize("isMadeAgain", [False, True])
    def test_stream(self, isMadeAgain: bool) -> None:
        """
        The deletion of a stream that the store failed to write is repeated, unless the stream is
        created again.
        """
        stage = staged("")
        publish(stage)
        with failing(*WRITES):
            assert "error" in stage.ask("STREAM.DELETE.S")
        if isMadeAgain:
            stage.make()
            publish(stage, 1)
        wait(stage)
        streams = restarted(stage).jetstream.streams
        assert [(name, stream.messages) for name, stream in streams.items()] == [
            ("S", 1) for _ in range(isMadeAgain)
        ]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_onDisk(number: int, tmp_path: Path) -> None:
    """On disk, settled messages that could not be removed are removed when the disk works again."""
    place = Place(tmp_path / "store")
    try:
        place.ask("STREAM.CREATE.S", name="S", subjects=["s"], retention="workqueue")
        config = {"durable_name": "c", "ack_policy": "explicit"}
        place.ask("CONSUMER.DURABLE.CREATE.S.c", stream_name="S", config=config)
        answers: list[object] = []
        for _ in range(9):
            place.send(b"s", b"x", answers.append)
        place.until(lambda: len(answers) == 9)
        messages = place.fetch("S", "c", 9)
        stream = place.jetstream.streams["S"]

        def full(*_: object) -> bool:
            raise OSError(number, "no")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Environment, "prepareNext", full)
            patch.setattr(Environment, "promise", full)
            patch.setattr(Journal, "frame", lambda *_: b"")
            patch.setattr(Journal, "append", lambda *_: False)
            for message in messages:
                place.send(message.reply, b"+ACK", answers.append)
            place.until(lambda: bool(place.watcher.writing))
            assert stream.messages == 9
        place.pass_(1.5)
        place.until(lambda: place.watcher.writing[-1] == "resumed")
        place.until(lambda: not stream.messages)
    finally:
        place.close()


def test_closed() -> None:
    """A closed stream makes no more attempts."""
    stage = staged(retention="workqueue")
    stream = publish(stage)
    with failing(*REMOVALS):
        acknowledge(stage)
        stream.close()
    wait(stage)
    assert stream.messages == 5
