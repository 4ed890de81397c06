"""
Streams and consumers after a restart.
"""

from __future__ import annotations

from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.streams.recovery import recover
from tests.jetstream.api.support import ApiStage


def restarted(stage: ApiStage) -> ApiStage:
    """The same stores with another service."""
    old = stage.jetstream
    stage.api.stop()
    for stream in old.streams.values():
        for consumer in stream.consumers.values():
            stage.wait(consumer.stop("shutdown"))
        stream.close()
    new = JetStreamAccount("A", old.bus, stage.files, stage.memory, old.deadlines, stage.now, "S1")
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


def test_consumers() -> None:
    """A consumer keeps its position."""
    stage = ApiStage()
    stage.make()
    for each in (b"1", b"2", b"3"):
        stage.publish(b"s.a", each)
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


def test_unfinished() -> None:
    """A log whose stream was never finished, or is being deleted, is dropped."""
    stage = ApiStage()
    stage.wait(stage.files.open("jetstream/A/half"))
    stage.wait(stage.files.open("jetstream/B/other"))
    restarted(stage)
    assert stage.wait(stage.files.logs()) == ["jetstream/B/other"]
