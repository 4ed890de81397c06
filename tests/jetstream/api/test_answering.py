"""
Helpers of several API handlers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from twisted.internet.defer import Deferred

from natsbroker.jetstream.api import answering
from natsbroker.jetstream.api.answering import findConsumer, findStream, shownState
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.metadata import withServer
from tests.jetstream.api.support import ApiStage


def test_missing() -> None:
    """Looking up a stream or consumer that does not exist raises nats-server's error."""
    stage = ApiStage()
    stage.make()
    with pytest.raises(JetStreamError, match="stream not found"):
        findStream(stage.jetstream, "X")
    with pytest.raises(JetStreamError, match="consumer not found"):
        findConsumer(stage.jetstream, "S", "X")


def test_state() -> None:
    """The state of a stream counts the messages that were published before the request."""
    stage = ApiStage()
    stage.make()
    stage.send(b"s.a", b"1")
    stage.settle()
    state = stage.wait(shownState(stage.jetstream.streams["S"]))
    assert (state["messages"], state["first_seq"], state["num_subjects"]) == (1, 1, 1)
    assert state["first_ts"] == state["last_ts"] == "2023-11-14T22:13:20Z"


def test_order() -> None:
    """An info has nats-server's keys in their order. Optional parts come after the times."""
    stage = ApiStage()
    stage.make()
    empty = stage.ask("STREAM.INFO.S")["state"]
    assert " ".join(empty) == "messages bytes first_seq first_ts last_seq last_ts consumer_count"
    assert empty["first_ts"] == empty["last_ts"] == "0001-01-01T00:00:00Z"
    stage.make(name="T", subjects=[], sources=[{"name": "S"}])
    for subject in (b"s.a", b"s.b", b"s.c"):
        stage.publish(subject)
    stage.ask("STREAM.MSG.DELETE.S", {"seq": 2})
    state = stage.ask("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})["state"]
    assert " ".join(state) == (
        "messages bytes first_seq first_ts last_seq last_ts num_subjects subjects num_deleted"
        " deleted consumer_count"
    )
    info = stage.ask("STREAM.INFO.T")
    assert " ".join(info) == "type total offset limit config created state cluster sources ts"
    assert "_nats.ver" in info["config"]["metadata"]
    assert "_nats.ver" not in stage.ask("STREAM.LIST")["streams"][0]["config"]["metadata"]


def test_consumerEncodedOnce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infos of a consumer share one encoding of its configuration, until that changes."""
    stage = ApiStage()
    stage.make()
    encodings: list[object] = []

    def noted(config: ConsumerConfig) -> ConsumerConfig:
        encodings.append(config)
        return withServer(config)

    monkeypatch.setattr("natsbroker.jetstream.consumers.consumer.withServer", noted)
    body = {"stream_name": "S", "config": {"name": "c"}}
    first = stage.ask("CONSUMER.CREATE.S.c", body)["config"]
    assert [stage.ask("CONSUMER.INFO.S.c")["config"] for _ in range(5)] == [first] * 5
    assert len(encodings) == 1
    body["config"] = {"name": "c", "description": "other"}
    stage.ask("CONSUMER.CREATE.S.c", body)
    assert stage.ask("CONSUMER.INFO.S.c")["config"]["description"] == "other"
    assert len(encodings) == 2


def test_longListsTakeTurns(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A list reads two streams or consumers a turn, and leaves out a stream that is still being
    created.
    """
    monkeypatch.setattr(answering, "SHOWN", 2)
    stage = ApiStage()
    for name in "STUVW":
        stage.make(name=name, subjects=[name])
        consumer = {"stream_name": "S", "config": {"name": name, "ack_policy": "explicit"}}
        stage.ask(f"CONSUMER.CREATE.S.{name}", consumer)
    turn = stage.jetstream.turns.turn
    turns: list[None] = []

    def taken(*cost: int) -> Deferred[None]:
        turns.append(None)
        return turn(*cost)

    monkeypatch.setattr(stage.jetstream.turns, "turn", taken)
    config = replace(stage.jetstream.streams["S"].config, name="X")
    with stage.jetstream.change(config):
        streams = stage.ask("STREAM.LIST")["streams"]
    assert [stream["config"]["name"] for stream in streams] == list("STUVW")
    assert len(turns) == 2
    consumers = stage.ask("CONSUMER.LIST.S")["consumers"]
    assert [info["name"] for info in consumers] == list("STUVW")
    assert len(turns) == 4
