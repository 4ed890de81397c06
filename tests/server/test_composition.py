"""
How parts of a broker are made: what they ask for is what is in force when they need it.
"""

from __future__ import annotations

from dataclasses import replace

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
    before = callouts._timeout()
    broker.clientContext.limits = replace(broker.clientContext.limits, auth_timeout=before + 3)
    assert callouts._timeout() == before + 3


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
