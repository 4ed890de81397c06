"""
What an account is subscribed to on this broker, by what patterns begin with.

Promises: the cost is that of a change of interest, whatever is published.
Must never know: who is subscribed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from zope.interface import implementer

from natsbroker.interfaces import IInterestWatcher, IMessageBus
from natsbroker.monitoring.subjecttraffic import prefixOf

__all__ = ["Demand"]


@implementer(IInterestWatcher)
class Demand:
    """
    @ivar patterns: how many different patterns, and groups with one, begin like that.
    """

    def __init__(self, bus: IMessageBus, depth: int) -> None:
        """
        @param bus: a door to the account.
        @param depth: how many tokens are told apart.
        """
        self.patterns: Counter[bytes] = Counter()
        self._depth = depth
        self.stop: Callable[[], None] = bus.watchInterest(self)

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """
        See L{IInterestWatcher.interestGained}.
        """
        self.patterns[prefixOf(pattern, self._depth)] += 1

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """
        See L{IInterestWatcher.interestWeightChanged}.
        """

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        """
        See L{IInterestWatcher.interestLost}.
        """
        prefix = prefixOf(pattern, self._depth)
        self.patterns[prefix] -= 1
        if self.patterns[prefix] <= 0:
            del self.patterns[prefix]
