"""
Channels and their logs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed
from twisted.internet.task import Clock
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.config.settings.streaming import ChannelLimits, Streaming
from natsbroker.export.logs import ILogConsumer, ILogDirectory
from natsbroker.interfaces.records import StoreError, StoreFailed, StoreFull
from natsbroker.storage.memory import MemoryStore
from natsbroker.streaming import errors
from natsbroker.streaming.channels import Channels
from natsbroker.streaming.errors import Refused
from natsbroker.streaming.model import Channel
from tests.streaming.stores import HeldStore
from tests.streaming.support import Listener, Stage

OPTIONS = Streaming(max_inactivity=10.0)


def held(stage: Stage) -> HeldStore:
    """A store whose commits can wait."""
    return HeldStore(Stage.makeStore(stage))


def test_neverUsed() -> None:
    """A channel without subscriptions is deleted some time after its last message."""
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
    """
    A channel with an active subscription stays; after the last subscription, it has its whole time
    again.
    """
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
    """
    Offline durable subscriptions do not keep a channel from being deleted, and are deleted with it.
    """
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
    assert [
        subscription.durable_name for subscription in stage.model.channelSubscriptions("foo")
    ] == ["d"]


def test_clientDies() -> None:
    """A channel is deleted some time after its only client has left."""
    stage = Stage(OPTIONS)
    client = stage.client()
    client.subscribe("foo")
    client.close()
    stage.advance(10.1)
    assert stage.model.channelNames() == []


def test_createdAgain() -> None:
    """A channel that is used after its deletion is a new one."""
    stage = Stage(OPTIONS)
    client = stage.client()
    client.publish("foo", b"old")
    stage.advance(11)
    client.publish("foo", b"new")
    got = client.subscribe("foo").taken()
    assert [(message.sequence, message.data) for message in got] == [(1, b"new")]


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
    """The deletion of a channel that fails is tried again."""
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
    """An inactive channel is not deleted while a message is being stored."""
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
    """A channel that is found in the store after a restart has its whole time again."""
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
    """The limit can be set for some channels only."""
    settings = Streaming(channels={"tmp.>": {"max_inactivity": 5.0}})
    stage = Stage(settings)
    client = stage.client()
    client.publish("tmp.x", b"1")
    client.publish("foo", b"1")
    stage.advance(100)
    assert stage.model.channelNames() == ["foo"]


class Shelf:
    """Channels over a store whose commits wait."""

    def __init__(self, settings: Streaming | None = None, isHeld: bool = True) -> None:
        self.store = HeldStore(MemoryStore(Clock(), now=lambda: 10**18), isHeld)
        self.created: list[str] = []
        self.channels = Channels(
            self.store,
            replace(settings or Streaming(), cluster_id="c"),
            lambda channel: self.created.append(channel.name),
        )

    def outcome(self, deferred: Any) -> list[Any]:
        """The list that gets the outcome of a Deferred."""
        outcomes: list[Any] = []
        deferred.addBoth(outcomes.append)
        return outcomes


def entries(*data: bytes) -> Any:
    """Entries for a log."""
    return [(b"foo", b"", payload, 0) for payload in data]


class TestDemand:
    """Channels that are created at their first use."""

    def test_newChannel(self) -> None:
        """A new channel exists at once; its log is opened under the channel's name."""
        shelf = Shelf()
        channel = shelf.channels.demand("foo")
        assert shelf.channels.demand("foo") is channel is shelf.channels.get("foo")
        assert (shelf.created, len(shelf.channels), channel.isOpen) == (["foo"], 1, False)
        with pytest.raises(RuntimeError):
            channel.log  # noqa: B018
        shelf.store.commit()
        assert channel.isOpen
        assert channel.log.name == "stan/c/foo"

    def test_tooMany(self) -> None:
        """The number of channels is limited, those being opened included."""
        shelf = Shelf(Streaming(max_channels=1))
        shelf.channels.demand("foo")
        with pytest.raises(Refused, match=errors.TOO_MANY_CHANNELS):
            shelf.channels.demand("bar")
        assert shelf.channels.demand("foo")

    def test_anyNumber(self) -> None:
        """The limit 0 means any number of channels."""
        shelf = Shelf(Streaming(max_channels=0))
        for number in range(200):
            shelf.channels.demand(f"c{number}")
        assert len(shelf.channels) == 200

    def test_namesThatDifferInCase(self) -> None:
        """Names that differ in case only are refused, with nats-streaming-server's error."""
        shelf = Shelf()
        shelf.channels.demand("foo")
        with pytest.raises(Refused) as refused:
            shelf.channels.demand("Foo")
        assert str(refused.value) == (
            'rejecting channel "Foo" because channel "foo" alreay exists '
            "(different cases not allowed)"
        )

    def test_cannotBeOpened(self) -> None:
        """If the log cannot be opened, waiting requests fail, and the channel is removed."""
        shelf = Shelf()
        channel = shelf.channels.demand("foo")
        opened = shelf.outcome(channel.whenOpen())
        stored = shelf.outcome(channel.append(entries(b"x")))
        shelf.store.failing = StoreFull("full")
        shelf.store.commit()
        assert [opened[0].type, stored[0].type] == [StoreFull, StoreFull]
        assert (shelf.channels.get("foo"), channel.inFlight) == (None, 0)
        shelf.store.failing = None
        again = shelf.channels.demand("foo")
        shelf.store.commit()
        assert again.isOpen

    def test_limits(self) -> None:
        """A channel keeps as many messages as its limits allow."""
        settings = Streaming(channels={"foo": {"max_msgs": 2}})
        channel = Shelf(settings, isHeld=False).channels.demand("foo")
        channel.append(entries(b"1", b"2", b"3"))
        assert (channel.bounds.first, channel.bounds.last) == (2, 3)
        assert channel.limits.max_bytes == ChannelLimits().max_bytes


