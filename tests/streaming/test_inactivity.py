"""
Deleting channels that nobody uses.
"""

from __future__ import annotations

from natsbroker.interfaces.records import StoreFull
from natsbroker.streaming import errors
from natsbroker.streaming.settings import Streaming
from tests.streaming.stores import HeldStore
from tests.streaming.support import Listener, Stage

OPTIONS = Streaming(max_inactivity=10.0)


def held(stage: Stage) -> HeldStore:
    """A store whose commits can wait."""
    return HeldStore(Stage.makeStore(stage))


def test_neverUsed() -> None:
    """A channel that nobody subscribes to goes some time after its last message."""
    stage = Stage(OPTIONS)
    client = stage.client()
    client.publish("foo", b"1")
    stage.advance(8)
    client.publish("foo", b"2")
    stage.advance(9.9)
    assert stage.model.channelNames() == ["foo"]
    stage.advance(0.2)
    assert stage.model.channelNames() == []


def test_subscribed() -> None:
    """A channel with an active subscription stays, and has the whole time after the last left."""
    stage = Stage(OPTIONS)
    client = stage.client()
    one, two = client.subscribe("foo"), client.subscribe("foo")
    stage.advance(60)
    one.unsubscribe()
    stage.advance(60)
    two.unsubscribe()
    stage.advance(9.9)
    assert stage.model.channelNames() == ["foo"]
    stage.advance(0.2)
    assert stage.model.channelNames() == []


def test_offlineDoesNotCount() -> None:
    """Offline durable subscriptions do not keep a channel; they go with it."""
    stage = Stage(OPTIONS)
    client = stage.client()
    client.subscribe("foo", durableName="d").close()
    client.subscribe("foo", durableName="e", qGroup="q").close()
    stage.advance(10.1)
    assert stage.model.channelNames() == []
    client.publish("foo", b"1")
    assert client.subscribe("foo", durableName="d").sequences == [1]
    stage.stop()
    stage.restart()
    assert [each.durable_name for each in stage.model.channelSubscriptions("foo")] == ["d"]


def test_clientDies() -> None:
    """A client that is gone leaves its channels."""
    stage = Stage(OPTIONS)
    client = stage.client()
    client.subscribe("foo")
    client.close()
    stage.advance(10.1)
    assert stage.model.channelNames() == []


def test_beginsAnew() -> None:
    """A channel that is used again after it was deleted is a new one."""
    stage = Stage(OPTIONS)
    client = stage.client()
    client.publish("foo", b"old")
    stage.advance(11)
    client.publish("foo", b"new")
    got = client.subscribe("foo").taken()
    assert [(each.sequence, each.data) for each in got] == [(1, b"new")]


def test_whileItIsDeleted() -> None:
    """Publishing and subscribing are refused while a channel is being deleted."""
    stage = Stage(OPTIONS, held)
    client = stage.client()
    client.publish("foo", b"1")
    stage.store.isHeld = True
    stage.advance(11)
    assert client.publish("foo", b"2") == errors.BEING_DELETED
    assert Listener(client, "foo").subscribe() == errors.BEING_DELETED
    stage.store.isHeld = False
    stage.store.commit()
    assert client.publish("foo", b"3") == ""
    assert stage.model.channel("foo").msgs == 1


def test_cannotBeDeleted() -> None:
    """A channel that cannot be deleted now is tried again."""
    stage = Stage(OPTIONS, held)
    client = stage.client()
    client.publish("foo", b"1")
    stage.store.failing = StoreFull("no space")
    stage.advance(11)
    stage.store.failing = None
    assert client.publish("foo", b"2") == ""
    stage.advance(20.2)
    assert stage.model.channelNames() == []


def test_whileSomebodySubscribes() -> None:
    """A channel is not deleted while a subscription to it is being made."""
    stage = Stage(OPTIONS, held)
    client = stage.client()
    client.publish("foo", b"1")
    stage.advance(9.9)
    stage.store.isHeld = True
    listener = Listener(client, "foo")
    listener.subscribe()
    stage.advance(5)
    stage.store.isHeld = False
    stage.store.commit()
    stage.settle()
    assert (listener.answer.error, listener.sequences) == ("", [1])


def test_whileSomethingIsStored() -> None:
    """Nor while a message is being stored."""
    stage = Stage(OPTIONS, held)
    client = stage.client()
    client.publish("foo", b"1")
    stage.advance(9.9)
    stage.store.isHeld = True
    inbox = client.publishMany("foo", [b"2"])
    stage.advance(5)
    stage.store.isHeld = False
    stage.store.commit()
    stage.settle()
    assert len(inbox.got) == 1
    assert stage.model.channel("foo").msgs == 2


def test_afterRestart() -> None:
    """A channel that is found in the store has the whole time."""
    stage = Stage(OPTIONS)
    stage.client().publish("foo", b"1")
    stage.advance(9)
    stage.stop()
    stage.restart()
    stage.advance(9.9)
    assert stage.model.channelNames() == ["foo"]
    stage.advance(0.2)
    assert stage.model.channelNames() == []


def test_someChannels() -> None:
    """The limit can hold for some channels only."""
    settings = Streaming(channels={"tmp.>": {"max_inactivity": 5.0}})
    stage = Stage(settings)
    client = stage.client()
    client.publish("tmp.x", b"1")
    client.publish("foo", b"1")
    stage.advance(100)
    assert stage.model.channelNames() == ["foo"]
