"""
How parts of a broker are made: what they ask for is what is in force when they need it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from natsbroker.server.composition import makeCallouts, makeOperators, makePages
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
    keys, accounts = broker.keys, broker.accounts
    callouts = makeCallouts(
        broker.reactor, keys, accounts, lambda: broker.clientContext, lambda: broker.settings
    )
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


def test_nothing() -> None:
    """Without an operator there is nobody who takes accounts from it; nor pages without a port."""
    broker: Any = Host().broker
    settings = replace(broker.settings)
    unused: Any = None
    made = makeOperators(
        broker.reactor, settings, broker.accounts, unused, unused, unused, unused, lambda: 0
    )
    assert made is None
    assert makePages(broker.reactor, unused, settings) is None
