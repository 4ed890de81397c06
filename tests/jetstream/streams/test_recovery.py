"""
Streams and consumers after a restart.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import fail

from natsbroker.interfaces.records import StoreFull
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.streams import recovery
from natsbroker.jetstream.streams.recovery import createStream, recover
from natsbroker.jetstream.streams.stream import Stream, consumerKeys
from natsbroker.storage.memory import MemoryStates
from tests.jetstream.api.support import ApiStage


def restarted(stage: ApiStage) -> ApiStage:
    """The same stores with another service."""
    old = stage.jetstream
    stage.api.stop()
    for stream in old.streams.values():
        for consumer in stream.consumers.values():
            stage.wait(consumer.stop("shutdown"))
        stream.close()
    new = JetStreamAccount("A", old.bus, stage.server)
    stage.wait(recover(new))
    stage.jetstream = new
    stage.api.__init__(new, stage.api._routes)  # type: ignore[misc]
    stage.api.start()
    return stage


def test_streams() -> None:
    """A stream keeps its messages, its configuration and the ids of the duplicate window."""
    stage = ApiStage()
    created = stage.make(max_msgs=5)["created"]
    stage.publish(b"s.a", b"1", Nats_Msg_Id="x")
    restarted(stage)
    info = stage.ask("STREAM.INFO.S")
    assert info["created"] == created
    assert info["config"]["max_msgs"] == 5
    assert info["state"]["messages"] == 1
    assert b'"duplicate": true' in stage.publish(b"s.a", b"1", Nats_Msg_Id="x")
    assert stage.publish(b"s.b", Nats_Expected_Last_Msg_Id="x").endswith(b'"seq":2}')


def test_withoutIds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart reads the messages for the duplicate window only if one of them had an id."""
    stage = ApiStage()
    stage.make()
    recovered: list[str] = []
    read = recovery.recoverDuplicates

    async def noted(stream: Stream) -> None:
        recovered.append(stream.name)
        await read(stream)

    monkeypatch.setattr(recovery, "recoverDuplicates", noted)
    stage.publish(b"s.a", b"1")
    for _ in range(2):
        restarted(stage)
    assert recovered == []
    stage.publish(b"s.a", b"1", Nats_Msg_Id="x")
    for _ in range(2):
        restarted(stage)
    assert recovered == ["S", "S"]
    assert b'"duplicate": true' in stage.publish(b"s.a", b"1", Nats_Msg_Id="x")


