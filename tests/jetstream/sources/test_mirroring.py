"""
Mirrors: copies of another stream with its sequences and times.
"""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import ANY

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.logger import capturedLogs

from natsbroker.interfaces.records import StoreFull
from natsbroker.jetstream.model.limits import StorageBounds
from natsbroker.jetstream.sources.mirroring import MirrorReader
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.wire.values import Message
from tests.jetstream.api.support import ApiStage
from tests.jetstream.support import SECOND, filled


def mirrored(stage: ApiStage, config: Any = None, **mirror: Any) -> Any:
    """Create the mirror C{M} of C{S}, and let it catch up."""
    config = {"name": "M", "mirror": {"name": "S", **mirror}, **(config or {})}
    assert "error" not in stage.ask("STREAM.CREATE.M", config)
    stage.clock.advance(0.1)
    stage.settle()
    return stage.jetstream.streams["M"]


def sequences(stage: ApiStage, stream: Any) -> list[int]:
    return [record[0] for record in stage.stored(stream)]


class TestCopy:
    """The messages that a mirror stores."""

    def test_whole(self) -> None:
        """A mirror has the sequences, times and headers of its origin."""
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
        """A read of a mirror waits for messages that are being stored."""
        stage = ApiStage()
        stage.make()
        mirror = mirrored(stage)
        storing: Deferred[Any] = Deferred()
        append = mirror.log.append
        mirror.log.append = lambda entries: storing.addCallback(lambda _: append(entries))
        stage.publish(b"s.a", b"new")
        assert not mirror.isSettled
        lasts: list[Any] = []
        mirror.settle().addCallback(lambda _: lasts.append(mirror.last))
        stage.settle()
        assert lasts == []
        storing.callback(None)
        stage.settle()
        assert (lasts, mirror.isSettled) == ([1], True)

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
        """A mirror with a filter has gaps."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        assert sequences(stage, mirrored(stage, **mirror)) == expected

    def test_start(self) -> None:
        """A mirror with a start sequence begins at that sequence."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        mirror = mirrored(stage, opt_start_seq=6)
        assert (mirror.first, mirror.last) == (6, 5)

    def test_transforms(self) -> None:
        """
        The first matching transform changes the subjects. Messages that match none are left out.
        """
        stage = ApiStage()
        stage.make()
        filled(stage)
        transforms = [{"src": "s.a", "dest": "z.a"}]
        mirror = mirrored(stage, subject_transforms=transforms)
        assert {record[1] for record in stage.stored(mirror)} == {b"z.a"}

    def test_deleted(self) -> None:
        """
        Messages that the origin deleted before are missing. Messages that it deletes later stay in
        the mirror.
        """
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
        """Consumers of a mirror receive its copies. Those of readers are not counted."""
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
        """The info of a mirror shows its lag, and the time since the origin's last message."""
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
        """If its consumer is deleted at the origin, a mirror creates another and continues."""
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
        """
        If a delivery is lost, a mirror reads again from the gap, and stores nothing out of order.
        """
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

    @pytest.mark.parametrize("config", [{}, {"allow_rollup_hdrs": True}])
    def test_notStored(self, monkeypatch: pytest.MonkeyPatch, config: Any) -> None:
        """A message that a mirror could not store is read again later."""
        stage = ApiStage()
        stage.make()
        mirror = mirrored(stage, config)
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
        """No client publishes to a mirror. Without its origin it is an ordinary stream."""
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
        """When a mirror is deleted, its consumer at the origin ends."""
        stage = ApiStage()
        stage.make()
        mirrored(stage)
        stage.ask("STREAM.DELETE.M")
        stage.clock.pump([1.0] * 12)
        stage.settle()
        assert not stage.jetstream.streams["S"].consumers
        assert stage.publish(b"s.a") == b'{"stream":"S","seq":1}'


