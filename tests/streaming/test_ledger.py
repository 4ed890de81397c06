"""
The state that the service stores beside the channels' logs.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from natsbroker.config.settings.streaming import ChannelLimits
from natsbroker.interfaces.records import StoreFull, UnknownFormat
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.storage.memory import MemoryStore
from natsbroker.streaming.ledger import ANNOUNCED, DELAY, RETRY, Ledger, Remembered, ServiceState
from natsbroker.streaming.model import Channel, ChannelSubscription, Group, StreamingClient
from tests.streaming.stores import HeldStore


class Desk:
    """A ledger over a store whose commits can wait."""

    def __init__(self, store: HeldStore | None = None) -> None:
        self.clock = Clock()
        self.store = store or HeldStore(MemoryStore(Clock()))
        self.states = self.store.states("stan/c")
        self.ledger = Ledger(self.states, Deadlines(self.clock, self.clock.seconds))

    def outcome(self, deferred: Any) -> list[Any]:
        """The list that gets the outcome of a Deferred."""
        outcomes: list[Any] = []
        deferred.addBoth(outcomes.append)
        return outcomes

    def load(self) -> Remembered:
        """The state that a new ledger reads."""
        [remembered] = self.outcome(ensureDeferred(Desk(self.store).ledger.load()))
        assert isinstance(remembered, Remembered), remembered
        return remembered


def subscription(number: int = 1, group: Group | None = None) -> ChannelSubscription:
    """An active member of a group."""
    if group is None:
        group = Group(Channel("foo", ChannelLimits()), ("plain", str(number)), "", "", False)
    made = ChannelSubscription(number, group)
    made.client = StreamingClient("me", "hb", b"", 1, "")
    made.clientID = "me"
    group.members.append(made)
    return made


class TestLoad:
    """L{Ledger.load}."""

    def test_empty(self) -> None:
        """An empty state is marked with this format."""
        desk = Desk()
        assert desk.load() == Remembered([], [])
        [values] = desk.outcome(desk.states.load())
        assert ServiceState.FromString(values[b"service"]).format == 1

    @pytest.mark.parametrize("written", [b"\x08\x02", b"", b"\xff"])
    def test_unknownFormat(self, written: bytes) -> None:
        """A state that another version wrote is not changed."""
        desk = Desk()
        desk.states.put(b"service", written)
        [failure] = desk.outcome(ensureDeferred(desk.ledger.load()))
        assert failure.type is UnknownFormat
        assert desk.outcome(desk.states.load()) == [{b"service": written}]

    def test_damaged(self) -> None:
        """An unreadable entry is left out; the others are read."""
        desk = Desk()
        desk.load()
        desk.ledger.clientCame(StreamingClient("me", "hb", b"", 1, ""))
        desk.states.put(b"client/you", b"\xff")
        desk.states.put(b"subscription/0000000000000001", b"\xff")
        assert [client.clientID for client in desk.load().clients] == ["me"]


class TestClients:
    """Clients that come and go."""

    def test_comesAndGoes(self) -> None:
        """A client is stored with all its data until it leaves."""
        desk = Desk()
        desk.load()
        client = StreamingClient("me", "hb", b"id", 1, "A/u")
        assert desk.outcome(desk.ledger.clientCame(client)) == [None]
        [loaded] = desk.load().clients
        assert (loaded.clientID, loaded.heartbeatInbox, loaded.connID) == ("me", "hb", b"id")
        assert (loaded.protocol, loaded.owner) == (1, "A/u")
        desk.ledger.clientWent(client)
        assert desk.load().clients == []

    def test_longName(self) -> None:
        """A client id may be longer than a key."""
        desk = Desk()
        desk.load()
        names = ["x" * 500, "x" * 501, "x" * 200, "x" * 201]
        for name in names:
            desk.ledger.clientCame(StreamingClient(name, "hb", b"", 1, ""))
        assert sorted(client.clientID for client in desk.load().clients) == sorted(names)


class TestSubscriptions:
    """Subscriptions as they are."""

    def test_everyField(self) -> None:
        """All that a restart needs of a subscription is stored."""
        desk = Desk()
        desk.load()
        group = Group(Channel("foo", ChannelLimits()), ("queue", "d:q"), "d:q", "", True)
        one = subscription(7, group)
        one.inbox, one.ackInbox, one.maxInFlight, one.ackWaitInSecs = b"in", b"ack", 5, 9
        one.owner = "A/u"
        one.sent(3, 1.0, 1)
        one.sent(2, 1.0, 1)
        group.lastSent = 4
        desk.ledger.changed(one)
        [loaded] = desk.load().subscriptions
        assert (loaded.id, loaded.channel, loaded.queue, loaded.isDurable) == (
            7,
            "foo",
            "d:q",
            True,
        )
        assert (loaded.inbox, loaded.ackInbox, loaded.maxInFlight, loaded.ackWaitInSecs) == (
            "in",
            "ack",
            5,
            9,
        )
        assert (list(loaded.pending), loaded.lastSent, loaded.owner) == ([2, 3], 4, "A/u")
        assert (loaded.isOffline, loaded.clientID) == (False, "me")

    def test_ended(self) -> None:
        """A subscription that has ended is deleted, also if it changed right before."""
        desk = Desk()
        desk.load()
        one = subscription()
        desk.ledger.changed(one)
        desk.ledger.touched(one)
        desk.ledger.ended([one])
        desk.clock.advance(1)
        assert desk.load().subscriptions == []

    def test_orderOfSubscriptions(self) -> None:
        """Subscriptions are read in the order of their numbers."""
        desk = Desk()
        desk.load()
        for number in (300, 2, 70000):
            desk.ledger.changed(subscription(number))
        assert [entry.id for entry in desk.load().subscriptions] == [2, 300, 70000]


class TestProgress:
    """Progress that is written a little later."""

    def test_progressIsStored(self) -> None:
        """Progress is stored soon, once, however much there is."""
        desk = Desk()
        desk.load()
        one = subscription()
        desk.ledger.changed(one)
        one.group.lastSent = 5
        for _ in range(10):
            desk.ledger.touched(one)
        assert desk.load().subscriptions[0].lastSent == 0
        desk.clock.advance(DELAY)
        assert desk.load().subscriptions[0].lastSent == 5
        assert desk.clock.getDelayedCalls() == []

    def test_wholeGroup(self) -> None:
        """All changed members of a group are written together."""
        desk = Desk()
        desk.load()
        group = Group(Channel("foo", ChannelLimits()), ("queue", "q"), "q", "", False)
        one, two = subscription(1, group), subscription(2, group)
        desk.ledger.changed(one)
        one.sent(1, 1.0, 1)
        group.lastSent = 1
        desk.ledger.touched(one)
        desk.store.isHeld = True
        group.lastSent = 2
        two.sent(2, 1.0, 1)
        desk.ledger.changed(two)
        assert len(desk.store.waiting) == 1
        desk.store.commit()
        assert [list(entry.pending) for entry in desk.load().subscriptions] == [[1], [2]]

    def test_announced(self) -> None:
        """
        Before messages are sent, it is stored up to which one they may be: as far as there is room,
        or farther while messages are acknowledged.
        """
        desk = Desk()
        desk.load()
        one = subscription()
        one.maxInFlight = 10
        desk.ledger.changed(one)
        assert desk.load().subscriptions[0].mayBeSent == 10
        one.group.lastSent = 10
        desk.ledger.settled(one)
        desk.clock.advance(0)
        assert desk.load().subscriptions[0].mayBeSent == 10 + ANNOUNCED
        one.sentMany([9, 10], 1.0, [1, 1])
        desk.clock.advance(DELAY)
        assert desk.load().subscriptions[0].mayBeSent == 10 + 8

    def test_quietGroup(self) -> None:
        """A group that is stored as quiet is not written again until something happens."""
        desk = Desk()
        desk.load()
        one = subscription()
        desk.ledger.settled(one)
        desk.clock.pump([DELAY] * 3)
        assert not desk.clock.getDelayedCalls()

    def test_announcedSooner(self) -> None:
        """
        Progress that was to be written later is written at once when more messages are to be sent.
        """
        desk = Desk()
        desk.load()
        one = subscription()
        desk.ledger.changed(one)
        desk.ledger.touched(one)
        one.group.lastSent = ANNOUNCED
        desk.ledger.touched(one)
        desk.clock.advance(0)
        assert desk.load().subscriptions[0].lastSent == ANNOUNCED

    def test_offlineSubscription(self) -> None:
        """An offline subscription announces no messages."""
        desk = Desk()
        desk.load()
        one = subscription()
        one.group.members.remove(one)
        one.group.offline = one
        one.client = None
        one.group.lastSent = 3
        desk.ledger.changed(one)
        [loaded] = desk.load().subscriptions
        assert (loaded.isOffline, loaded.mayBeSent) == (True, 3)

    def test_finish(self) -> None:
        """At the end, all progress is stored, and no more messages are announced."""
        desk = Desk()
        desk.load()
        one = subscription()
        one.group.lastSent = 8
        assert desk.outcome(desk.ledger.finish([one])) == [None]
        [loaded] = desk.load().subscriptions
        assert (loaded.lastSent, loaded.mayBeSent) == (8, 8)


class TestFailures:
    """When the store fails."""

    def test_progress(self) -> None:
        """Progress that could not be stored is tried again."""
        desk = Desk()
        desk.load()
        one = subscription()
        desk.ledger.changed(one)
        desk.store.failing = StoreFull("full")
        one.group.lastSent = 5
        desk.ledger.touched(one)
        desk.clock.advance(DELAY)
        desk.clock.advance(RETRY)
        one.group.lastSent = 6
        desk.store.failing = None
        desk.clock.advance(RETRY)
        assert desk.load().subscriptions[0].lastSent == 6

    def test_failedDeletion(self) -> None:
        """
        If the deletion of a client fails, the caller gets the error, and the deletion is tried
        again later.
        """
        desk = Desk()
        desk.load()
        client = StreamingClient("me", "hb", b"", 1, "")
        desk.ledger.clientCame(client)
        desk.store.failing = StoreFull("full")
        assert desk.outcome(desk.ledger.clientWent(client))[0].type is StoreFull
        assert len(desk.load().clients) == 1
        desk.store.failing = None
        desk.clock.advance(RETRY)
        assert desk.load().clients == []

    def test_comesBack(self) -> None:
        """A client that connected again in the meantime is not deleted."""
        desk = Desk()
        desk.load()
        client = StreamingClient("me", "hb", b"", 1, "")
        desk.store.isHeld = True
        went = desk.outcome(desk.ledger.clientWent(client))
        [(failing, _)], desk.store.waiting = desk.store.waiting, []
        desk.store.isHeld = False
        desk.ledger.clientCame(client)
        failing.errback(StoreFull("full"))
        assert went[0].type is StoreFull
        desk.clock.advance(RETRY)
        assert len(desk.load().clients) == 1

    def test_endedMeanwhile(self) -> None:
        """Progress of a subscription that has ended in the meantime is not stored."""
        desk = Desk()
        desk.load()
        one = subscription()
        desk.ledger.changed(one)
        desk.store.isHeld, desk.store.failing = True, StoreFull("full")
        desk.ledger.touched(one)
        desk.clock.advance(DELAY)
        one.group.members.remove(one)
        desk.store.commit()
        desk.store.isHeld, desk.store.failing = False, None
        desk.ledger.ended([one])
        desk.clock.advance(5)
        assert desk.load().subscriptions == []

    def test_otherFailures(self) -> None:
        """A programming error is not taken for a failure of the store."""
        desk = Desk()
        desk.load()
        desk.store.failing = ZeroDivisionError()
        assert desk.outcome(desk.ledger.changed(subscription()))[0].type is ZeroDivisionError


def test_nothingToFlush() -> None:
    """Flushing without changes is done at once."""
    desk = Desk()
    desk.store.isHeld = True
    assert desk.outcome(desk.ledger.flush()) == [None]
