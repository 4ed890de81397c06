"""Streams of channels that are created, deleted, and created again."""

from __future__ import annotations

import json
from collections.abc import Mapping

from twisted.internet.defer import Deferred, fail

from natsbroker.interfaces.records import StoreFull
from natsbroker.jetstream.channels.channelstreams import RETRY, ChannelStreams, channelSpace
from tests.jetstream.channels.support import SharedStage


class _Full:
    """State that can be neither read nor written."""

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        """Refuse a change."""
        return fail(StoreFull("the store is full"))

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        """Refuse to load."""
        return fail(StoreFull("the store is full"))


def names(stage: SharedStage) -> list[str]:
    """The streams of the account."""
    return list(stage.js("STREAM.NAMES")["streams"] or ())


def test_given() -> None:
    """A channel belongs to the account of the narrowest pattern that matches the channel."""
    stage = SharedStage({"orders.>": "A", "orders.eu.*": "B", ">": "B"})
    client = stage.client()
    for channel in ("orders.us", "orders.eu.x", "other"):
        client.publish(channel)
    assert names(stage) == ["orders_us"]


def test_restart() -> None:
    """
    When NATS Streaming restarts, the stream of a channel keeps its creation time and its consumers'
    positions.
    """
    stage = SharedStage()
    client = stage.client()
    client.publishMany("c", [b"one", b"two", b"three"])
    stage.settle()
    stage.durable("c")
    first, _ = stage.fetch("c", batch=2)
    stage.answers(first.reply.decode(), b"+ACK")
    created = stage.js("STREAM.INFO.c")["created"]
    stage.service.stopService()
    stage.advance(5)
    assert names(stage) == []
    stage.restart()
    assert names(stage) == ["c"]
    assert stage.js("STREAM.INFO.c")["created"] == created
    info = stage.js("CONSUMER.INFO.c.d")
    assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"]) == (1, 1)
    assert [message.payload for message in stage.fetch("c")] == [b"three"]
    client.publish("c", b"four")
    assert [message.payload for message in stage.fetch("c")] == [b"four"]


def test_jetStreamRestarts() -> None:
    """
    When JetStream restarts, the consumers of a channel continue. Waiting pull requests are notified
    of the stop.
    """
    stage = SharedStage()
    client = stage.client()
    client.publish("c", b"one")
    stage.durable("c")
    (first,) = stage.fetch("c")
    stage.answers(first.reply.decode(), b"+ACK")
    inbox = stage.inbox(b"_INBOX.wait")
    stage.tell("$JS.API.CONSUMER.MSG.NEXT.c.d", {"batch": 2, "expires": 10**10}, b"_INBOX.wait")
    stage.settle()
    stage.stopJetStream()
    assert b"409 Server Shutdown" in inbox.got[0].headers
    assert client.publish("c", b"two") == ""
    stage.restartJetStream()
    assert [message.payload for message in stage.fetch("c")] == [b"two"]


def test_deleted() -> None:
    """
    A stream and its consumers are deleted with its channel. A later channel of the name is another
    stream.
    """
    stage = SharedStage(max_inactivity=10.0)
    client = stage.client()
    client.publish("c", b"one")
    stage.durable("c")
    inbox = stage.inbox(b"_INBOX.wait")
    stage.fetch("c")
    stage.tell("$JS.API.CONSUMER.MSG.NEXT.c.d", {"expires": 10**11}, b"_INBOX.wait")
    stage.advance(11)
    assert b"409 Consumer Deleted" in inbox.got[-1].headers
    assert names(stage) == []
    client.publish("c", b"two")
    assert names(stage) == ["c"]
    assert stage.js("CONSUMER.NAMES.c")["consumers"] == []


