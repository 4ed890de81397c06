"""
The construction of a broker's parts, and the time at which they read their values.
"""

from __future__ import annotations

import pytest

from natsbroker.config.model import changed
from natsbroker.interfaces import IStreamStore
from tests.server.support import Advisories, Host
from tests.support import Recorder


def test_context() -> None:
    """The context of clients is made of the settings."""
    broker = Host("max_payload: 77, max_closed_clients: 3, fast_lane: false").start().broker
    context = broker.clientContext
    assert (context.settings.max_payload, context.fastLane) == (77, False)


def test_calloutsAskNow() -> None:
    """Auth callouts use the timeout that is in force when they start."""
    broker = Host().broker
    callouts = broker._parts.callouts()
    before = callouts.timeout()
    settings = broker.clientContext.settings
    broker.clientContext.settings = changed(settings, "authorization.timeout", before + 3)
    assert callouts.timeout() == before + 3


def test_eventsAskNow() -> None:
    """Events of connections go to the system account, and describe the client."""
    host = Host().start()
    events = Recorder()
    host.broker.bus("$SYS").subscribe(b"$SYS.ACCOUNT.*.CONNECT", events)
    host.client()
    assert [b'"client":' in body for body in events.bodies] == [True]


def test_partsThatSettingsDoNotName() -> None:
    """Parts that the settings do not ask for are not made."""
    parts = Host().broker._parts
    assert (parts.pages, parts.streaming, parts.services) == (None, None, {})
    assert parts.authority.chosen is None


def test_observerCalls() -> None:
    """The metrics count the calls into observers."""
    host = Host(observers=[Advisories()]).start()
    host.client()
    assert host.broker.monitoring.figures.observerCalls.number >= 2


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("streaming", "streaming { store: memory }"),
        ("jetstream", "jetstream { backend: memory }"),
    ],
)
def test_stores(name: str, block: str) -> None:
    """Monitoring finds the stream store of a service while it is open."""
    host = Host(block)
    find = host.broker.monitoring.stores[name]
    assert find() is None
    host.start().settle()
    assert IStreamStore.providedBy(find())
