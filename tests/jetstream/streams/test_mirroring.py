"""
Mirrors: copies of another stream with its sequences and times.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from natsbroker.interfaces.records import StoreFull
from natsbroker.jetstream.streams.mirroring import MirrorReader
from natsbroker.wire.values import Message
from tests.jetstream.api.support import ApiStage
from tests.jetstream.support import filled


def mirrored(stage: ApiStage, **mirror: Any) -> Any:
    """Create the mirror C{M} of C{S}, and let it catch up."""
    answer = stage.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S", **mirror}})
    assert "error" not in answer
    stage.clock.advance(0.1)
    stage.settle()
    return stage.jetstream.streams["M"]


def sequences(stage: ApiStage, stream: Any) -> list[int]:
    return [each[0] for each in stage.stored(stream)]


class TestCopy:
    """What a mirror stores."""

    def test_whole(self) -> None:
        """Sequences, times and headers stay; no header is added."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        stage.clock.advance(5)
        stage.publish(b"s.c", b"x", A="1")
        mirror = mirrored(stage)
        stage.publish(b"s.c", b"later")
        stage.settle()
        origin = stage.jetstream.streams["S"]
        assert stage.wait(mirror.read((), 1)) == stage.wait(origin.read((), 1))
        assert mirror.last == 7

    def test_readYourWrites(self) -> None:
        """Who reads while a message is being stored waits for it."""
        stage = ApiStage()
        stage.make()
        mirror = mirrored(stage)
        storing: Deferred[Any] = Deferred()
        append = mirror.log.append
        mirror.log.append = lambda entries: storing.addCallback(lambda _: append(entries))
        stage.publish(b"s.a", b"new")
        assert not mirror.isSettled
        found: list[Any] = []
        mirror.settle().addCallback(lambda _: found.append(mirror.last))
        stage.settle()
        assert found == []
        storing.callback(None)
        stage.settle()
        assert (found, mirror.isSettled) == ([1], True)

    def test_memory(self) -> None:
        """A mirror can be in memory while its origin is in files."""
        stage = ApiStage()
        stage.make()
        stage.publish(b"s.c", b"x", A="1")
        stage.ask("STREAM.CREATE.M", {"name": "M", "storage": "memory", "mirror": {"name": "S"}})
        stage.settle()
        origin = stage.jetstream.streams["S"]
        mirror = stage.jetstream.streams["M"]
        assert stage.wait(mirror.get(1)) == stage.wait(origin.get(1))

    @pytest.mark.parametrize(
        ("mirror", "expected"),
        [
            ({"filter_subject": "s.b"}, [2, 4]),
            ({"opt_start_seq": 4}, [4, 5]),
            ({"opt_start_time": "2033-01-01T00:00:00Z"}, []),
        ],
    )
    def test_part(self, mirror: Any, expected: list[int]) -> None:
        """A mirror of a part has gaps."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        assert sequences(stage, mirrored(stage, **mirror)) == expected

    def test_start(self) -> None:
        """An empty mirror begins where its origin is read from."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        mirror = mirrored(stage, opt_start_seq=6)
        assert (mirror.first, mirror.last) == (6, 5)

    def test_transforms(self) -> None:
        """The first transform that matches changes the subject."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        transforms = [{"src": "s.a", "dest": "z.a"}]
        mirror = mirrored(stage, subject_transforms=transforms)
        assert {each[1] for each in stage.stored(mirror)} == {b"z.a"}

    def test_deleted(self) -> None:
        """What was deleted at the origin before is missing; what is deleted later stays."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        stage.ask("STREAM.MSG.DELETE.S", {"seq": 3})
        mirror = mirrored(stage)
        stage.ask("STREAM.PURGE.S")
        assert sequences(stage, mirror) == [1, 2, 4, 5]