class TestConfiguration:
    """The effects of a mirror's own configuration, as in any stream."""

    def test_transform(self) -> None:
        """
        The transform of the stream is applied after those of the mirror. Sequences and times stay.
        """
        stage = ApiStage()
        stage.make()
        filled(stage)
        stage.ask("STREAM.MSG.DELETE.S", {"seq": 3})
        stage.clock.advance(5)
        config = {"subject_transform": {"src": "p.*", "dest": "r.$1"}}
        transforms = [{"src": "s.*", "dest": "p.$1"}]
        mirror = mirrored(stage, config, subject_transforms=transforms)
        stage.publish(b"s.c", b"c", A="1")
        stage.settle()
        origin = stage.wait(stage.jetstream.streams["S"].read((), 1)).records
        assert [record.sequence for record in origin] == [1, 2, 4, 5, 6]
        assert stage.wait(mirror.read((), 1)).records == [
            record._replace(subject=b"r" + record.subject[1:]) for record in origin
        ]

    def test_republish(self) -> None:
        """The copies that a mirror republishes carry the mirror's name."""
        stage = ApiStage()
        stage.make()
        inbox = stage.inbox(b"rp.>")
        stage.publish(b"s.a", b"1")
        mirrored(stage, {"republish": {"src": ">", "dest": "rp.>"}})
        stage.publish(b"s.a", b"2")
        stage.settle()
        assert [(message.subject, message.payload) for message in inbox.got] == [
            (b"rp.s.a", b"1"),
            (b"rp.s.a", b"2"),
        ]
        known = MessageHeaders(inbox.got[1].headers)
        names = (b"Nats-Stream", b"Nats-Sequence", b"Nats-Last-Sequence")
        assert [known.get(name) for name in names] == [b"M", b"2", b"1"]

    def test_interest(self) -> None:
        """A mirror with interest retention drops messages that no consumer wants."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        mirror = mirrored(stage, {"retention": "interest"})
        assert (mirror.messages, mirror.first, mirror.last) == (0, 6, 5)
        config = {"filter_subject": "s.b", "deliver_subject": "d", "ack_policy": "explicit"}
        inbox = stage.inbox(b"d")
        stage.ask("CONSUMER.CREATE.M", {"stream_name": "M", "config": config})
        stage.publish(b"s.a", b"no")
        stage.publish(b"s.b", b"yes")
        stage.settle()
        assert stage.stored(mirror) == [(7, b"s.b", b"yes")]
        assert inbox.payloads == [b"yes"]

    def test_rollup(self) -> None:
        """A mirror that allows rollups applies the rollups of its origin."""
        stage = ApiStage()
        stage.make(allow_rollup_hdrs=True)
        mirror = mirrored(stage, {"allow_rollup_hdrs": True})
        filled(stage)
        stage.publish(b"s.a", b"r", Nats_Rollup="sub")
        stage.settle()
        assert sequences(stage, mirror) == [2, 4, 6]

    def test_repeated(self) -> None:
        """The second of two messages with the same id in the origin is copied too."""
        stage = ApiStage()
        stage.make(duplicate_window=SECOND)
        config = {"allow_rollup_hdrs": True, "duplicate_window": 100 * SECOND}
        mirror = mirrored(stage, config)
        for _ in range(2):
            stage.publish(b"s.a", b"x", Nats_Msg_Id="1")
            stage.clock.advance(5)
        assert sequences(stage, mirror) == [1, 2]

    @pytest.mark.parametrize("config", [{}, {"allow_rollup_hdrs": True}])
    def test_headers(self, config: Any) -> None:
        """Headers with expectations about the origin are removed."""
        stage = ApiStage()
        stage.make()
        stage.publish(b"s.a", b"", Nats_Expected_Stream="S", A="1")
        stage.publish(b"s.a", b"", Nats_Expected_Last_Sequence="1")
        records = stage.wait(mirrored(stage, config).read((), 1)).records
        assert [record.headers for record in records] == [b"NATS/1.0\r\nA: 1\r\n\r\n", b""]


class TestRefused:
    """Messages that a mirror has no room for."""

    @pytest.mark.parametrize(
        "limits",
        [
            {"max_msgs": 2},
            {"max_bytes": 100},
            {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
        ],
    )
    def test_full(self, limits: Any) -> None:
        """
        A full mirror that refuses new messages continues when there is room, and logs nothing.
        """
        stage = ApiStage()
        stage.make()
        filled(stage)
        with capturedLogs() as events:
            mirror = mirrored(stage, {"discard": "new", **limits})
            for _ in range(3):
                stored = sequences(stage, mirror)
                stage.clock.pump([1.0] * 12)
                stage.settle()
                assert sequences(stage, mirror) == stored == [1, 2]
        assert stage.ask("STREAM.INFO.M")["mirror"] == {"name": "S", "lag": 3, "active": ANY}
        assert events == []
        while mirror.last < 5:
            stage.ask("STREAM.PURGE.M")
            stage.clock.pump([1.0] * 12)
            stage.settle()
            stored += sequences(stage, mirror)
        assert stored == [1, 2, 3, 4, 5]
        assert stage.ask("STREAM.INFO.M")["mirror"]["lag"] == 0

    @pytest.mark.parametrize("place", [0, 1])
    def test_tooLarge(self, place: int) -> None:
        """
        A message above the mirror's size limit holds up all later ones until the limit is raised.
        """
        stage = ApiStage()
        stage.make()
        bodies = [b"1", b"2", b"3"]
        bodies[place] *= 100
        for body in bodies:
            stage.publish(b"s.a", body)
        mirror = mirrored(stage, {"max_msg_size": 90})
        stage.publish(b"s.a", b"4")
        stage.clock.pump([1.0] * 12)
        stage.settle()
        assert len(sequences(stage, mirror)) == place
        stage.ask("STREAM.UPDATE.M", {"name": "M", "mirror": {"name": "S"}, "max_msg_size": 100})
        stage.clock.pump([1.0] * 12)
        stage.settle()
        assert sequences(stage, mirror) == [1, 2, 3, 4]

    def test_account(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A mirror without limits of its own stops at the account's limit."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        bounds = StorageBounds(server=-1, serverUsed=0, account=100, accountUsed=0)
        with monkeypatch.context() as patched:
            patched.setattr(stage.jetstream, "isBounded", lambda storage: True)
            patched.setattr(stage.jetstream, "bounds", lambda storage, own: bounds)
            mirror = mirrored(stage)
            assert sequences(stage, mirror) == [1, 2]
        mirror.publisher.applyConfig()
        stage.clock.pump([1.0] * 12)
        stage.settle()
        assert sequences(stage, mirror) == [1, 2, 3, 4, 5]

    @pytest.mark.parametrize("part", ["eachTally", "append", "skipTo"])
    @pytest.mark.parametrize(
        ("config", "mirror"),
        [
            (
                {"discard": "new", "max_msgs_per_subject": 9, "discard_new_per_subject": True},
                {"filter_subject": "s.b"},
            ),
            ({"retention": "interest"}, {}),
        ],
    )
    def test_storeFails(
        self, monkeypatch: pytest.MonkeyPatch, part: str, config: Any, mirror: Any
    ) -> None:
        """After a failure of the store, a mirror reads again all that followed."""
        stage = ApiStage()
        stage.make()
        stream = mirrored(stage, config, **mirror)
        consumer = {"durable_name": "c", "filter_subject": "s.b", "ack_policy": "explicit"}
        stage.ask("CONSUMER.DURABLE.CREATE.M.c", {"stream_name": "M", "config": consumer})
        where = stream if part == "eachTally" else stream.log
        original = getattr(where, part)

        def full(*values: Any) -> Any:
            return original(*values) if values == ([],) else fail(StoreFull("full"))

        with monkeypatch.context() as patched:
            patched.setattr(where, part, full)
            filled(stage)
            stage.settle()
        stage.clock.pump([1.0] * 12)
        stage.settle()
        assert sequences(stage, stream) == [2, 4]
        stage.publish(b"s.b", b"more")
        stage.settle()
        assert sequences(stage, stream) == [2, 4, 6]


class TestDirectGet:
    """Direct gets for an origin that its mirror answers."""

    def test_catchesUp(self) -> None:
        """A mirror that has caught up answers direct gets for its origin."""
        stage = ApiStage()
        stage.make(allow_direct=True)
        mirrored(stage)
        stage.publish(b"s.a", b"1")
        stage.settle()
        stage.ask("STREAM.DELETE.S")
        assert _answering(stage) == "M"

    def test_restart(self) -> None:
        """A mirror that is complete when it starts to read answers direct gets for its origin."""
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
    """
    The name of the stream that answers for C{S}: by the header, or by the meaning of an answer
    without it.
    """
    inbox = stage.inbox(b"_INBOX.direct")
    stage.send(b"$JS.API.DIRECT.GET.S", b'{"seq":1}', b"_INBOX.direct")
    stage.settle()
    (answer,) = inbox.got
    match = re.search(rb"Nats-Stream: (.)", answer.headers)
    return match[1].decode() if match else answer.headers.decode()
