"""
The service: its start and its end.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.application.service import IService
from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs, formatEvent
from zope.interface import alsoProvides
from zope.interface.verify import verifyObject

from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces import IReadiness, IReportingStore, IStoreWatcher
from natsbroker.interfaces.records import StoreFailed, StoreLocked, UnknownFormat
from natsbroker.storage.leases import StoreWatch
from natsbroker.storage.memory import MemoryStore
from natsbroker.streaming.monitoring import StreamingModel
from natsbroker.streaming.service import StreamingService, leaderLog
from tests.conftest import FlushLoggedErrors
from tests.streaming.stores import HeldStore, LeasedStore, Shared
from tests.streaming.support import Inbox, Stage, refused


def held(stage: Stage) -> HeldStore:
    """A store whose commits can wait."""
    return HeldStore(Stage.makeStore(stage))


def outcome(deferred: Deferred[Any]) -> list[Any]:
    """The list that gets the outcome of a Deferred."""
    outcomes: list[Any] = []
    deferred.addBoth(outcomes.append)
    return outcomes


def test_provides() -> None:
    """The service is a Twisted service that reports its readiness."""
    service = Stage(start=False).service
    assert verifyObject(IService, service)
    assert verifyObject(IReadiness, service)


def test_wrongOptions() -> None:
    """Options that make no sense are refused before anything is opened."""
    with pytest.raises(ValueError, match="cluster id"):
        Stage(Streaming(cluster_id="no good"), start=False)


class TestStart:
    """Starting."""

    def test_waitsForStore(self) -> None:
        """The service is ready when the store is open and its state was recovered, not earlier."""
        stage = Stage(start=False)
        opening: Deferred[Any] = Deferred()
        stage.opening = lambda: opening
        stage.service.startService()
        ready = outcome(stage.service.whenPrepared())
        stage.settle()
        assert (ready, len(stage.account)) == ([], 0)
        opening.callback(stage.store)
        stage.settle()
        assert ready == [None]
        assert outcome(stage.service.whenPrepared()) == [None]
        assert len(stage.account) == 7

    @pytest.mark.parametrize("error", [StoreLocked("locked"), UnknownFormat("too new")])
    def test_cannotOpen(self, error: Exception) -> None:
        """If the store cannot be opened, the service does not become ready, for that reason."""
        stage = Stage(start=False)
        stage.opening = refused(error)
        stage.service.startService()
        assert outcome(stage.service.whenPrepared())[0].value is error
        assert outcome(stage.service.stopService()) == [None]

    def test_cannotRecover(self) -> None:
        """If the stored state cannot be read, the store is closed at the end."""
        stage = Stage(makeStore=held)
        stage.client().publish("foo", b"x")
        stage.stop()
        stage.store.failing = StoreFailed("broken")
        stage.service = stage._makeService()
        stage.service.startService()
        assert outcome(stage.service.whenPrepared())[0].type is StoreFailed
        assert outcome(stage.service.stopService()) == [None]


class TestStop:
    """Stopping."""

    def test_leavesNothing(self) -> None:
        """A stopped service leaves no subscription and no timer."""
        stage = Stage()
        client = stage.client()
        client.isAlive = False
        client.subscribe("foo", isAcking=False)
        client.publish("foo", b"x")
        stage.advance(30.5)
        mine = 2 + 1 + 1
        stage.stop()
        assert len(stage.account) <= mine

    def test_waitsForWhatIsStored(self) -> None:
        """
        A message that is being stored when the service stops is stored and acknowledged first.
        """
        stage = Stage(makeStore=held)
        client = stage.client()
        client.publish("foo", b"0")
        stage.store.isHeld = True
        inbox = client.publishMany("foo", [b"1"])
        stage.settle()
        stopped = outcome(stage.service.stopService())
        assert (stopped, inbox.got) == ([], [])
        stage.store.isHeld = False
        stage.store.commit()
        stage.settle()
        assert (stopped, len(inbox.got)) == ([None], 1)

    def test_whileOpening(self) -> None:
        """The service can be stopped while its store is being opened."""
        stage = Stage(start=False)
        cancelled: list[object] = []
        opening: Deferred[Any] = Deferred(cancelled.append)
        stage.opening = lambda: opening
        stage.service.startService()
        assert outcome(stage.service.stopService()) == [None]
        assert cancelled == [opening]

    def test_notStarted(self) -> None:
        """Stopping a service that never started does nothing."""
        assert outcome(Stage(start=False).service.stopService()) == [None]

    def test_storeFails(self) -> None:
        """The service stops although the store accepts no more writes."""
        stage = Stage(makeStore=held)
        client = stage.client()
        client.subscribe("foo")
        stage.store.failing = StoreFailed("broken")
        client.publish("foo", b"x")
        stage.stop()

    def test_takesNothingMore(self) -> None:
        """A message that comes while the service stops is refused."""
        stage = Stage()
        client = stage.client()
        stage.service.stopService()
        inbox = Inbox(stage)
        stage.send(b"_STAN.pub.test-cluster.foo", client.pubMsg("foo", b"x"), inbox.subject)
        stage.settle()
        assert inbox.got == []


def test_escapes(flushLoggedErrors: FlushLoggedErrors) -> None:
    """An exception in background work is logged."""

    async def fail() -> None:
        raise ZeroDivisionError

    Stage().service.run(fail())
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1


class TestLosses:
    """Losses of the store."""

    def test_reportingStore(self) -> None:
        """The losses are those of a store that reports them."""

        def reporting(stage: Stage) -> Any:
            store = Stage.makeStore(stage)
            store.losses = lambda: ["orders: 3 to 4 may be lost"]
            alsoProvides(store, IReportingStore)
            return store

        stage = Stage(makeStore=reporting)
        assert stage.service.losses == ["orders: 3 to 4 may be lost"]
        stage.stop()
        assert not stage.service.losses

    def test_otherStore(self) -> None:
        """A store without reports has no known losses."""
        assert not Stage().service.losses


def test_storeWatchProvides() -> None:
    """The watch is a store watcher."""
    assert verifyObject(IStoreWatcher, StoreWatch())


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("recordsDamaged", ("l", 3, 5, "r"), "Messages 3 to 4 of l are damaged and lost: r"),
        ("stateDamaged", ("s", b"k\xff", "r"), "State k\\xff of s is lost: r"),
        ("stateDamaged", ("", b"", "see r"), "State may be lost: see r"),
        ("logQuarantined", ("l", "r"), "l can only be read: r"),
        ("writesStopped", ("r",), "The store takes no writes: r"),
        ("writesResumed", (), "The store takes writes again"),
        ("logLost", ("l",), "l is served by another broker now"),
    ],
)
def test_words(name: str, arguments: tuple[object, ...], text: str) -> None:
    """Each event of the store is logged, with its names."""
    with capturedLogs() as events:
        getattr(StoreWatch(), name)(*arguments)
    assert [formatEvent(event) for event in events] == [text]


def test_writesStopped() -> None:
    """The watch keeps the reason why the store accepts no writes, until it accepts them again."""
    watch = StoreWatch()
    watch.writesStopped("")
    assert watch.stopped
    watch.writesStopped("full")
    assert watch.stopped == "full"
    watch.writesResumed()
    assert watch.stopped == ""


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
        """Start one more service on the shared store, and wait until it is prepared."""
        service = self.stage._makeService()
        prepared: list[object] = []
        service.startService()
        service.whenPrepared().addBoth(prepared.append)
        self.stage.settle()
        assert prepared == [None]
        return service

    def stop(self, *services: StreamingService) -> None:
        """Stop some of the services."""
        for service in services:
            stopped: list[object] = []
            service.stopService().addBoth(stopped.append)
            self.stage.settle()
            assert stopped == [None]


@pytest.fixture
def brokers() -> Brokers:
    """Brokers that share a store; none is started."""
    return Brokers()


def stateOf(service: StreamingService) -> str:
    """Whether a service is serving."""
    return StreamingModel(service).figures().state


def test_leaderLog() -> None:
    """The log that stands for a cluster is not one of its channels."""
    assert leaderLog("c") == "stan/c"


def test_standby(brokers: Brokers) -> None:
    """
    The first broker serves; the second is ready, but accepts no requests and shows no figures.
    """
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
    """
    When the active broker stops, the standby continues at its position; clients stay connected.
    """
    first, second = brokers.start(), brokers.start()
    client = brokers.stage.client()
    listener = client.subscribe("foo", isAcking=False)
    client.publish("foo", b"1")
    brokers.stop(first)
    brokers.stage.settle()
    assert stateOf(second) == "FT_ACTIVE"
    assert client.publish("foo", b"2") == ""
    assert [message.data for message in listener.taken()] == [b"1", b"2"]
    brokers.stop(second)
    assert brokers.stage.clock.getDelayedCalls() == []


def test_lostLease(brokers: Brokers) -> None:
    """
    A service that has lost the lease stops serving, waits, and serves again when it has the lease
    again.
    """
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
    assert [message.data for message in listener.taken()] == [b"1", b"2", b"3"]
    brokers.stop(first)


def test_lostBeforeNotice(brokers: Brokers) -> None:
    """
    A service that has lost the lease without noticing stores nothing, and answers with an error.
    """
    first, second = brokers.start(), brokers.start()
    client = brokers.stage.client()
    client.publish("foo", b"1")
    brokers.shared.holder = brokers.views[1]
    assert client.publish("foo", b"2") == "another broker serves it"
    brokers.shared.holder = brokers.views[0]
    brokers.stop(second, first)


def test_cannotTakeOver(brokers: Brokers) -> None:
    """If taking over fails, the service tries again."""
    first, second = brokers.start(), brokers.start()
    brokers.views[1].failing = StoreFailed("broken")
    brokers.failing = StoreFailed("still broken")
    with capturedLogs() as events:
        brokers.stop(first)
        brokers.stage.advance(1)
    assert sum("why" in event for event in events) >= 2
    assert stateOf(second) == "FT_STANDBY"
    brokers.failing = None
    brokers.stage.advance(1)
    assert stateOf(second) == "FT_ACTIVE"
    brokers.stop(second)


def test_stoppedBetweenAttempts(brokers: Brokers) -> None:
    """A service that waits for its next attempt can be stopped, and leaves no timer."""
    first, second = brokers.start(), brokers.start()
    brokers.views[0].notice("stan/test-cluster")
    brokers.stage.settle()
    brokers.stop(first, second)
    assert brokers.stage.clock.getDelayedCalls() == []
    assert len(brokers.stage.account) == 0
