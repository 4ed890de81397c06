"""
The times at which a peer is sent a PING, and at which it counts as stale. Times are plain numbers.
"""

from __future__ import annotations

import pytest

from natsbroker.connections.keepalive import FIRST_PING, Keepalive, KeepaliveAction

NOTHING, PING, STALE = KeepaliveAction.NOTHING, KeepaliveAction.PING, KeepaliveAction.STALE


class TestKeepalive:
    """The PINGs of one connection that began at 100 seconds."""

    @pytest.mark.parametrize(
        ("interval", "jitter", "due"),
        [
            (120.0, 0.0, 102.0),
            (120.0, 1.0, 102.4),
            (120.0, 0.5, 102.2),
            (1.0, 0.0, 101.0),
            (0.5, 1.0, 100.6),
        ],
    )
    def test_first(self, interval: float, jitter: float, due: float) -> None:
        """
        The first PING is due after two seconds, or after a shorter interval, and up to a fifth
        later.
        """
        assert Keepalive(interval, 100.0, jitter).due == pytest.approx(due)
        assert FIRST_PING == 2.0

    def test_notBeforeItIsDue(self) -> None:
        """No action is due before its time, and a query changes nothing."""
        keepalive = Keepalive(10.0, 100.0, 0.0)
        assert keepalive.timePassed(101.9, 100.0, 2) is NOTHING
        assert keepalive.due == 102.0

    def test_firstMeasures(self) -> None:
        """
        The first PING is sent although the peer has just sent data, to measure the round trip.
        """
        keepalive = Keepalive(10.0, 100.0, 0.0)
        assert keepalive.timePassed(102.0, 102.0, 2) is PING
        assert keepalive.due == 112.0
        keepalive.ponged(102.25)
        assert keepalive.roundTrip == 0.25

    def test_estimate(self) -> None:
        """Until the round trip is measured, an estimate replaces it, which is never 0."""
        keepalive = Keepalive(10.0, 100.0, 0.0)
        keepalive.estimate(0.0)
        assert 0 < keepalive.roundTrip < 1e-6
        keepalive.timePassed(102.0, 102.0, 2)
        keepalive.ponged(102.25)
        keepalive.estimate(5.0)
        assert keepalive.roundTrip == 0.25

    def test_trafficIsEnough(self) -> None:
        """A peer that sent something within the interval gets no PING."""
        keepalive = Keepalive(10.0, 100.0, 0.0)
        keepalive.timePassed(102.0, 100.0, 2)
        keepalive.ponged(102.1)
        assert keepalive.timePassed(112.0, 102.5, 2) is NOTHING
        assert keepalive.due == 122.0
        assert keepalive.timePassed(122.0, 112.0, 2) is PING

    @pytest.mark.parametrize("maximum", [1, 2, 3])
    def test_stale(self, maximum: int) -> None:
        """A peer with the maximum of unanswered PINGs is stale when the next one is due."""
        keepalive = Keepalive(10.0, 100.0, 0.0)
        for count in range(maximum):
            assert keepalive.timePassed(102.0 + 10 * count, 100.0, maximum) is PING
        assert keepalive.timePassed(102.0 + 10 * maximum, 100.0, maximum) is STALE

    def test_pongForgives(self) -> None:
        """A PONG answers all PINGs before it."""
        keepalive = Keepalive(10.0, 100.0, 0.0)
        for now in (102.0, 112.0):
            assert keepalive.timePassed(now, 100.0, 2) is PING
        keepalive.ponged(113.0)
        for now in (122.0, 132.0):
            assert keepalive.timePassed(now, 100.0, 2) is PING
        assert keepalive.timePassed(142.0, 100.0, 2) is STALE

    def test_pongWithoutPing(self) -> None:
        """A PONG without a PING measures no round trip."""
        keepalive = Keepalive(10.0, 100.0, 0.0)
        keepalive.ponged(101.0)
        assert keepalive.roundTrip == 0.0

    def test_roundTripIsNeverZero(self) -> None:
        """A measured round trip is never 0, which stands for an estimate."""
        keepalive = Keepalive(10.0, 100.0, 0.0)
        keepalive.timePassed(102.0, 100.0, 2)
        keepalive.ponged(102.0)
        assert keepalive.roundTrip > 0

    def test_measuresAgain(self) -> None:
        """The round trip is measured again from time to time although data flows."""
        keepalive = Keepalive(1000.0, 100.0, 0.0)
        assert keepalive.timePassed(102.0, 102.0, 2) is PING
        keepalive.ponged(102.1)
        actions = [keepalive.timePassed(102.0 + 1000 * n, 102.0 + 1000 * n, 2) for n in range(1, 5)]
        assert actions == [NOTHING, NOTHING, NOTHING, PING]

    def test_shorterInterval(self) -> None:
        """A shorter interval makes the next PING due earlier."""
        keepalive = Keepalive(120.0, 100.0, 0.0)
        keepalive.timePassed(102.0, 100.0, 2)
        keepalive.changeInterval(1.0, 110.0)
        assert keepalive.due == 111.0
        assert keepalive.timePassed(111.0, 100.0, 2) is PING
        assert keepalive.due == 112.0

    def test_longerInterval(self) -> None:
        """A longer interval applies after the PING that is due next."""
        keepalive = Keepalive(10.0, 100.0, 0.0)
        keepalive.changeInterval(100.0, 101.0)
        assert keepalive.due == 102.0
        keepalive.timePassed(102.0, 100.0, 2)
        assert keepalive.due == 202.0
