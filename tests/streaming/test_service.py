"""
The service: its start and its end.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.application.service import IService
from twisted.internet.defer import Deferred
from zope.interface import alsoProvides
from zope.interface.verify import verifyObject

from natsbroker.interfaces import IPrepared, IReportingStore
from natsbroker.interfaces.records import StoreFailed, StoreLocked, UnknownFormat
from natsbroker.streaming.settings import Streaming
from tests.conftest import FlushLoggedErrors
from tests.streaming.stores import HeldStore
from tests.streaming.support import Inbox, Stage, refused


def held(stage: Stage) -> HeldStore:
    """A store whose commits can wait."""
    return HeldStore(Stage.makeStore(stage))


def outcome(deferred: Deferred[Any]) -> list[Any]:
    """What comes of a Deferred, in a list that is empty while nothing has."""
    outcomes: list[Any] = []
    deferred.addBoth(outcomes.append)
    return outcomes


def test_provides() -> None:
    """It is a Twisted service that says when it is ready."""
    service = Stage(start=False).service
    assert verifyObject(IService, service)
    assert verifyObject(IPrepared, service)


def test_wrongOptions() -> None:
    """Options that make no sense are refused before anything is opened."""
    with pytest.raises(ValueError, match="cluster id"):
        Stage(Streaming(cluster_id="no good"), start=False)


class TestStart:
    """Starting."""

    def test_waitsForStore(self) -> None:
        """It is ready when the store is open and what it remembers is in force; no sooner."""
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
        """If the store cannot be opened, that is why the service is not ready."""
        stage = Stage(start=False)
        stage.opening = refused(error)
        stage.service.startService()
        assert outcome(stage.service.whenPrepared())[0].value is error
        assert outcome(stage.service.stopService()) == [None]

    def test_cannotRecover(self) -> None:
        """If what it holds cannot be read, the store is closed again at the end."""
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
        """No subscription and no timer is left."""
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
        """What is being stored is stored, and answered, before it has stopped."""
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
        """It can be stopped while its store is being opened."""
        stage = Stage(start=False)
        cancelled: list[object] = []
        opening: Deferred[Any] = Deferred(cancelled.append)
        stage.opening = lambda: opening
        stage.service.startService()
        assert outcome(stage.service.stopService()) == [None]
        assert cancelled == [opening]

    def test_notStarted(self) -> None:
        """Stopping what was not started does nothing."""
        assert outcome(Stage(start=False).service.stopService()) == [None]

    def test_storeFails(self) -> None:
        """It stops although nothing can be written down any more."""
        stage = Stage(makeStore=held)
        client = stage.client()
        client.subscribe("foo")
        stage.store.failing = StoreFailed("broken")
        client.publish("foo", b"x")
        stage.stop()

    def test_takesNothingMore(self) -> None:
        """What comes while it stops is not taken."""
        stage = Stage()
        client = stage.client()
        stage.service.stopService()
        inbox = Inbox(stage)
        stage.send(b"_STAN.pub.test-cluster.foo", client.pubMsg("foo", b"x"), inbox.subject)
        stage.settle()
        assert inbox.got == []


def test_escapes(flushLoggedErrors: FlushLoggedErrors) -> None:
    """What escapes something that nobody waits for is logged."""

    async def fail() -> None:
        raise ZeroDivisionError

    Stage().service.run(fail())
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1


class TestLosses:
    """What the store has lost."""

    def test_reportingStore(self) -> None:
        """It is what the store says, while there is one that says so."""

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
        """A store that keeps no reports has lost nothing that it knows of."""
        assert not Stage().service.losses
