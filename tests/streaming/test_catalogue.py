"""
The channels as logs.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ILogCatalogue, ILogUser
from natsbroker.interfaces.records import StoreFailed
from natsbroker.streaming.limits import ChannelLimits, Limits
from natsbroker.streaming.options import StreamingOptions
from tests.streaming.stores import HeldStore
from tests.streaming.support import Stage


@implementer(ILogUser)
class User:
    """Somebody who works with logs, and remembers when."""

    def __init__(self) -> None:
        self.catalogue: Any = None
        self.events: list[str] = []
        self.outcome: Deferred[None] = succeed(None)

    def begin(self, catalogue: ILogCatalogue) -> Deferred[None]:
        """See L{ILogUser}."""
        self.catalogue = catalogue
        self.events.append("begin")
        return self.outcome

    def end(self) -> Deferred[None]:
        """See L{ILogUser}."""
        self.events.append("end")
        return succeed(None)


def staged(user: User, **more: Any) -> Stage:
    """A service that somebody uses the logs of."""
    stage = Stage(start=False, **more)
    stage.service._logUsers = (user,)
    stage.start()
    return stage


def test_channels() -> None:
    """A channel that was published to is a log with the channel's messages."""
    user = User()
    stage = staged(user)
    catalogue = user.catalogue
    assert verifyObject(ILogCatalogue, catalogue)
    assert (catalogue.kind, catalogue.realm, catalogue.names()) == ("CHANNEL", "test-cluster", [])
    client = stage.client()
    client.publish("foo", b"x")
    client.publish("bar.baz", b"y")
    assert catalogue.names() == ["bar.baz", "foo"]
    assert catalogue.find("foo").bounds().last == 1
    assert catalogue.find("other") is None


def test_notOpenYet() -> None:
    """A channel whose log is still being opened is not there yet."""
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
    """What is remembered about the logs is in the same store."""
    user = User()
    stage = staged(user)
    user.catalogue.states().put(b"key", b"value")
    found: list[Any] = []
    stage.store.states("pipeline/stan/test-cluster").load().addCallback(found.append)
    assert found == [{b"key": b"value"}]


def test_beginsAndEnds() -> None:
    """Whoever uses the logs begins when they are served and ends before the store is closed."""
    user = User()
    stage = staged(user)
    assert user.events == ["begin"]
    stage.stop()
    assert user.events == ["begin", "end"]


def test_cannotBegin() -> None:
    """If it cannot begin, the service cannot start; it is ended all the same."""
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
    """When another broker takes over, it ends, and it begins again when this one serves again."""
    user = User()
    stage = staged(user)
    stage.service._watch.logLost("foo")
    stage.settle()
    assert user.events == ["begin", "end"]
    stage.advance(1.5)
    assert user.events == ["begin", "end", "begin"]
    stage.stop()


def test_heldChannelStays() -> None:
    """A channel that nobody uses is not deleted while somebody holds messages of it."""
    user = User()
    limits = Limits(everywhere=ChannelLimits(max_inactivity=10.0))
    stage = staged(user, options=StreamingOptions(limits=limits))
    stage.client().publish("foo", b"x")
    log = user.catalogue.find("foo")
    log.hold("archive", 1)
    stage.advance(25)
    assert user.catalogue.names() == ["foo"]
    log.hold("archive", 2)
    stage.advance(25)
    assert user.catalogue.names() == []
