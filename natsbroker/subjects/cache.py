"""
A cache of results by subject. It never returns a stale result, and its memory is bounded. Subjects
in steady use stay in it, however many others are used once.

Results enter the young one of two generations. When it is full it becomes the old one, and the
former old one is forgotten. A result in the old generation that is used again moves to the young
one. So nothing must be ordered or counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar

#: Longer subjects are not remembered: keys must not cost more than results.
DEFAULT_LONGEST = 512

Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class MatchCache(Generic[Result]):
    """
    Not thread-safe. All callers get the same result, so they must not change it.

    @ivar epochOf: gives a number for a subject. A result is valid while this number stays the same
        (see L{natsbroker.subjects.epochs}).
    @ivar limit: the greatest sum of the weights of remembered results; at least 2.
    @ivar weigh: the weight of a result, 1 at least. A result that is heavier than half the limit is
        not remembered.
    @ivar longest: subjects of more bytes are not remembered.
    """

    match: Callable[[bytes], Result]
    epochOf: Callable[[bytes], int]
    limit: int
    weigh: Callable[[Result], int] = lambda result: 1
    longest: int = DEFAULT_LONGEST
    hits: int = field(default=0, init=False)
    misses: int = field(default=0, init=False)
    _half: int = field(init=False)
    _load: int = field(default=0, init=False)
    _young: dict[bytes, tuple[int, Result, int]] = field(default_factory=dict, init=False)
    _old: dict[bytes, tuple[int, Result, int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.limit < 2:
            raise ValueError(f"a cache needs room for at least 2 results, not {self.limit}")
        self._half = self.limit // 2

    def get(self, subject: bytes) -> Result:
        # The epoch is taken first: a change during the match shows next time.
        epoch = self.epochOf(subject)
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
        result = self.match(subject)
        if len(subject) <= self.longest:
            self._keep(subject, (epoch, result, max(1, self.weigh(result))))
        return result

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()
        self._load = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def results(self) -> list[Result]:
        return [known[1] for known in chain(self._young.values(), self._old.values())]

    def _keep(self, subject: bytes, known: tuple[int, Result, int]) -> None:
        weight = known[2]
        if weight > self._half:
            return
        if self._load + weight > self._half:
            self._old = self._young
            self._young = {}
            self._load = 0
        # The match may have asked this cache for the same subject; this result replaces that one.
        other = self._young.get(subject)
        if other is not None:
            self._load -= other[2]
        self._young[subject] = known
        self._load += weight
