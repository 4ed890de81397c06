"""
Searches for the subjects that a pattern matches, in byte order. A search skips from a subject to
the next place where a match can be, so it does not look at every subject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from natsbroker.steps import PIECE
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.verdicts import indexing, subjectTest, testOf

NEAR = 16
"""
The number of subjects that a search looks at before it skips. The number doubles each time that
there is nothing to skip.
"""

_BEHIND_STOP = b"/"
"""The byte after the full stop. Behind some tokens, it sorts after all subjects with these."""


#: This many patterns with the same first tokens are searched for together.
_ALIKE = 8


def searchesFor(
    filters: Sequence[bytes],
) -> Iterator[tuple[bytes, Callable[[bytes], bool] | None] | None]:
    """
    The patterns to search for in place of filters. Similar filters share a pattern, with a test for
    the matching subjects. C{None} ends a step of long work.
    """
    alike: dict[bytes, list[bytes]] = {}
    for place, filter_ in enumerate(filters, 1):
        if not place % PIECE:
            yield None
        if hasWildcard(filter_):
            tokens = takewhile(lambda token: token not in (b"*", b">"), filter_.split(b"."))
            alike.setdefault(b".".join([*tokens, b">"]), []).append(filter_)
        else:
            yield filter_, None
    for wide, some in alike.items():
        if len(some) < _ALIKE:
            yield from ((filter_, None) for filter_ in some)
        else:
            patterns = tuple(some)
            yield from indexing(patterns)
            yield wide, testOf(patterns)


class PatternSearch:
    def __init__(self, pattern: bytes) -> None:
        tokens = pattern.split(b".")
        self._isOpen = tokens[-1] == b">"
        self._tokens = tokens[:-1] if self._isOpen else tokens
        self._test = subjectTest(pattern)
        self._part = max((self._literalAt(place) for place in self._afterWildcards()), key=len)

    def _afterWildcards(self) -> list[int]:
        return [place + 1 for place, token in enumerate(self._tokens) if token == b"*"] or [
            len(self._tokens)
        ]

    def _literalAt(self, place: int) -> bytes:
        """The literal tokens from a place up to a wildcard or to the end, with full stops."""
        tokens = self._tokens
        stop = place
        while stop < len(tokens) and tokens[stop] != b"*":
            stop += 1
        if stop == place:
            return b""
        hasMore = stop < len(tokens) or self._isOpen
        return b".".join((b"", *tokens[place:stop])) + (b"." if hasMore else b"")

    def select(self, subjects: Sequence[bytes]) -> list[bytes]:
        part = self._part
        if part:
            # This test alone leaves out most of them, and costs little.
            subjects = [subject for subject in subjects if part in subject]
        return [subject for subject in subjects if self._test(subject)]

    def following(self, subject: bytes) -> bytes:
        """The next place behind a subject where a match can be; empty if there is none."""
        given, star = subject.split(b"."), -1
        for place, token in enumerate(self._tokens):
            if place == len(given):
                return subject + b"\0"
            if token == b"*":
                star = place
            elif token != given[place]:
                first = b".".join(given[:place]) + self._literalAt(place)
                if not place:
                    first = first[1:]
                return first if first > subject else self._past(given, star)
        isLast = star == len(self._tokens) - 1 and len(given) == len(self._tokens)
        return subject + b"\0" if self._isOpen or isLast else self._past(given, star)

    def _past(self, given: list[bytes], star: int) -> bytes:
        """The place behind all subjects with the same tokens up to a C{*}; empty without a C{*}."""
        return b".".join(given[: star + 1]) + _BEHIND_STOP if star >= 0 else b""