class TestAppend:
    """L{Channel.append}."""

    def test_orderWhileOpening(self) -> None:
        """Messages that were appended before the log was open are stored first."""
        shelf = Shelf()
        channel = shelf.channels.demand("foo")
        first = shelf.outcome(channel.append(entries(b"1")))
        second = shelf.outcome(channel.append(entries(b"2", b"3")))
        assert channel.inFlight == 2
        shelf.store.commit()
        third = shelf.outcome(channel.append(entries(b"4")))
        assert (channel.last, first, third) == (0, [], [])
        shelf.store.commit()
        assert [first, second, third] == [[range(1, 2)], [range(2, 4)], [range(4, 5)]]
        assert (channel.last, channel.inFlight) == (4, 0)

    def test_fails(self) -> None:
        """A message that could not be stored does not count."""
        shelf = Shelf(isHeld=False)
        channel = shelf.channels.demand("foo")
        channel.append(entries(b"1"))
        shelf.store.failing = StoreFull("full")
        failed = shelf.outcome(channel.append(entries(b"2")))
        assert failed[0].type is StoreFull
        assert (channel.last, channel.inFlight) == (1, 0)

    def test_tooLarge(self) -> None:
        """A message that is too large for the store gets that error."""
        channel = Shelf(isHeld=False).channels.demand("foo")
        outcome = Shelf().outcome(channel.append([(b"x" * 70_000, b"", b"", 0)]))
        assert outcome[0].type is ValueError
        assert channel.inFlight == 0

    def test_timestamps(self) -> None:
        """Timestamps never fall, whatever the clock does."""
        channel = Shelf(isHeld=False).channels.demand("foo")
        assert [channel.timestamp(number) for number in (5, 3, 7)] == [5, 5, 7]

    def test_timestampsWhileOpening(self) -> None:
        """Timestamps do not fall when a new channel's log is opened."""
        shelf = Shelf()
        channel = shelf.channels.demand("foo")
        assert channel.timestamp(50) == 50
        shelf.store.commit()
        assert channel.isOpen
        assert channel.timestamp(7) == 50

    def test_timestampsGoOn(self) -> None:
        """Timestamps of a channel that is opened again continue from the last one."""
        shelf = Shelf(isHeld=False)
        shelf.channels.demand("foo").append([(b"foo", b"", b"x", 50)])
        again = Channels(shelf.store, Streaming(cluster_id="c"), lambda channel: None)
        ensureDeferred(again.recover())
        channel = again.get("foo")
        assert channel is not None
        assert channel.timestamp(7) == 50


