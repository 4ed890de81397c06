"""
Epochs, by which remembered matches survive changes of other subscriptions. They show whether
anything has changed that matters to a subject. Reading and changing an epoch are O(1). An epoch
never returns after a change that matters.

There is one counter for patterns that begin with a wildcard, a row of counters for the other
wildcard patterns, picked by their first token, and a row for literals, picked by the whole subject.
A subject's epoch is the sum of the three that concern it. Counters only grow, so the sum grows with
any of them. Subjects that share a counter by chance are only matched again more often than needed.
"""

from __future__ import annotations

from natsbroker.subjects.grammar import hasWildcard


class Epochs:
    """The ages of all subjects. Not thread-safe."""

    __slots__ = ("_heads", "_literals", "_mask", "_wild")

    def __init__(self, counters: int = 4096) -> None:
        """
        C{counters}, a power of two, take eight bytes each. With fewer of them, more subjects share
        one.
        """
        if counters < 1 or counters & (counters - 1):
            raise ValueError(f"not a power of two: {counters}")
        self._mask = counters - 1
        self._heads = [0] * counters
        self._literals = [0] * counters
        self._wild = 0

    def changed(self, pattern: bytes) -> None:
        """Give matching subjects a new epoch, when a pattern gains or loses an entry."""
        if not hasWildcard(pattern):
            self._literals[hash(pattern) & self._mask] += 1
            return
        head = pattern.partition(b".")[0]
        if head == b"*" or head == b">":
            self._wild += 1
        else:
            self._heads[hash(head) & self._mask] += 1

    def epochOf(self, subject: bytes) -> int:
        """
        The epoch of a subject. It is greater than any before the last change of a matching pattern.
        """
        mask = self._mask
        head = subject.partition(b".")[0]
        return self._wild + self._heads[hash(head) & mask] + self._literals[hash(subject) & mask]
