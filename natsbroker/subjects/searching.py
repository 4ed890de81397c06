"""
Searches in byte order for subjects that a pattern matches, without looking at all. The search goes
from one subject to the next place where a match can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.verdicts import subjectTest, testOf

NEAR = 16
"""
The subjects that are looked at in a row before others are passed over. As long as there is nothing
to pass over, it is twice as many each time.
"""

_BEHIND_STOP = b"/"
"""The byte after the full stop: no subject that begins with some tokens is behind them and it."""


#: This many patterns with the same first tokens are searched for together.
_ALIKE = 8


def searchesFor(
    filters: Sequence[bytes],
) -> Iterator[tuple[bytes, Callable[[bytes], bool] | None]]:
    """Patterns to search for instead of filters, with a test; similar filters share a search."""
    alike: dict[bytes, list[bytes]] = {}
    for filter_ in filters:
        if hasWildcard(filter_):
            tokens = takewhile(lambda token: token not in (b"*", b">"), filter_.split(b"."))
            alike.setdefault(b".".join([*tokens, b">"]), []).append(filter_)
        else:
            yield filter_, None
    for wide, some in alike.items():
        if len(some) < _ALIKE:
            yield from ((filter_, None) for filter_ in some)
        else:
            yield wide, testOf(tuple(some))


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
        """The literal tokens from a place up to a wildcard or the end, with full stops."""
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
            # This alone leaves out most of them, at a small part of the price.
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
        """Behind everything that has the same tokens up to the last wildcard that was reached."""
        return b".".join(given[: star + 1]) + _BEHIND_STOP if star >= 0 else b""