class TestSettled:
    """L{Channel.settled}."""

    def test_waits(self) -> None:
        """L{Channel.settled} fires when earlier appends are durable."""
        shelf = Shelf()
        channel = shelf.channels.demand("foo")
        channel.append(entries(b"1"))
        settled = shelf.outcome(ensureDeferred(channel.settled()))
        shelf.store.commit()
        assert settled == []
        shelf.store.commit()
        assert settled == [None]

    def test_failure(self) -> None:
        """L{Channel.settled} fires also when earlier appends failed."""
        shelf = Shelf(isHeld=False)
        channel = shelf.channels.demand("foo")
        shelf.store.isHeld, shelf.store.failing = True, StoreFull("full")
        failed = shelf.outcome(channel.append(entries(b"1")))
        settled = shelf.outcome(ensureDeferred(channel.settled()))
        shelf.store.commit()
        assert (len(failed), settled) == (1, [None])

    def test_idle(self) -> None:
        """L{Channel.settled} fires at once when nothing is being stored."""
        shelf = Shelf(isHeld=False)
        channel = shelf.channels.demand("foo")
        assert shelf.outcome(ensureDeferred(channel.settled())) == [None]


class TestRecover:
    """L{Channels.recover}."""

    def test_finds(self) -> None:
        """The cluster's channels are found again; logs of other programs are ignored."""
        shelf = Shelf(isHeld=False)
        shelf.channels.demand("foo").append(entries(b"1"))
        shelf.store.open("stan/other/bar")
        shelf.store.open("stan/c2/bar")
        again = Channels(
            shelf.store, Streaming(cluster_id="c", max_channels=1), lambda channel: None
        )
        ensureDeferred(again.recover())
        assert [(channel.name, channel.last) for channel in again] == [("foo", 1)]

    def test_fails(self) -> None:
        """If a log cannot be opened, recovery fails with that error."""
        shelf = Shelf(isHeld=False)
        shelf.channels.demand("foo")
        shelf.store.failing = StoreFull("full")
        again = Channels(shelf.store, Streaming(cluster_id="c"), lambda channel: None)
        assert shelf.outcome(ensureDeferred(again.recover()))[0].type is StoreFull


class TestDrop:
    """L{Channels.drop}."""

    def test_drops(self) -> None:
        """A channel is refused while it is being deleted; afterwards, it begins again."""
        shelf = Shelf(isHeld=False)
        channel = shelf.channels.demand("foo")
        channel.append(entries(b"1"))
        shelf.store.isHeld = True
        dropped = shelf.outcome(ensureDeferred(shelf.channels.drop(channel)))
        with pytest.raises(Refused, match=errors.BEING_DELETED):
            shelf.channels.demand("foo")
        shelf.store.isHeld = False
        shelf.store.commit()
        assert (dropped, len(shelf.channels)) == ([None], 0)
        again = shelf.channels.demand("foo")
        assert again is not channel
        assert again.bounds.last == 0

    def test_fails(self) -> None:
        """A channel whose deletion failed is usable as before."""
        shelf = Shelf(isHeld=False)
        channel = shelf.channels.demand("foo")
        shelf.store.failing = StoreFull("full")
        failed = shelf.outcome(ensureDeferred(shelf.channels.drop(channel)))
        assert failed[0].type is StoreFull
        assert shelf.channels.demand("foo") is channel


def test_storedMessages() -> None:
    """Messages are read from the store with their reply subjects and timestamps."""
    shelf = Shelf(isHeld=False)
    channel = shelf.channels.demand("foo")
    channel.append(entries(b"1", b"2", b"3"))
    [records] = shelf.outcome(ensureDeferred(channel.read(2, 1)))
    assert [(record.sequence, record.size) for record in records] == [(2, 1)]


class _Plain:
    """A log that cannot be limited."""

    def bounds(self) -> Any:
        """Nothing is there."""
        return MemoryStore(Clock()).open("x").result.bounds()  # type: ignore[attr-defined]


