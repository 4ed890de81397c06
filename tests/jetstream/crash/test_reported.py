"""
Faults that users of nats-server have reported do not occur here. Those of kills and power cuts are
looked for by L{tests.jetstream.crash.worked.Known}.
"""

from __future__ import annotations

import json
from typing import Any

from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.consumers.state import ConsumerState, stateKey
from natsbroker.jetstream.streams.recovery import abandonStream, recover
from natsbroker.wire.values import Message
from tests.jetstream.api.support import ApiStage


def _consumer(stage: ApiStage, name: str, **config: Any) -> None:
    config = {"durable_name": name, "ack_policy": "explicit", "ack_wait": 10**9, **config}
    subject = f"CONSUMER.DURABLE.CREATE.S.{name}"
    assert "error" not in stage.ask(subject, {"stream_name": "S", "config": config})


def _fetch(stage: ApiStage, name: str, count: int = 10) -> list[Message]:
    inbox = stage.inbox(b"_INBOX.fetch")
    body = json.dumps({"batch": count, "no_wait": True}).encode()
    stage.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}".encode(), body, b"_INBOX.fetch")
    stage.settle()
    return [message for message in inbox.got if message.reply]


def killed(stage: ApiStage) -> None:
    """Continue with another broker on the same stores, and stop the earlier one."""
    stage.api.stop()
    old = stage.jetstream
    for stream in old.streams.values():
        for consumer in stream.consumers.values():
            consumer.core.writer.stop()
        abandonStream(stream)
    new = JetStreamAccount("A", old.bus, stage.server)
    stage.wait(recover(new))
    stage.jetstream = new
    stage.api.__init__(new, stage.api._routes)  # type: ignore[misc]
    stage.api.start()


def _messages(stage: ApiStage) -> int:
    count: int = stage.ask("STREAM.INFO.S")["state"]["messages"]
    return count


class TestStuckConsumers:
    """A consumer that gets stuck in nats-server goes on here."""

    def test_trimmed(self) -> None:
        """
        Pending messages that max_bytes removes do not block the consumer; later messages are
        delivered.
        """
        stage = ApiStage()
        stage.make(max_bytes=1000)
        _consumer(stage, "c", max_ack_pending=3)
        for _ in range(3):
            stage.publish(b"s.a", b"x" * 200)
        assert len(_fetch(stage, "c")) == 3
        for _ in range(10):
            stage.publish(b"s.a", b"x" * 200)
        stream = stage.jetstream.streams["S"]
        pending = stream.consumers["c"].core.pending
        assert stream.first > 3
        assert pending.entries
        assert min(pending.entries) >= stream.first
        assert pending.floorStream >= stream.first - 1

    def test_silentClient(self) -> None:
        """A client that acknowledges nothing holds up its own consumer, and no other."""
        stage = ApiStage()
        stage.make()
        _consumer(stage, "silent", max_ack_pending=1)
        _consumer(stage, "other")
        for _ in range(5):
            stage.publish(b"s.a")
        assert (len(_fetch(stage, "silent")), len(_fetch(stage, "other"))) == (1, 5)
        stage.clock.advance(2)
        stage.settle()
        info = stage.ask("CONSUMER.INFO.S.silent")
        assert (info["num_redelivered"], info["num_ack_pending"]) == (1, 1)


