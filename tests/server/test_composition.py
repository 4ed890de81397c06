"""
How the parts of a broker are made, and when they look up their values.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from zope.interface import implementer
from zope.interface.exceptions import Invalid

from natsbroker.advisories import Advisory, LameDuckStarted
from natsbroker.interfaces import IObserver
from natsbroker.server.composition import Observers
from tests.conftest import FlushLoggedErrors
from tests.server.support import Host
from tests.support import Recorder


def test_context() -> None:
    """What clients share is made of the settings."""
    broker = Host("max_payload: 77, max_closed_clients: 3, fast_lane: false").start().broker
    context = broker.clientContext
    assert (context.limits.max_payload, context.fastLane) == (77, False)


def test_calloutsAskNow() -> None:
    """How long other programs have for their answer is what is in force then."""
    broker = Host().broker
    callouts = broker._parts.callouts()
    before = callouts.timeout()
    broker.clientContext.limits = replace(broker.clientContext.limits, auth_timeout=before + 3)
    assert callouts.timeout() == before + 3


def test_eventsAskNow() -> None:
    """Events go to the system account, and tell of connections that are there."""
    host = Host().start()
    events = Recorder()
    host.broker.bus("$SYS").subscribe(b"$SYS.ACCOUNT.*.CONNECT", events)
    host.client()
    assert [b'"client":' in body for body in events.bodies] == [True]


def test_partsThatSettingsDoNotName() -> None:
    """Without an operator, a monitoring port or streaming none of their parts are made."""
    parts = Host().broker._parts
    assert (parts.pages, parts.streaming, parts.services) == (None, None, {})
    assert parts.authority.chosen is None


@implementer(IObserver)
class Seeing:
    """Records advisories."""

    def __init__(self) -> None:
        self.seen: list[Advisory] = []

    def observe(self, advisory: Advisory) -> None:
        self.seen.append(advisory)


@implementer(IObserver)
class Failing:
    """Fails."""

    def observe(self, advisory: Advisory) -> None:
        raise ZeroDivisionError


def test_tellsEverybody() -> None:
    """Every observer is notified, in order."""
    first, second = Seeing(), Seeing()
    observers = Observers([first])
    observers.add(second)
    advisory = LameDuckStarted()
    observers.notify(advisory)
    assert first.seen == second.seen == [advisory]


def test_ends() -> None:
    """A removed observer is not notified; removing it twice does nothing."""
    observer = Seeing()
    observers = Observers()
    remove = observers.add(observer)
    remove()
    remove()
    observers.notify(LameDuckStarted())
    assert observer.seen == []


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """One that fails is logged and keeps nobody else from being told."""
    observer = Seeing()
    Observers([Failing(), observer]).notify(LameDuckStarted())
    assert len(observer.seen) == 1
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1


def test_refuses() -> None:
    """What is no observer is refused when it is added."""
    with pytest.raises(Invalid):
        Observers().add(object())  # type: ignore[arg-type]
