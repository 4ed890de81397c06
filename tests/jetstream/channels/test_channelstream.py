"""
Channels as streams, while both serve.
"""

from __future__ import annotations

import json

from natsbroker.jetstream.channels.channelstream import WRITTEN_ELSEWHERE, streamNameOf
from natsbroker.jetstream.model.limits import JetStreamLimits
from tests.jetstream.channels.support import SharedStage


def test_name() -> None:
    """
    Full stops and path separators of a channel's name become underscores in the stream's name.
    """
    assert streamNameOf("orders.eu.a\\b") == "orders_eu_a_b"


def test_appears() -> None:
    """A channel is a stream with its limits and its messages, found by its subject."""
    stage = SharedStage(max_msgs=2, max_bytes=1000, max_age=60.0)
    client = stage.client()
    for number in range(3):
        assert client.publish("orders.eu", b"%d" % number) == ""
    info = stage.js("STREAM.INFO.orders_eu")
    assert info["config"]["subjects"] == ["orders.eu"]
    assert (info["config"]["max_msgs"], info["config"]["max_age"]) == (2, 60_000_000_000)
    assert (info["config"]["deny_delete"], info["config"]["deny_purge"]) == (True, True)
    state = info["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (2, 2, 3)
    assert stage.js("STREAM.NAMES", {"subject": "orders.*"})["streams"] == ["orders_eu"]
    assert stage.js("STREAM.LIST")["total"] == 1


def test_messages() -> None:
    """
    Messages of a channel can be read one by one, by the API and by direct get. Their reply subject
    is a header.
    """
    stage = SharedStage()
    client = stage.client()
    client.publish("c", b"one", reply="answer.here")
    client.publish("c", b"two")
    got = stage.js("STREAM.MSG.GET.c", {"last_by_subj": "c"})["message"]
    assert (got["subject"], got["seq"], got["data"]) == ("c", 2, "dHdv")
    (direct,) = stage.answers("$JS.API.DIRECT.GET.c", {"seq": 1})
    assert direct.payload == b"one"
    assert b"Stan-Reply: answer.here\r\n" in direct.headers
    assert b"Nats-Sequence: 1\r\n" in direct.headers


def test_refusals() -> None:
    """JetStream requests do not change a channel, and each one gets an error."""
    stage = SharedStage()
    client = stage.client()
    client.publish("c", b"one")
    (answer,) = stage.answers("c", b"two")
    error = json.loads(answer.payload)["error"]
    assert (error["err_code"], error["description"]) == (10077, WRITTEN_ELSEWHERE)
    stage.tell("c", b"three")
    assert stage.failure("STREAM.PURGE.c") == (10110, "stream purge not permitted")
    assert stage.failure("STREAM.MSG.DELETE.c", {"seq": 1})[0] == 10057
    assert stage.failure("STREAM.DELETE.c")[0] == 10050
    assert stage.failure("STREAM.UPDATE.c", {"name": "c", "subjects": ["c"]})[0] == 10069
    assert stage.failure("STREAM.CREATE.c", {"name": "c", "subjects": ["c"]})[0] == 10058
    assert stage.failure("STREAM.CREATE.o", {"name": "o", "subjects": ["*"]})[0] == 10065
    assert stage.js("STREAM.INFO.c")["state"]["messages"] == 1


def test_pull() -> None:
    """
    A pull consumer on a channel gets stored and later messages. A subscription of NATS Streaming
    gets them too.
    """
    stage = SharedStage()
    client = stage.client()
    client.publish("c", b"one")
    assert "error" not in stage.durable("c")
    listener = client.subscribe("c")
    (first,) = stage.fetch("c")
    assert first.payload == b"one"
    inbox = stage.inbox(b"_INBOX.wait")
    stage.tell("$JS.API.CONSUMER.MSG.NEXT.c.d", {"batch": 2, "expires": 10**10}, b"_INBOX.wait")
    client.publishMany("c", [b"two", b"three"])
    stage.settle()
    assert inbox.payloads == [b"two", b"three"]
    assert listener.data == [b"one", b"two", b"three"]
    assert stage.answers(first.reply.decode(), b"+ACK")[0].payload == b""
    info = stage.js("CONSUMER.INFO.c.d")
    assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"]) == (1, 2)


def test_push() -> None:
    """A push consumer receives what clients of NATS Streaming publish."""
    stage = SharedStage()
    client = stage.client()
    client.publish("c", b"one")
    inbox = stage.inbox(b"pushed")
    made = stage.durable("c", deliver_subject="pushed", ack_policy="none")
    assert made["push_bound"]
    client.publish("c", b"two")
    assert inbox.payloads == [b"one", b"two"]


def test_limits() -> None:
    """A message that the channel's limits remove is pending for no consumer."""
    stage = SharedStage(max_msgs=2)
    client = stage.client()
    client.publish("c", b"one")
    stage.durable("c")
    assert len(stage.fetch("c")) == 1
    for body in (b"two", b"three", b"four"):
        client.publish("c", body)
    info = stage.js("CONSUMER.INFO.c.d")
    assert (info["num_ack_pending"], info["num_pending"]) == (0, 2)
    assert [message.payload for message in stage.fetch("c")] == [b"three", b"four"]


def test_accountLimits() -> None:
    """
    Messages in channels do not count for the storage limits of the account, and channels not for
    max_streams.
    """
    stage = SharedStage(limits=JetStreamLimits(max_streams=1, max_storage=1000, max_memory=1000))
    client = stage.client()
    client.publish("c", bytes(5000))
    made = stage.js("STREAM.CREATE.s", {"name": "s", "subjects": ["s"]})
    assert "error" not in made
    assert stage.failure("STREAM.CREATE.t", {"name": "t", "subjects": ["t"]})[0] == 10027
    info = stage.js("INFO")
    assert (info["storage"], info["streams"]) == (0, 2)


def test_mirror() -> None:
    """A stream copies a channel, with its sequences."""
    stage = SharedStage()
    client = stage.client()
    client.publish("c", b"one")
    stage.js("STREAM.CREATE.copy", {"name": "copy", "mirror": {"name": "c"}})
    stage.advance(1)
    client.publish("c", b"two")
    stage.advance(1)
    got = stage.js("STREAM.MSG.GET.copy", {"seq": 2})["message"]
    assert (got["subject"], got["data"]) == ("c", "dHdv")
