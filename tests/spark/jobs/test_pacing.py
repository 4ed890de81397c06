"""
When the next message may be sent.
"""

from __future__ import annotations

import pytest

from natsbroker.spark.jobs.pacing import Pacer


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def times(pace: Pacer, clock: Clock, count: int, *stored: int) -> list[float]:
    """When messages go, from the beginning on, if each waits for its delay."""
    rounds = []
    for place in range(count):
        clock.now += pace.delay(stored[place] if stored else 0)
        rounds.append(round(clock.now - 50.0, 6))
    return rounds


def test_unlimited() -> None:
    """Without a rate or a speed no message waits."""
    clock = Clock()
    assert times(Pacer(clock=clock), clock, 3) == [0, 0, 0]


def test_slow() -> None:
    """A low rate spaces messages evenly."""
    clock = Clock()
    assert times(Pacer(2, clock=clock), clock, 4) == [0, 0.5, 1.0, 1.5]


@pytest.mark.parametrize("rate", [20, 300, 5000])
def test_rate(rate: int) -> None:
    """In any period, at most the rate's messages and one burst are published."""
    clock = Clock()
    pace = Pacer(rate, clock=clock)
    moments = times(pace, clock, rate * 2)
    for end in (0.1, 0.5, 1.0, 1.5):
        count = sum(1 for moment in moments if moment <= end)
        assert 0.9 * rate * end <= count <= rate * (end + 0.1 + 0.01) + 1
    clock.now += 1000
    again = [moment for moment in times(pace, clock, rate) if moment <= clock.now]
    assert len([moment for moment in again if moment == again[0]]) <= rate * 0.11 + 1


def test_speed() -> None:
    """Messages keep the gaps between their stored times, divided by the speed."""
    clock = Clock()
    second = 10**9
    stored = (7 * second, 8 * second, 8 * second, 27 * second)
    assert times(Pacer(speed=10, clock=clock), clock, 4, *stored) == [0, 0.1, 0.1, 2.0]


def test_lateMessage() -> None:
    """
    A message that is late is published at once, and so is one that is older than the previous one.
    """
    clock = Clock()
    pace = Pacer(speed=1, clock=clock)
    assert pace.delay(10**9) == 0
    clock.now += 5
    assert pace.delay(3 * 10**9) == 0
    assert pace.delay(0) == 0
    assert pace.delay(8 * 10**9) == 2


def test_rateAndSpeed() -> None:
    """With a rate and a speed, each message waits for the later time of both."""
    clock = Clock()
    stored = (0, 10**9, 10**9, 10**9)
    moments = times(Pacer(2, 10, clock), clock, 4, *stored)
    assert moments == [0, 0.5, 1.0, 1.5]
    moments = times(Pacer(2, 0.1, Clock()), Clock(), 1, *stored)
    assert moments == [0]
