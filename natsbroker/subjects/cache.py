"""
Results by subject, remembered while they hold: never a stale result; memory is bounded; subjects in
steady use stay while any number of others pass by once.

Results enter the young of two generations; when it is full it becomes the old one, and the old one
is forgotten. A result asked for again moves from the old to the young, so nothing has to be ordered
or counted.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Generic, TypeVar

#: Longer subjects are not remembered: keys must not cost more than results.
DEFAULT_LONGEST = 512

Result = TypeVar("Result")


class MatchCache(Generic[Result]):
    """
    Not thread-safe. The results are handed out as they are: treat them as immutable.
    """

    __slots__ = (
        "_epochOf",
        "_half",
        "_load",
        "_longest",
        "_match",
        "_old",
        "_weigh",
        "_young",
        "hits",
        "misses",
    )

    def __init__(
        self,
        match: Callable[[bytes], Result],
        epochOf: Callable[[bytes], int],
        limit: int,
        weigh: Callable[[Result], int] = lambda result: 1,
        longest: int = DEFAULT_LONGEST,
    ) -> None:
        """
        @param epochOf: gives a number for a subject; a result is good for as long as it stays the
            same (see L{natsbroker.subjects.epochs}).
        @param limit: the greatest sum of the weights of what is remembered, 2 at least.
        @param weigh: the weight of a result, 1 at least. A result that is heavier than half the
            limit is not remembered.
        @param longest: subjects of more bytes are not remembered.
        """
        if limit < 2:
            raise ValueError(f"a cache needs room for 2 results, not for {limit}")
        self.hits = 0
        self.misses = 0
        self._match = match
        self._epochOf = epochOf
        self._half = limit // 2
        self._weigh = weigh
        self._longest = longest
        self._load = 0
        self._young: dict[bytes, tuple[int, Result, int]] = {}
        self._old: dict[bytes, tuple[int, Result, int]] = {}

    def get(self, subject: bytes) -> Result:
        # The epoch is taken first: a change during the match shows next time.
        epoch = self._epochOf(subject)
        known = self._young.get(subject)
        if known is not None:
            if known[0] == epoch:
                self.hits += 1
                return known[1]
            del self._young[subject]
            self._load -= known[2]
        elif self._old:
            known = self._old.pop(subject, None)
            if known is not None and known[0] == epoch:
                self.hits += 1
                self._keep(subject, known)
                return known[1]
        self.misses += 1
        result = self._match(subject)
        if len(subject) <= self._longest:
            self._keep(subject, (epoch, result, max(1, self._weigh(result))))
        return result

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()
        self._load = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def results(self) -> list[Result]:
        """
        What is remembered now, also what does not hold any more.
        """
        return [known[1] for known in chain(self._young.values(), self._old.values())]

    def _keep(self, subject: bytes, known: tuple[int, Result, int]) -> None:
        weight = known[2]
        if weight > self._half:
            return
        if self._load + weight > self._half:
            self._old = self._young
            self._young = {}
            self._load = 0
        # A match may have asked this cache again; its result gives way.
        there = self._young.get(subject)
        if there is not None:
            self._load -= there[2]
        self._young[subject] = known
        self._load += weight
