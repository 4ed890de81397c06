"""
The messages that a stream removes because its consumers have settled them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from natsbroker.jetstream.consumers import retention
from natsbroker.jetstream.consumers.retention import ConsumerRetention
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from natsbroker.jetstream.streams.streamrecords import SLICE
from tests.jetstream.api.support import ApiStage
from tests.jetstream.support import Stage, filled


class Needing:
    """A consumer that needs only the given messages, and counts how often it is asked."""

    isHolding = False
    config = ConsumerConfig()
    lowest = 0

    def __init__(self, filters: tuple[bytes, ...] = (), needed: Collection[int] = ()) -> None:
        self.name = str(id(self))
        self.filters = filters
        self.needed = needed
        self.asked = 0

    def removed(self, *_: Any) -> None:
        pass

    def needs(self, sequence: int) -> bool:
        self.asked += 1
        return sequence in self.needed


def test_unneeded() -> None:
    """A message can be removed if no consumer that matches its subject needs it."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    stage.wait(stream.remove([4]))
    waiting = deque(range(1, 6))
    retaining = ConsumerRetention(stream)
    assert stage.wait(retaining.takeUnneeded(deque((1, 2)))) == [1, 2]
    one: Any = Needing((), {2})
    stream.consumers.add(one)
    assert stage.wait(retaining.takeUnneeded(deque((1, 2, 9)))) == [1, 9]
    stream.consumers.remove(one)
    others: list[Any] = [
        Needing((b"s.a",), {1, 2}),
        Needing((b"s.b",), {3, 5}),
        Needing((), {5}),
        Needing((), {2, 3}),
    ]
    for consumer in others:
        stream.consumers.add(consumer)
    assert stage.wait(retaining.takeUnneeded(waiting, others[-1])) == [2, 3]
    assert not waiting


@pytest.mark.parametrize("filters", [(), (b"s.a",), (b"none",)])
def test_unneededInTurns(filters: tuple[bytes, ...]) -> None:
    """The work of one turn is limited, whatever the number of messages."""
    stage = Stage()
    stream = stage.stream()
    for _ in range(40):
        stage.publish(b"s.a")
    waiting, unneeded, most = deque(range(1, 41)), list[int](), 0
    while waiting:
        others: list[Any] = [Needing(filters) for _ in range(200)]
        for consumer in others:
            stream.consumers.add(consumer)
        unneeded += stage.wait(ConsumerRetention(stream).takeUnneeded(waiting))
        most = max(most, sum(consumer.asked for consumer in others))
        for consumer in others:
            stream.consumers.remove(consumer)
    assert unneeded == list(range(1, 41))
    assert most <= SLICE + 2 * len(others)


def test_workOfOneTurn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The more consumers there are, the fewer messages are checked in one turn."""
    monkeypatch.setattr(retention, "SLICE", 12)
    stage = Stage()
    stream = stage.stream(retention=RetentionPolicy.INTEREST)
    stage.wait(stream.log.append([(b"s.a", b"", b"x", 0)] * 90))
    for name in "abcd":
        consumer: Any = SimpleNamespace(
            name=name,
            filters=(),
            wants=lambda _: True,
            needs=lambda sequence: sequence > 60,
            removed=lambda *_: None,
            isHolding=False,
            config=ConsumerConfig(),
            lowest=0,
        )
        stream.consumers.add(consumer)
    _, busiest = stage.busiest(stream, lambda: ensureDeferred(stream.interestLost()))
    assert stream.first == 61
    assert 0 < busiest <= 3


def test_noConsumers() -> None:
    """Without consumers no message is examined."""
    stage = Stage()
    stream = stage.stream(retention=RetentionPolicy.INTEREST)
    stage.wait(stream.log.append([(b"s.a", b"", b"x", 0)] * 90))
    _, busiest = stage.busiest(stream, lambda: ensureDeferred(stream.interestLost()))
    assert (stream.first, stream.messages) == (91, 0)
    assert busiest == 0


class TestInterestBegins:
    """
    The retention of a stream becomes interest: messages that consumers have settled are removed.
    """

    @pytest.fixture
    def stage(self) -> ApiStage:
        """An account with a stream of six messages on two subjects."""
        stage = ApiStage()
        stage.make()
        for number in range(6):
            stage.publish(b"s.a" if number % 2 == 0 else b"s.b")
        return stage

    def consume(self, stage: ApiStage, count: int = 0, **config: Any) -> None:
        """Create a consumer, and acknowledge what its first request gets."""
        config = {"durable_name": "d", "ack_policy": "explicit", **config}
        body = {"stream_name": "S", "config": config}
        assert "error" not in stage.ask("CONSUMER.DURABLE.CREATE.S.d", body)
        if count:
            inbox = stage.inbox(b"_INBOX.pull")
            stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S.d", b"%d" % count, b"_INBOX.pull")
            stage.settle()
            for message in inbox.got:
                stage.send(message.reply, b"+ACK")
            stage.settle()

    def left(self, stage: ApiStage) -> list[int]:
        """Change the retention to interest; return the remaining sequences."""
        config = {"name": "S", "subjects": ["s.>"], "retention": "interest"}
        answer = stage.ask("STREAM.UPDATE.S", config)
        sequences = [record[0] for record in stage.stored(stage.jetstream.streams["S"])]
        assert answer["state"]["messages"] == len(sequences)
        return sequences

    def test_withoutConsumers(self, stage: ApiStage) -> None:
        """Without consumers, all messages are removed."""
        assert self.left(stage) == []

    def test_newOnly(self, stage: ApiStage) -> None:
        """A consumer that starts with new messages needs none of the earlier ones."""
        self.consume(stage, deliver_policy="new")
        assert self.left(stage) == []

    def test_acknowledged(self, stage: ApiStage) -> None:
        """An acknowledged message is removed, and undelivered messages stay."""
        self.consume(stage, 2)
        assert self.left(stage) == [3, 4, 5, 6]

    def test_unwanted(self, stage: ApiStage) -> None:
        """As in nats-server, messages that the only consumer does not want stay."""
        self.consume(stage, 2, filter_subject="s.a")
        assert self.left(stage) == [2, 4, 5, 6]


@pytest.mark.parametrize("policy", ["workqueue", "interest"])
def test_behindReset(policy: str) -> None:
    """
    A message before the sequence of a reset leaves the stream when its earlier delivery is
    acknowledged.
    """
    stage = ApiStage()
    stage.make(retention=policy)
    config = {"durable_name": "d", "ack_policy": "explicit"}
    stage.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": config})
    for _ in range(4):
        stage.publish(b"s.a")
    inbox = stage.inbox(b"_INBOX.pull")
    stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S.d", b"4", b"_INBOX.pull")
    stage.settle()
    assert stage.ask("CONSUMER.RESET.S.d", {"seq": 3})["reset_seq"] == 3
    for message in inbox.got:
        stage.send(message.reply, b"+ACK")
    stage.settle()
    # What comes again is not acknowledged by an answer to the delivery before.
    assert [record[0] for record in stage.stored(stage.jetstream.streams["S"])] == [3, 4]
