"""
The memory of an account for reply subjects that cross between clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.task import Clock

from natsbroker.accounts.replies import PERIOD, GatewayReplyMap, RecentSubscriptions
from tests.support import Names, onEach, using


@pytest.fixture
def clock() -> Iterator[Any]:
    """A clock, which must have no timer left after the test."""
    clock = Clock()
    yield clock
    assert clock.getDelayedCalls() == []


@onEach
class TestFreshPatterns:
    """Patterns that were subscribed to a short time ago."""

    def test_recentPeriod(self, names: Names, clock: Any) -> None:
        """A pattern is recent for a period, and not for more than two."""
        with using(names):
            recent = RecentSubscriptions(None, clock)
            assert not recent.cover(b"a.b")
            clock.advance(PERIOD / 2)
            recent.add(b"a.*")
            clock.advance(PERIOD)
            assert recent.cover(b"a.b") and not recent.cover(b"b")
            clock.advance(PERIOD)
            assert not recent.cover(b"a.b") and not len(recent)

    def test_renewedPattern(self, names: Names, clock: Any) -> None:
        """A pattern that is subscribed to again counts as recent again."""
        with using(names):
            recent = RecentSubscriptions(None, clock)
            recent.add(b"a")
            recent.add(b"a")
            clock.advance(PERIOD)
            recent.add(b"a")
            recent.add(b"b")
            clock.advance(PERIOD)
            assert recent.cover(b"a") and recent.cover(b"b")
            recent.add(b"c")
            clock.advance(PERIOD)
            assert not recent.cover(b"a") and recent.cover(b"c")
            clock.advance(PERIOD)
            assert not recent.cover(b"c") and not len(recent)

    def test_close(self, names: Names, clock: Any) -> None:
        """No pattern is remembered after the end."""
        with using(names):
            recent = RecentSubscriptions(None, clock)
            recent.add(b"old")
            clock.advance(PERIOD)
            recent.add(b"young")
            recent.close()
            assert not len(recent)
            assert not recent.cover(b"old") and not recent.cover(b"young")


class TestDebts:
    """Debts: the answers that go back to the clusters of their requests."""

    def test_prefixPeriod(self, clock: Any) -> None:
        """
        A reply prefix is known for one to two periods. The account is notified when it is added and
        when it expires.
        """
        told: list[bytes] = []
        debts = GatewayReplyMap(clock, told.append)
        assert not debts and debts.viaOf(b"r") == b""
        debts.add(b"r", b"_GR_.c.s.")
        clock.advance(PERIOD)
        assert debts and b"r" in debts and debts.viaOf(b"r") == b"_GR_.c.s."
        clock.advance(PERIOD)
        assert not debts and debts.viaOf(b"r") == b""
        assert told == [b"r", b"r"]

    def test_lastRequestCounts(self, clock: Any) -> None:
        """Of several requests with one reply subject, the last one decides where answers go."""
        told: list[bytes] = []
        debts = GatewayReplyMap(clock, told.append)
        debts.add(b"r", b"1")
        clock.advance(PERIOD)
        debts.add(b"r", b"2")
        assert (debts.viaOf(b"r"), len(debts), told) == (b"2", 1, [b"r"])
        clock.advance(PERIOD)
        assert (debts.viaOf(b"r"), told) == (b"2", [b"r"])
        clock.advance(PERIOD)
        assert (len(debts), told) == (0, [b"r", b"r"])

    def test_close(self, clock: Any) -> None:
        """Closing forgets all reply subjects."""
        debts = GatewayReplyMap(clock, lambda subject: None)
        debts.add(b"r", b"1")
        debts.close()
        assert not debts

    def test_forgotten(self, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A reply subject without interest is not known any more."""
        changed: list[bytes] = []
        debts = GatewayReplyMap(clock, changed.append)
        for subject in (b"r.1", b"r.2", b"s"):
            debts.add(subject, b"_GR_.c.s.")
        clock.advance(PERIOD)
        debts.add(b"r.3", b"_GR_.c.s.")
        changed.clear()
        debts.forget(b"r.1")
        debts.forget(b"x")
        assert (b"r.1" in debts, b"r.2" in debts, changed) == (False, True, [b"r.1"])
        debts.forget(b"r.*")
        assert (len(debts), changed) == (1, [b"r.1", b"r.2", b"r.3"])
        monkeypatch.setattr("natsbroker.accounts.replies._MOST_COMPARED", 0)
        debts.forget(b">")
        assert debts.viaOf(b"s") == b"_GR_.c.s."
        debts.close()
