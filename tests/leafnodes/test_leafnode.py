"""
The common behaviour of dialled and accepted leafnode connections.
"""

from __future__ import annotations

import pytest

from natsbroker.config.model import Settings
from natsbroker.wire.grants import Grant
from tests.leafnodes.leaves import Broker
from tests.links.linkpeers import linked
from tests.server.support import logLines


def test_log() -> None:
    """Beginning and end of a connection are logged with nats-server's texts."""
    broker = Broker()
    with logLines() as lines:
        wire = broker.spoke()
        wire.transport.hangUp()
        broker.settle()
    assert "[INF] 127.0.0.9:50000 - lid:1 - Leafnode connection created" in lines
    ended = "Leafnode connection closed: Client Closed - Remote: peer"
    assert f"[INF] 127.0.0.9:50000 - lid:1 - {ended}" in lines


@pytest.mark.parametrize("isDialled", [False, True])
def test_stale(isDialled: bool) -> None:
    """A peer that answers no PING is disconnected."""
    broker = Broker(limits=linked(ping_interval=1.0, ping_max=2))
    wire = broker.hub() if isDialled else broker.spoke()
    broker.settle(5.0)
    assert wire.lines()[-1] == b"-ERR 'Stale Connection'" and wire.closed == "Stale Connection"


def test_alive() -> None:
    """A leafnode that answers PINGs stays connected, and its round trip is measured."""
    broker = Broker(limits=linked(ping_interval=1.0, ping_max=2))
    wire = broker.spoke()
    for _ in range(5):
        broker.settle(1.2)
        wire.send(b"PONG\r\n" * wire.take().count(b"PING\r\n"))
    assert not wire.closed


def test_overflow() -> None:
    """A peer is disconnected when too much output waits."""
    broker = Broker(limits=linked(max_pending=1000))
    wire = broker.spoke()
    wire.send(b"LS+ foo\r\n")
    wire.transport.taking = False
    for _ in range(200):
        broker.publish(b"foo", b"x" * 500)
    assert wire.closed == "Slow Consumer (Pending Bytes)"


def test_limits() -> None:
    """Changed limits apply to existing connections."""
    broker = Broker()
    broker.decider.answer = Grant("A", maxPayload=10)
    own, other = broker.spoke(name="own"), broker.hub()
    broker.leafs.settings = Settings(max_payload=5)
    for leaf in broker.leafs:
        leaf.limitsChanged()
    assert (own.leaf.decoder.maxPayload, other.leaf.decoder.maxPayload) == (10, 5)


def test_unknownOperation() -> None:
    """An operation of another protocol ends the connection."""
    wire = Broker().spoke()
    wire.send(b"RS+ A foo\r\n")
    assert wire.lines() == [b"-ERR 'Unknown Protocol Operation'"]
