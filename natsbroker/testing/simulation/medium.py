"""
What the connections of the simulated network pass through: time, chance, delays and interruptions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random
from typing import Any

from natsbroker.testing.simulation.clock import SimulatedClock

__all__ = ["Machine", "Medium"]


class Machine:
    def __init__(self, address: str) -> None:
        self.address = address
        self.isAlive = True


class Medium:
    """
    Carries the bytes of all connections.

    @ivar latency: the longest delay of a piece, in seconds.
    @ivar largest: the most bytes of a piece.
    @ivar watch: called with a wire and everything written to it, before it is on its way.
    @ivar trace: a digest of what was carried; runs have the same one if the same bytes took the
        same paths at the same times.
    """

    def __init__(self, clock: SimulatedClock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.latency = 0.005
        self.largest = 1 << 16
        self.watch: Callable[[Any, bytes], None] = _ignore
        self._held: set[tuple[str, str]] = set()
        self._digest = hashlib.sha256()

    def carried(self, number: int, source: str, data: bytes) -> None:
        now = self.clock.seconds()
        self._digest.update(b"%d %b %.9f %d " % (number, source.encode(), now, len(data)))
        self._digest.update(data)

    @property
    def trace(self) -> str:
        return self._digest.hexdigest()

    def isHeld(self, source: str, target: str) -> bool:
        """
        Whether nothing is carried from one host to another.
        """
        return (source, target) in self._held


def _ignore(wire: Any, data: bytes) -> None:
    """
    The observer of a network that nothing watches.
    """
