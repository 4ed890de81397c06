"""
Epochs, by which remembered matches survive churn: has anything that matters to this subject changed
since? Both questions are O(1); an epoch never comes back after a change that matters.

There is one counter for patterns that begin with a wildcard, a row of counters for the other
wildcard patterns, picked by their first token, and a row for literals, picked by the whole subject.
A subject's epoch is the sum of the three that concern it. Counters only grow, so the sum grows with
any of them. Subjects that share a counter by chance are merely matched afresh once more than
needed.
"""

from __future__ import annotations

from natsbroker.subjects.grammar import hasWildcard


class Epochs:
    """The ages of all subjects. Not thread-safe."""

    __slots__ = ("_heads", "_literals", "_mask", "_wild")

    def __init__(self, counters: int = 4096) -> None:
        """C{counters}, a power of two, take eight bytes each; fewer ones share more."""
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
        """A greater number than any given for the subject before a matching pattern changed."""
        mask = self._mask
        head = subject.partition(b".")[0]
        return self._wild + self._heads[hash(head) & mask] + self._literals[hash(subject) & mask]
