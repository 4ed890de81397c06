"""
Tests for L{natsbroker.accounts.bus}.
"""

from __future__ import annotations

from zope.interface.verify import verifyObject

from natsbroker.interfaces import IMessageBus
from natsbroker.wire.values import Kind
from tests.accounts.market import Market
from tests.support import Recorder, WatchRecorder


def test_contract() -> None:
    """A bus keeps its contract and knows which account and kind it is of."""
    account = Market("A")["A"]
    for kind in Kind:
        bus = account.busFor(kind)
        assert verifyObject(IMessageBus, bus)
        assert (bus.account, bus.kind) == ("A", kind)
        assert bus.matcher is account.matcher


def test_mapped() -> None:
    """A bus says where subjects lead."""
    market = Market("A")
    bus = market["A"].busFor(Kind.CLIENT)
    assert bus.mapped(b"a") == b"a"
    market.map("A", a="b")
    assert (bus.mapped(b"a"), bus.mapped(b"c")) == (b"b", b"c")


def test_refresh() -> None:
    """What is remembered about subscribers is found out anew when one says so."""
    account = Market("A")["A"]
    bus = account.busFor(Kind.CLIENT)
    bus.subscribe(b"a", Recorder())
    assert account.matcher.match(b"a") is account.matcher.match(b"a")
    before = account.matcher.match(b"a")
    bus.refresh()
    assert account.matcher.match(b"a") is not before


def test_watchInterest() -> None:
    """A bus tells what is subscribed to."""
    account = Market("A")["A"]
    watcher = WatchRecorder()
    stop = account.busFor(Kind.ROUTE).watchInterest(watcher)
    account.busFor(Kind.CLIENT).subscribe(b"a", Recorder())
    stop()
    account.busFor(Kind.CLIENT).subscribe(b"b", Recorder())
    assert watcher.taken() == [("+", b"a", b"", 1)]
    assert account.busFor(Kind.CLIENT).hasInterest(b"b")
