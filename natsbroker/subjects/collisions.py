"""
The patterns of a list that overlap, or are inside others, found without comparing each with each.

Two patterns of given shapes (see L{natsbroker.subjects.shapes}) overlap if their tokens are the
same wherever neither has a C{*}. The patterns of one shape are put into a dict under these tokens,
and those of the other looked up in it. The work grows with the number of patterns, and with that of
shapes, which is capped. A trie would follow every branch where a pattern has a C{*}: with
C{a1.*.x}, C{a2.*.x} and so on beside C{*.b1.y}, C{*.b2.y} and so on, it compares each with each.

The answers are those of L{natsbroker.subjects.grammar.overlaps} and C{isSubset}. For the former,
patterns need not be valid.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter

from natsbroker.steps import Steps, pieces
from natsbroker.subjects.grammar import isSubset, overlaps
from natsbroker.subjects.shapes import DEFAULT_MAX_SHAPES, TooManyShapes

#: Number of tokens (a final C{>} counts), positions of C{*}, ends in C{>}.
Shape = tuple[int, tuple[int, ...], bool]

#: With this many tables of a list, all are forgotten before the next one is made.
_MOST_TABLES = 256

#: Places of patterns, and their tokens.
_Alike = list[tuple[int, list[bytes]]]

#: The function that makes the key of a pattern of some shape.
Key = Callable[[list[bytes]], Hashable]


def shapeOf(tokens: list[bytes]) -> Shape:
    stars = tuple([at for at, token in enumerate(tokens) if token == b"*"])
    return len(tokens), stars, tokens[-1] == b">"


class PatternGroups:
    __slots__ = ("_groups", "_wild")

    def __init__(self) -> None:
        self._groups: dict[Shape, _Alike] = {}
        self._wild = 0

    def add(self, place: int, pattern: bytes) -> None:
        """Raise L{TooManyShapes} if there is no room for the shape."""
        tokens = pattern.split(b".")
        shape = shapeOf(tokens)
        there = self._groups.get(shape)
        if there is not None:
            there.append((place, tokens))
            return
        if shape[1] or shape[2]:
            self._wild += 1
            if self._wild > DEFAULT_MAX_SHAPES:
                raise TooManyShapes(f"more than {DEFAULT_MAX_SHAPES} wildcard shapes")
        self._groups[shape] = [(place, tokens)]

    def __iter__(self) -> Iterator[tuple[Shape, _Alike]]:
        return iter(self._groups.items())


def _grouped(patterns: Iterable[tuple[int, bytes]]) -> Steps[PatternGroups]:
    groups = PatternGroups()
    for some in pieces(list(patterns)):
        for place, pattern in some:
            groups.add(place, pattern)
        yield
    return groups


def compared(one: Shape, other: Shape) -> list[int] | None:
    """The positions at which overlapping patterns have the same token; C{None} if none overlap."""
    if one[2] and other[2]:
        length = min(one[0], other[0]) - 1
    elif one[2] or other[2]:
        wide, narrow = (one, other) if one[2] else (other, one)
        if narrow[0] < wide[0]:
            return None
        length = wide[0] - 1
    elif one[0] != other[0]:
        return None
    else:
        length = one[0]
    stars = {*one[1], *other[1]}
    return [at for at in range(length) if at not in stars]


def _covered(narrow: Shape, wide: Shape) -> list[int] | None:
    """Positions of equal tokens in a valid pattern within another; C{None} if none is."""
    if wide[2]:
        if narrow[0] < wide[0]:
            return None
        length = wide[0] - 1
    elif narrow[2] or narrow[0] != wide[0]:
        return None
    else:
        length = wide[0]
    stars = set(wide[1])
    if any(at < length and at not in stars for at in narrow[1]):
        return None
    return [at for at in range(length) if at not in stars]


def keyOf(positions: Sequence[int]) -> Key:
    return itemgetter(*positions) if positions else _sameForAll


def _sameForAll(tokens: list[bytes]) -> None:
    """The same key for all patterns, if no token is compared."""


def _table(alike: _Alike, key: Key) -> Steps[dict[Hashable, int]]:
    table: dict[Hashable, int] = {}
    for some in pieces(alike):
        for place, tokens in some:
            table.setdefault(key(tokens), place)
        yield
    return table


def _twins(alike: _Alike, positions: list[int]) -> Steps[int | None]:
    key, least = keyOf(positions), None
    table: dict[Hashable, int] = {}
    for some in pieces(alike):
        for place, tokens in some:
            first = table.setdefault(key(tokens), place)
            if first != place and (least is None or first < least):
                least = first
        yield
    return least


def _hits(mine: _Alike, theirs: _Alike, positions: list[int]) -> Steps[tuple[int, int] | None]:
    """
    The first pattern of C{mine} whose key one of C{theirs} has, and the first such one of
    C{theirs}.
    """
    key = keyOf(positions)
    table = yield from _table(theirs, key)
    first, least = None, None
    for some in pieces(mine):
        for place, tokens in some:
            hit = table.get(key(tokens))
            if hit is not None:
                first = place if first is None else first
                least = hit if least is None else min(least, hit)
        yield
    return None if first is None or least is None else (first, least)


def firstOverlap(patterns: Sequence[tuple[int, bytes]]) -> Steps[tuple[int, int] | None]:
    """
    Find the first pattern that overlaps with a later one, and the first such later one.

    @param patterns: with their places, which rise.
    @return: the places of both; C{None} if no two overlap.
    @raise TooManyShapes: if the patterns have too many wildcard shapes.
    """
    groups = list((yield from _grouped(patterns)))
    least: list[int] = []
    for index, (shape, mine) in enumerate(groups):
        for other, theirs in groups[index:]:
            positions = compared(shape, other)
            if positions is None:
                continue
            if mine is theirs:
                twin = yield from _twins(mine, positions)
                least += () if twin is None else (twin,)
            else:
                least += (yield from _hits(mine, theirs, positions)) or ()
        yield
    if not least:
        return None
    one = min(least)
    pattern = next(candidate for place, candidate in patterns if place == one)
    later = [(place, candidate) for place, candidate in patterns if place > one]
    for some in pieces(later):
        for place, candidate in some:
            if overlaps(pattern, candidate):
                return one, place
        yield
    return None


def firstInside(patterns: Sequence[tuple[int, bytes]]) -> Steps[int | None]:
    """
    Find the first pattern that is inside another one.

    @param patterns: valid ones, with their places, which rise.
    @return: its place.
    @raise TooManyShapes: if the patterns have too many wildcard shapes.
    """
    groups = list((yield from _grouped(patterns)))
    least: list[int] = []
    for narrow, mine in groups:
        for wide, theirs in groups:
            positions = _covered(narrow, wide)
            if positions is None:
                continue
            if mine is theirs:
                twin = yield from _twins(mine, positions)
                least += () if twin is None else (twin,)
            else:
                least += ((yield from _hits(mine, theirs, positions)) or ())[:1]
        yield
    return min(least, default=None)


def firstMeeting(mine: Sequence[bytes], theirs: Iterable[bytes]) -> Steps[int | None]:
    """The place of the first pattern that overlaps with another list, or L{TooManyShapes}."""
    groups = list((yield from _grouped(enumerate(theirs))))
    least: list[int] = []
    for shape, alike in (yield from _grouped(enumerate(mine))):
        for other, those in groups:
            positions = compared(shape, other)
            if positions is not None:
                least += ((yield from _hits(alike, those, positions)) or ())[:1]
        yield
    return min(least, default=None)


class PatternTable:
    """
    A list of patterns, in which one can find those that a pattern overlaps with, or is inside of.
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self._patterns = patterns
        self._groups: dict[Shape, _Alike] = {}
        for place, pattern in enumerate(patterns):
            tokens = pattern.split(b".")
            self._groups.setdefault(shapeOf(tokens), []).append((place, tokens))
        self._tables: dict[tuple[Shape, tuple[int, ...]], dict[Hashable, list[int]]] = {}

    def overlapping(self, pattern: bytes) -> list[int]:
        return self._found(pattern, compared)

    def overlaps(self, pattern: bytes) -> bool:
        return any(self._hits(pattern.split(b"."), compared))

    def containing(self, pattern: bytes) -> list[int]:
        places = self._found(pattern, _covered)
        return [place for place in places if isSubset(pattern, self._patterns[place])]

    def _found(
        self, pattern: bytes, relation: Callable[[Shape, Shape], list[int] | None]
    ) -> list[int]:
        return sorted(chain.from_iterable(self._hits(pattern.split(b"."), relation)))

    def _hits(
        self, tokens: list[bytes], relation: Callable[[Shape, Shape], list[int] | None]
    ) -> Iterator[Sequence[int]]:
        mine = shapeOf(tokens)
        for shape in self._groups:
            positions = relation(mine, shape)
            if positions is not None:
                yield self._table(shape, tuple(positions)).get(keyOf(positions)(tokens), ())

    def _table(self, shape: Shape, positions: tuple[int, ...]) -> dict[Hashable, list[int]]:
        table = self._tables.get((shape, positions))
        if table is None:
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            table = self._tables[shape, positions] = {}
            key = keyOf(positions)
            for place, tokens in self._groups[shape]:
                table.setdefault(key(tokens), []).append(place)
        return table