def test_limitsThatTheStoreCannotKeep() -> None:
    """A store whose logs cannot be limited is refused if there are limits."""
    log: Any = _Plain()
    with pytest.raises(StoreError, match="cannot limit"):
        Channel("foo", ChannelLimits()).opened(log)
    unlimited = Channel("foo", ChannelLimits(0, 0, 0))
    unlimited.opened(log)
    assert unlimited.isOpen


@implementer(ILogConsumer)
class User:
    """A user of the logs that remembers when it began and ended."""

    def __init__(self) -> None:
        self.catalogue: Any = None
        self.events: list[str] = []
        self.outcome: Deferred[None] = succeed(None)

    def begin(self, catalogue: ILogDirectory) -> Deferred[None]:
        self.catalogue = catalogue
        self.events.append("begin")
        return self.outcome

    def end(self) -> Deferred[None]:
        self.events.append("end")
        return succeed(None)


def staged(user: User, **more: Any) -> Stage:
    """A service whose logs have such a user."""
    stage = Stage(start=False, **more)
    stage.service._logUsers = (user,)
    stage.start()
    return stage


def test_channels() -> None:
    """A channel with messages can be read as a log."""
    user = User()
    stage = staged(user)
    catalogue = user.catalogue
    assert verifyObject(ILogDirectory, catalogue)
    assert (catalogue.kind, catalogue.realm, catalogue.names()) == ("CHANNEL", "test-cluster", [])
    client = stage.client()
    client.publish("foo", b"x")
    client.publish("bar.baz", b"y")
    assert catalogue.names() == ["bar.baz", "foo"]
    assert catalogue.find("foo").bounds().last == 1
    assert catalogue.find("other") is None


def test_notOpenYet() -> None:
    """A channel whose log is still being opened is not listed."""
    user = User()
    stage = staged(user, makeStore=lambda stage: HeldStore(Stage.makeStore(stage)))
    client = stage.client()
    stage.store.isHeld = True
    client.publishMany("foo", [b"x"])
    stage.settle()
    assert (user.catalogue.names(), user.catalogue.find("foo")) == ([], None)
    stage.store.isHeld = False
    stage.store.commit()
    stage.settle()
    assert user.catalogue.names() == ["foo"]


def test_states() -> None:
    """Users of the logs can keep their state in the same store."""
    user = User()
    stage = staged(user)
    user.catalogue.states().put(b"key", b"value")
    results: list[Any] = []
    stage.store.states("pipeline/stan/test-cluster").load().addCallback(results.append)
    assert results == [{b"key": b"value"}]


def test_beginsAndEnds() -> None:
    """Users of the logs begin when the channels are served, and end before the store is closed."""
    user = User()
    stage = staged(user)
    assert user.events == ["begin"]
    stage.stop()
    assert user.events == ["begin", "end"]


def test_cannotBegin() -> None:
    """If a user of the logs cannot begin, the service cannot start, and ends the user again."""
    user = User()
    user.outcome = fail(StoreFailed("broken"))
    stage = Stage(start=False)
    stage.service._logUsers = (user,)
    stage.service.startService()
    outcome: list[Any] = []
    stage.service.whenPrepared().addBoth(outcome.append)
    stage.settle()
    assert outcome[0].type is StoreFailed
    stage.stop()
    assert user.events == ["begin", "end"]


def test_servedElsewhere() -> None:
    """
    When another broker takes over, a user of the logs ends; it begins again when this service
    serves again.
    """
    user = User()
    stage = staged(user)
    stage.service._watch.logLost("foo")
    stage.settle()
    assert user.events == ["begin", "end"]
    stage.advance(1.5)
    assert user.events == ["begin", "end", "begin"]
    stage.stop()


def test_heldChannelStays() -> None:
    """An unused channel is not deleted while a hold keeps its messages."""
    user = User()
    settings = Streaming(max_inactivity=10.0)
    stage = staged(user, settings=settings)
    stage.client().publish("foo", b"x")
    log = user.catalogue.find("foo")
    log.hold("archive", 1)
    stage.advance(25)
    assert user.catalogue.names() == ["foo"]
    log.hold("archive", 2)
    stage.advance(25)
    assert user.catalogue.names() == []