def test_replaced() -> None:
    """
    If a channel is deleted and created again while JetStream is stopped, the new channel has no
    consumers.
    """
    stage = SharedStage()
    client = stage.client()
    client.publish("c", b"one")
    stage.durable("c")
    stage.fetch("c")
    stage.stopJetStream()
    channel = stage.service.context.channels.get("c")
    assert channel is not None
    stage.service.run(stage.service.context.delete(channel))
    stage.settle()
    client.publish("c", b"new")
    stage.restartJetStream()
    assert stage.js("CONSUMER.NAMES.c")["consumers"] == []
    stage.durable("c")
    assert [message.payload for message in stage.fetch("c")] == [b"new"]


def test_cutOver() -> None:
    """
    After a channel is taken from an account, the mirror of the channel can take over its subject
    and continue its sequences.
    """
    stage = SharedStage()
    client = stage.client()
    client.publishMany("c", [b"one", b"two"])
    stage.settle()
    body = {"name": "KEPT", "subjects": ["c"]}
    assert stage.failure("STREAM.CREATE.KEPT", body)[0] == 10065
    stage.js("STREAM.CREATE.KEPT", {"name": "KEPT", "mirror": {"name": "c"}})
    stage.advance(1)
    assert stage.js("STREAM.INFO.KEPT")["mirror"]["lag"] == 0
    stage.stopJetStream()
    stage.service.stopService()
    stage.settle()
    stage.links = ChannelStreams(lambda channel: "", True)
    stage.restart()
    stage.restartJetStream()
    assert "error" not in stage.js("STREAM.UPDATE.KEPT", body)
    (answer,) = stage.answers("c", b"three")
    assert json.loads(answer.payload) == {"stream": "KEPT", "seq": 3}
    assert stage.js("STREAM.INFO.KEPT")["state"]["messages"] == 3


def test_nameIsTaken() -> None:
    """A channel gets no stream if another stream or channel already has the stream's name."""
    stage = SharedStage()
    client = stage.client()
    stage.js("STREAM.CREATE.a_b", {"name": "a_b", "subjects": ["x"]})
    for channel in ("a.b", "c_d", "c.d"):
        client.publish(channel)
    assert stage.js("STREAM.INFO.a_b")["config"]["subjects"] == ["x"]
    assert stage.js("STREAM.INFO.c_d")["config"]["subjects"] == ["c_d"]
    stage.service.stopService()
    stage.settle()
    stage.restart()
    assert stage.js("STREAM.INFO.c_d")["config"]["subjects"] == ["c_d"]
    assert names(stage) == ["a_b", "c_d"]


def test_advisories() -> None:
    """Streams of new and deleted channels are announced by advisories, as all streams are."""
    stage = SharedStage(max_inactivity=10.0)
    inbox = stage.inbox(b"$JS.EVENT.ADVISORY.STREAM.>")
    stage.client().publish("c")
    stage.advance(11)
    told = [json.loads(message.payload) for message in inbox.got]
    assert [(report["stream"], report["action"]) for report in told] == [
        ("c", "create"),
        ("c", "delete"),
    ]


def test_fullStore() -> None:
    """
    If the state of a new channel's stream cannot be stored, the channel works for NATS Streaming,
    and the stream appears later.
    """
    stage = SharedStage()
    client = stage.client()
    client.publish("a")
    states = stage.store.states
    stage.store.states = lambda space: _Full() if "jetstream" in space else states(space)
    assert client.publish("b") == ""
    assert names(stage) == ["a"]
    stage.store.states = states
    stage.advance(RETRY)
    assert names(stage) == ["a", "b"]


def test_storeFailsAtStart() -> None:
    """An account whose state cannot be read has no channels until it can."""
    stage = SharedStage()
    stage.client().publish("a")
    stage.stopJetStream()
    states = stage.store.states
    stage.store.states = lambda space: _Full() if "jetstream" in space else states(space)
    stage.restartJetStream()
    assert names(stage) == []
    stage.store.states = states
    stage.advance(RETRY)
    assert names(stage) == ["a"]


def test_space() -> None:
    """
    The name of a space has at most 100 characters, even for the longest names of channel and
    account.
    """
    assert len(channelSpace("c" * 64, "A" * 200)) <= 100