class TestKilled:
    """A broker that ends without an orderly stop."""

    def test_nothingForgotten(self) -> None:
        """
        After repeated kills, every stream and consumer is there, with the last configuration that
        was acknowledged.
        """
        stage = ApiStage()
        for number in range(4):
            name = f"S{number}"
            stage.make(name=name, subjects=[f"{name}.>"], description="first")
            config = {"durable_name": "c", "ack_policy": "explicit"}
            subject = f"CONSUMER.DURABLE.CREATE.{name}.c"
            stage.ask(subject, {"stream_name": name, "config": config})
            stage.publish(f"{name}.a".encode())
            update = {"name": name, "subjects": [f"{name}.>"], "description": "second"}
            stage.ask(f"STREAM.UPDATE.{name}", update)
            killed(stage)
            assert stage.ask("STREAM.NAMES")["streams"] == [
                f"S{index}" for index in range(number + 1)
            ]
            for stream in stage.ask("STREAM.LIST")["streams"]:
                state = stream["state"]
                assert stream["config"]["description"] == "second"
                assert (state["messages"], state["consumer_count"]) == (1, 1)

    def test_floorAheadOfStream(self) -> None:
        """
        A consumer whose stored floor is ahead of its stream gets the next message that is
        published.
        """
        stage = ApiStage()
        stage.make()
        _consumer(stage, "c")
        stage.publish(b"s.a")
        state = ConsumerState(50, 50, 50, 50, 0)
        states = stage.files.states("jetstream/A")
        stage.wait(states.put(stateKey("S", "c"), state.encode()))
        killed(stage)
        info = stage.ask("CONSUMER.INFO.S.c")
        assert (info["ack_floor"]["stream_seq"], info["num_pending"]) == (1, 0)
        stage.publish(b"s.a", b"next")
        assert [message.payload for message in _fetch(stage, "c")] == [b"next"]

    def test_trimmedMeanwhile(self) -> None:
        """
        Messages that max_bytes removed after the last write of a consumer's state are pending no
        more, and later messages come.
        """
        stage = ApiStage()
        stage.make(max_bytes=1000)
        _consumer(stage, "c", max_ack_pending=3)
        for _ in range(3):
            stage.publish(b"s.a", b"x" * 200)
        assert len(_fetch(stage, "c")) == 3
        stage.clock.advance(0.5)
        stage.settle()
        written = stage.files.states("jetstream/A").load(stateKey("S", "c"))
        for _ in range(10):
            stage.publish(b"s.a", b"x" * 200)
        assert stage.wait(written) == stage.wait(
            stage.files.states("jetstream/A").load(stateKey("S", "c"))
        )
        killed(stage)
        info = stage.ask("CONSUMER.INFO.S.c")
        assert (info["num_ack_pending"], info["num_pending"]) == (0, _messages(stage))
        assert len(_fetch(stage, "c")) == 3


class TestDamagedConsumer:
    """A consumer whose state cannot be read."""

    def test_served(self) -> None:
        """A consumer with a damaged state is served after a restart, and can be deleted."""
        stage = ApiStage()
        stage.make()
        _consumer(stage, "c")
        stage.publish(b"s.a")
        assert len(_fetch(stage, "c")) == 1
        stream = stage.jetstream.streams.pop("S")
        stream.close()
        stage.wait(stream.consumers["c"].stop("shutdown"))
        states = stage.files.states("jetstream/A")
        stage.wait(states.put(stateKey("S", "c"), b"\xff" * 40))
        stage.wait(recover(stage.jetstream))
        assert len(_fetch(stage, "c")) == 1
        assert stage.ask("CONSUMER.DELETE.S.c")["success"]
        assert stage.ask("CONSUMER.NAMES.S")["consumers"] == []


class TestWorkQueue:
    """Messages of a work queue that have reached max_deliver."""

    def atTheLimit(self) -> ApiStage:
        """Let the consumer C{c} receive two messages for the last time."""
        stage = ApiStage()
        stage.make(retention="workqueue")
        _consumer(stage, "c", max_deliver=1)
        for _ in range(2):
            stage.publish(b"s.a")
        assert len(_fetch(stage, "c")) == 2
        stage.clock.advance(3)
        return stage

    def handOn(self, stage: ApiStage) -> None:
        """Delete the consumer, and let a new one receive and acknowledge the two messages."""
        stage.ask("CONSUMER.DELETE.S.c")
        _consumer(stage, "d")
        messages = _fetch(stage, "d")
        assert len(messages) == 2
        for message in messages:
            stage.send(message.reply, b"+ACK", b"_INBOX.ack")
        stage.settle()

    def test_neitherLostNorBlocking(self) -> None:
        """
        Messages at max_deliver stay in the work queue, do not hold up later messages, and go to a
        new consumer.
        """
        stage = self.atTheLimit()
        stage.publish(b"s.a")
        [third] = _fetch(stage, "c")
        stage.send(third.reply, b"+ACK", b"_INBOX.ack")
        stage.settle()
        assert _messages(stage) == 2
        self.handOn(stage)
        assert _messages(stage) == 0

    def test_killedAtTheLimit(self) -> None:
        """
        A kill neither removes messages at max_deliver nor delivers them to the same consumer again.
        """
        stage = self.atTheLimit()
        killed(stage)
        assert _messages(stage) == 2
        assert _fetch(stage, "c") == []
        self.handOn(stage)
        killed(stage)
        assert _messages(stage) == 0
