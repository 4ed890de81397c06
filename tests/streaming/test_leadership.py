"""
Several brokers with one store: one serves, the others wait.

Promises: on this stage all brokers hear every client, as in a cluster.
Must never know: how leases work.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.memory import MemoryStore
from natsbroker.streaming.leadership import leaderLog
from natsbroker.streaming.monitoring import StreamingModel
from natsbroker.streaming.service import StreamingService
from tests.streaming.stores import LeasedStore, Shared
from tests.streaming.support import Stage


class Brokers:
    """
    Brokers that share a store.

    @ivar views: what each sees of the store, the newest last.
    """

    def __init__(self) -> None:
        self.stage = Stage(start=False)
        self.shared = Shared(MemoryStore(self.stage.clock, now=self.stage.now))
        self.views: list[LeasedStore] = []
        self.failing: Exception | None = None
        self.stage.opening = self._open

    def _open(self) -> Deferred[Any]:
        view = LeasedStore(self.shared)
        view.failing = self.failing
        self.views.append(view)
        return succeed(view)

    def start(self) -> StreamingService:
        """Start one more; it lets its broker start."""
        service = self.stage._makeService()
        prepared: list[object] = []
        service.startService()
        service.whenPrepared().addBoth(prepared.append)
        self.stage.settle()
        assert prepared == [None]
        return service

    def stop(self, *services: StreamingService) -> None:
        """Stop some."""
        for service in services:
            stopped: list[object] = []
            service.stopService().addBoth(stopped.append)
            self.stage.settle()
            assert stopped == [None]


@pytest.fixture
def brokers() -> Brokers:
    """Brokers, of which none has started."""
    return Brokers()


def stateOf(service: StreamingService) -> str:
    """Whether it serves."""
    return StreamingModel(service).figures().state


def test_leaderLog() -> None:
    """The log that stands for a cluster is none of its channels."""
    assert leaderLog("c") == "stan/c"


def test_standby(brokers: Brokers) -> None:
    """The first one serves; the second is ready, but listens to nobody and shows nothing."""
    first = brokers.start()
    listening = len(brokers.stage.account)
    second = brokers.start()
    assert len(brokers.stage.account) == listening
    assert (stateOf(first), stateOf(second)) == ("FT_ACTIVE", "FT_STANDBY")
    client = brokers.stage.client()
    assert client.publish("foo", b"x") == ""
    model = StreamingModel(second)
    assert (model.clientNames(), model.channelNames()) == ([], [])
    for ask in (model.client, model.channel):
        with pytest.raises(KeyError):
            ask("me")
    brokers.stop(second, first)


def test_stopped(brokers: Brokers) -> None:
    """When the one that serves stops, the next one goes on where it was; clients stay."""
    first, second = brokers.start(), brokers.start()
    client = brokers.stage.client()
    listener = client.subscribe("foo", isAcking=False)
    client.publish("foo", b"1")
    brokers.stop(first)
    brokers.stage.settle()
    assert stateOf(second) == "FT_ACTIVE"
    assert client.publish("foo", b"2") == ""
    assert [each.data for each in listener.taken()] == [b"1", b"2"]
    brokers.stop(second)
    assert brokers.stage.clock.getDelayedCalls() == []


def test_lost(brokers: Brokers) -> None:
    """One that has lost the lease serves no more and waits; it serves again when it can."""
    first, second = brokers.start(), brokers.start()
    stage = brokers.stage
    client = stage.client()
    client.publish("foo", b"1")
    lost = brokers.views[0]
    brokers.shared.free()
    stage.settle()
    lost.notice("stan/test-cluster")
    lost.notice("stan/test-cluster/foo")
    stage.advance(1)
    assert (stateOf(first), stateOf(second)) == ("FT_STANDBY", "FT_ACTIVE")
    assert client.publish("foo", b"2") == ""
    brokers.stop(second)
    stage.settle()
    assert stateOf(first) == "FT_ACTIVE"
    assert client.publish("foo", b"3") == ""
    listener = client.subscribe("foo")
    assert [each.data for each in listener.taken()] == [b"1", b"2", b"3"]
    brokers.stop(first)


def test_lostUnawares(brokers: Brokers) -> None:
    """One that does not know yet that it has lost the lease stores nothing and says so."""
    first, second = brokers.start(), brokers.start()
    client = brokers.stage.client()
    client.publish("foo", b"1")
    brokers.shared.holder = brokers.views[1]
    assert client.publish("foo", b"2") == "another broker serves it"
    brokers.shared.holder = brokers.views[0]
    brokers.stop(second, first)


def test_cannotTakeOver(brokers: Brokers) -> None:
    """If taking over fails, it is tried again."""
    first, second = brokers.start(), brokers.start()
    brokers.views[1].failing = StoreFailed("broken")
    brokers.failing = StoreFailed("still broken")
    with capturedLogs() as events:
        brokers.stop(first)
        brokers.stage.advance(1)
    assert sum("why" in each for each in events) >= 2
    assert stateOf(second) == "FT_STANDBY"
    brokers.failing = None
    brokers.stage.advance(1)
    assert stateOf(second) == "FT_ACTIVE"
    brokers.stop(second)


def test_stoppedBetweenAttempts(brokers: Brokers) -> None:
    """One that is about to try again can be stopped, and leaves nothing."""
    first, second = brokers.start(), brokers.start()
    brokers.views[0].notice("stan/test-cluster")
    brokers.stage.settle()
    brokers.stop(first, second)
    assert brokers.stage.clock.getDelayedCalls() == []
    assert len(brokers.stage.account) == 0