class TestLife:
    """Failures and the end."""

    def test_consumers(self) -> None:
        """Consumers of a mirror receive what it copies; those of readers are not counted."""
        stage = ApiStage()
        stage.make()
        mirrored(stage)
        inbox = stage.inbox(b"d")
        stage.ask("CONSUMER.CREATE.M", {"stream_name": "M", "config": {"deliver_subject": "d"}})
        stage.publish(b"s.a", b"x")
        stage.settle()
        assert inbox.payloads == [b"x"]
        assert stage.ask("STREAM.INFO.S")["state"]["consumer_count"] == 0

    def test_info(self) -> None:
        """Infos show how far a mirror is, and when its origin was heard of."""
        stage = ApiStage()
        stage.make()
        created = stage.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}})
        assert created["mirror"] == {"name": "S", "lag": 0, "active": -1}
        stage.settle()
        stage.publish(b"s.a")
        stage.settle()
        stage.clock.advance(0.5)
        shown = stage.ask("STREAM.INFO.M")["mirror"]
        assert shown == {"name": "S", "lag": 0, "active": 500_000_000}

    def test_originMissing(self) -> None:
        """A mirror waits for its origin, and shows why."""
        stage = ApiStage()
        mirror = mirrored(stage)
        assert stage.ask("STREAM.INFO.M")["mirror"]["error"] == {
            "code": 404,
            "err_code": 10059,
            "description": "stream not found",
        }
        stage.make()
        stage.publish(b"s.a")
        stage.clock.pump([1.0] * 12)
        assert sequences(stage, mirror) == [1]
        assert "error" not in stage.ask("STREAM.INFO.M")["mirror"]

    def test_originReplacesConsumer(self) -> None:
        """When the consumer is gone, silence leads to a new one behind what is stored."""
        stage = ApiStage()
        stage.make()
        stage.publish(b"s.a")
        mirror = mirrored(stage)
        (consumer,) = stage.jetstream.streams["S"].consumers.values()
        stage.ask(f"CONSUMER.DELETE.S.{consumer.name}")
        stage.publish(b"s.b")
        stage.settle()
        assert sequences(stage, mirror) == [1]
        stage.clock.pump([1.0] * 12)
        stage.settle()
        assert sequences(stage, mirror) == [1, 2]

    def test_gap(self) -> None:
        """A lost delivery is noticed, and nothing behind it is stored before it."""
        stage = ApiStage()
        stage.make()
        mirror = mirrored(stage)
        (consumer,) = stage.jetstream.streams["S"].consumers.values()
        target = consumer.config.deliver_subject.encode()
        reply = b"$JS.ACK.S.%b.1.9.9.1.0" % consumer.name.encode()
        stage.bus.publish(Message(target, b"x", reply))
        stage.settle()
        stage.publish(b"s.a", b"first")
        stage.clock.pump([1.0] * 4)
        stage.settle()
        assert stage.stored(mirror) == [(1, b"s.a", b"first")]

    def test_notStored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What could not be stored is read again later."""
        stage = ApiStage()
        stage.make()
        mirror = mirrored(stage)
        append = mirror.log.append

        def full(batch: Any) -> Any:
            return append([]).addCallback(lambda _: _raise())

        def _raise() -> None:
            raise StoreFull("full")

        monkeypatch.setattr(mirror.log, "append", full)
        stage.publish(b"s.a", b"x")
        stage.settle()
        monkeypatch.undo()
        assert sequences(stage, mirror) == []
        stage.clock.pump([1.0] * 12)
        stage.settle()
        assert sequences(stage, mirror) == [1]

    def test_publish(self) -> None:
        """No client publishes to a mirror; without its origin it is a stream like others."""
        stage = ApiStage()
        stage.make()
        mirror = mirrored(stage)
        stage.publish(b"s.a", b"1")
        stage.ask("STREAM.DELETE.S")
        promoted = stage.ask("STREAM.UPDATE.M", {"name": "M", "subjects": ["s.>"]})
        assert "mirror" not in promoted
        assert stage.publish(b"s.a", b"2") == b'{"stream":"M","seq":2}'
        stage.clock.pump([1.0] * 12)
        assert sequences(stage, mirror) == [1, 2]

    def test_deletion(self) -> None:
        """A deleted mirror leaves its consumer behind, which ends by itself."""
        stage = ApiStage()
        stage.make()
        mirrored(stage)
        stage.ask("STREAM.DELETE.M")
        stage.clock.pump([1.0] * 12)
        stage.settle()
        assert not stage.jetstream.streams["S"].consumers
        assert stage.publish(b"s.a") == b'{"stream":"S","seq":1}'


class TestDirectGet:
    """When a mirror answers for its origin."""

    def test_catchesUp(self) -> None:
        """A mirror answers for its origin from when it has all of its messages on."""
        stage = ApiStage()
        stage.make(allow_direct=True)
        mirrored(stage)
        stage.publish(b"s.a", b"1")
        stage.settle()
        stage.ask("STREAM.DELETE.S")
        assert _answering(stage) == "M"

    def test_restart(self) -> None:
        """So does one that has all of them when it begins to read."""
        stage = ApiStage()
        stage.make(allow_direct=True)
        stage.publish(b"s.a", b"1")
        config = mirrored(stage).config
        stage.settle()
        mirror = stage.jetstream.streams["M"]
        mirror.close()
        reader = MirrorReader(mirror, config.mirror)
        reader.start()
        stage.settle()
        stage.ask("STREAM.DELETE.S")
        assert _answering(stage) == "M"
        reader.stop()


def _answering(stage: ApiStage) -> str:
    """The stream that answers for C{S}: by the header, or by what an answer without it means."""
    inbox = stage.inbox(b"_INBOX.direct")
    stage.send(b"$JS.API.DIRECT.GET.S", b'{"seq":1}', b"_INBOX.direct")
    stage.settle()
    (answer,) = inbox.got
    found = re.search(rb"Nats-Stream: (.)", answer.headers)
    return found[1].decode() if found else answer.headers.decode()
