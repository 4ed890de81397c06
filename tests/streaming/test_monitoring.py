"""
Figures about the service.
"""

from __future__ import annotations

from dataclasses import asdict

import pytest

from natsbroker.interfaces.records import StoreFull
from natsbroker.streaming.monitoring import ChannelFigures, ClientFigures, StreamingModel
from tests.streaming.stores import HeldStore
from tests.streaming.support import Stage


def test_service() -> None:
    """The service's figures are sums over its clients and channels."""
    stage = Stage()
    client = stage.client()
    stage.client("other")
    client.publish("foo", b"12345")
    client.publish("bar", b"1")
    client.subscribe("foo")
    client.subscribe("foo", durableName="d").close()
    assert asdict(stage.model.figures()) == {
        "cluster_id": "test-cluster",
        "state": "STANDALONE",
        "store": "MEMORY",
        "clients": 2,
        "subscriptions": 2,
        "channels": 2,
        "total_msgs": 2,
        "total_bytes": 12,
        "in_msgs": 2,
        "in_bytes": stage.model.figures().in_bytes,
        "out_msgs": 2,
        "out_bytes": stage.model.figures().out_bytes,
    }


def test_client() -> None:
    """A client is shown with its heartbeat inbox and its active subscriptions, by channel."""
    stage = Stage()
    client = stage.client()
    client.subscribe("foo")
    client.subscribe("foo", durableName="d")
    client.subscribe("bar")
    client.subscribe("bar", durableName="d").close()
    assert stage.model.client("me") == ClientFigures("me", client.heartbeats.subject.decode(), 3)
    subscriptions = stage.model.clientSubscriptions("me")
    assert {name: len(listed) for name, listed in subscriptions.items()} == {"foo": 2, "bar": 1}
    assert stage.model.clientNames() == ["me"]


def test_channel() -> None:
    """A channel is shown with its messages and its sequences."""
    stage = Stage()
    client = stage.client()
    client.subscribe("empty")
    for data in (b"1", b"22"):
        client.publish("foo", data)
    assert stage.model.channel("foo") == ChannelFigures("foo", 2, 9, 1, 2, 0)
    assert stage.model.channel("empty") == ChannelFigures("empty", 0, 0, 0, 0, 1)
    assert stage.model.channelNames() == ["empty", "foo"]


def test_subscription() -> None:
    """A subscription is shown with its delivered and its pending messages."""
    stage = Stage()
    client = stage.client()
    client.publishMany("foo", [b"1", b"2", b"3"])
    listener = client.subscribe(
        "foo", durableName="d", maxInFlight=2, ackWaitInSecs=7, isAcking=False
    )
    listener.taken()
    [figures] = stage.model.channelSubscriptions("foo")
    assert asdict(figures) == {
        "client_id": "me",
        "inbox": listener.inbox.subject.decode(),
        "ack_inbox": listener.ackInbox.decode(),
        "durable_name": "d",
        "queue_name": "",
        "is_durable": True,
        "is_offline": False,
        "max_inflight": 2,
        "ack_wait": 7,
        "last_sent": 2,
        "pending_count": 2,
        "is_stalled": True,
    }


def test_unknown() -> None:
    """An unknown name raises KeyError; so does a channel whose log is not open yet."""
    stage = Stage(makeStore=lambda stage: HeldStore(Stage.makeStore(stage)))
    client = stage.client()
    for ask in (stage.model.client, stage.model.clientSubscriptions, stage.model.channel):
        with pytest.raises(KeyError):
            ask("nobody")
    stage.store.isHeld = True
    client.publishMany("foo", [b"x"])
    stage.settle()
    with pytest.raises(KeyError):
        stage.model.channel("foo")
    assert stage.model.figures().channels == 1


def test_trouble() -> None:
    """A service whose store accepts no writes has the state FAILED."""
    stage = Stage()
    stage.service._watch.writesStopped("no space")
    assert stage.model.figures().state == "FAILED"
    stage.service._watch.writesResumed()
    assert stage.model.figures().state == "STANDALONE"


def test_notRunning() -> None:
    """A service that is not running has no figures."""
    stage = Stage()
    stage.stop()
    with pytest.raises(RuntimeError):
        StreamingModel(stage.service).figures()


def test_failed() -> None:
    """A channel that could not be created is not counted."""
    stage = Stage(makeStore=lambda stage: HeldStore(Stage.makeStore(stage)))
    client = stage.client()
    stage.store.failing = StoreFull("full")
    client.publish("foo", b"x")
    assert stage.model.figures().channels == 0