def test_idsBeforeMessages(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is recorded that a stream has message ids before the first such message, and again if that
    failed.
    """
    stage = ApiStage()
    stage.make()
    stream = stage.jetstream.streams["S"]
    states = MemoryStates.change
    written: list[str] = []
    failures = [StoreFull("full")]

    def change(self: Any, changes: Any) -> Any:
        written.append("state")
        return fail(failures.pop()) if failures else states(self, changes)

    append = stream.log.append

    def appended(batch: Any) -> Any:
        written.append("messages")
        return append(batch)

    monkeypatch.setattr(MemoryStates, "change", change)
    monkeypatch.setattr(stream.log, "append", appended)
    stage.publish(b"s.a", b"1", Nats_Msg_Id="x")
    assert written == ["state", "messages"]
    stage.clock.advance(recovery.RETRY)
    assert written == ["state", "messages", "state"]
    stage.publish(b"s.a", b"1", Nats_Msg_Id="y")
    assert written[3:] == ["messages"]


def test_consumers() -> None:
    """A consumer keeps its position."""
    stage = ApiStage()
    stage.make()
    for payload in (b"1", b"2", b"3"):
        stage.publish(b"s.a", payload)
    config = {"durable_name": "d", "ack_policy": "explicit"}
    stage.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": config})
    inbox = stage.inbox(b"_INBOX.pull")
    stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S.d", b"", b"_INBOX.pull")
    stage.settle()
    (message,) = inbox.got
    stage.send(message.reply, b"+ACK", b"_INBOX.ack")
    stage.settle()
    restarted(stage)
    info = stage.ask("CONSUMER.INFO.S.d")
    assert info["delivered"]["stream_seq"] == info["ack_floor"]["stream_seq"] == 1
    assert info["num_pending"] == 2


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
def test_memoryConsumers(retention: str) -> None:
    """
    A consumer in memory is gone after a restart, and its name is free. The messages of a work queue
    stay.
    """
    stage = ApiStage()
    stage.make(retention=retention)
    memory = {"name": "m", "durable_name": "m", "ack_policy": "explicit", "mem_storage": True}
    file = {**memory, "name": "f", "durable_name": "f", "mem_storage": False}
    for name, config in (("m", memory), ("f", file)):
        body = {"stream_name": "S", "config": {**config, "filter_subject": f"s.{name}"}}
        assert "error" not in stage.ask(f"CONSUMER.CREATE.S.{name}.s.{name}", body)
    stage.publish(b"s.m", b"1")
    stage.publish(b"s.f", b"2")
    for _ in range(2):
        restarted(stage)
        assert stage.ask("CONSUMER.NAMES.S")["consumers"] == ["f"]
    assert stage.ask("STREAM.INFO.S")["state"]["messages"] == 2
    body = {"stream_name": "S", "config": {**memory, "filter_subject": "s.m"}}
    assert "error" not in stage.ask("CONSUMER.DURABLE.CREATE.S.m", body)


def test_storedMemoryConsumer() -> None:
    """A consumer in memory that an earlier version of the broker stored ends, too."""
    stage = ApiStage()
    stage.make()
    config = {"name": "m", "durable_name": "m", "ack_policy": "explicit"}
    stage.ask("CONSUMER.DURABLE.CREATE.S.m", {"stream_name": "S", "config": config})
    key, _ = consumerKeys("S", "m")
    states = stage.jetstream.states
    kept = json.loads(stage.wait(states.load())[key])
    kept["config"]["mem_storage"] = True
    stage.wait(states.put(key, json.dumps(kept).encode()))
    restarted(stage)
    assert not stage.ask("CONSUMER.NAMES.S")["consumers"]
    assert key not in stage.wait(stage.jetstream.states.load())


def test_lastMemoryConsumer() -> None:
    """
    With interest retention, a message for a consumer in memory stays over restarts until the
    consumer is created again.
    """
    stage = ApiStage()
    stage.make(retention="interest")
    config = {"name": "m", "durable_name": "m", "ack_policy": "explicit", "mem_storage": True}
    body = {"stream_name": "S", "config": config}
    stage.ask("CONSUMER.DURABLE.CREATE.S.m", body)
    stage.publish(b"s.a", b"1")
    for _ in range(2):
        restarted(stage)
        stage.settle()
        assert stage.ask("STREAM.INFO.S")["state"]["messages"] == 1
    assert stage.ask("CONSUMER.DURABLE.CREATE.S.m", body)["num_pending"] == 1


def test_unfinished() -> None:
    """A log without a configuration of a stream is dropped at the start."""
    stage = ApiStage()
    stage.wait(stage.files.open("jetstream/A/half"))
    stage.wait(stage.files.open("jetstream/B/other"))
    restarted(stage)
    assert stage.wait(stage.files.logs()) == ["jetstream/B/other"]


def _consume(stage: ApiStage, name: str) -> None:
    config = {"durable_name": name, "ack_policy": "explicit"}
    stage.ask(f"CONSUMER.DURABLE.CREATE.S.{name}", {"stream_name": "S", "config": config})


def _fetch(stage: ApiStage, name: str) -> bytes:
    """The reply subject of a consumer's next message."""
    inbox = stage.inbox(b"_INBOX.pull")
    stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S.%b" % name.encode(), b"", b"_INBOX.pull")
    stage.settle()
    (message,) = inbox.got
    return bytes(message.reply)


def test_workQueueRemovesFirst() -> None:
    """
    A message is removed from a work queue before the acknowledgement is stored, so that a kill
    never leaves it behind.
    """
    stage = ApiStage()
    stage.make(retention="workqueue")
    _consume(stage, "d")
    stage.publish(b"s.a", b"1")
    reply = _fetch(stage, "d")
    stream = stage.jetstream.streams["S"]
    order: list[str] = []
    delete, states = stream.log.delete, stage.files.states("jetstream/A")

    def deleting(sequences: Any) -> Any:
        order.append("removed")
        return delete(sequences)

    stream.log.delete = deleting
    put = states.put

    def putting(key: bytes, value: bytes) -> Any:
        if key == consumerKeys("S", "d")[1]:
            order.append("written")
        return put(key, value)

    states.put = putting
    stage.send(reply, b"+ACK", b"_INBOX.ack")
    stage.settle()
    assert order == ["removed", "written"]


def test_settledWithInterest() -> None:
    """
    With interest retention, an acknowledged message that was not yet removed is removed after a
    restart.
    """
    stage = ApiStage()
    stage.make(retention="interest")
    _consume(stage, "d")
    for payload in (b"1", b"2"):
        stage.publish(b"s.a", payload)
    stage.jetstream.streams["S"].settled = lambda *_: None  # type: ignore[method-assign]
    stage.send(_fetch(stage, "d"), b"+ACK", b"_INBOX.ack")
    stage.settle()
    assert stage.ask("STREAM.INFO.S")["state"]["messages"] == 2
    restarted(stage)
    stage.settle()
    state = stage.ask("STREAM.INFO.S")["state"]
    assert (state["messages"], state["first_seq"]) == (1, 2)


def test_consumerWithoutStream() -> None:
    """
    A consumer that was left behind by a deleted stream does not appear in a new stream of that
    name.
    """
    stage = ApiStage()
    stage.make()
    _consume(stage, "d")
    consumers = stage.jetstream.streams["S"].consumers
    consumers.remove(consumers["d"])
    stage.ask("STREAM.DELETE.S")
    restarted(stage)
    stage.make()
    restarted(stage)
    assert stage.ask("STREAM.INFO.S")["state"]["consumer_count"] == 0


def test_staleLog() -> None:
    """A new stream does not have the messages of a log that an earlier stream of that name left."""
    stage = ApiStage()
    config = stage.make()
    stage.publish(b"s.a", b"1")
    stream = stage.jetstream.streams.pop("S")
    stream.close()
    again = stage.wait(createStream(stage.jetstream, stream.config))
    assert (again.messages, again.last) == (0, 0)
    assert config["did_create"]
