"""
The default subject router: which entries does a subject reach?

Promises: a match costs one look-up for each wildcard I{shape} in use, whatever
the number of patterns; insert and remove are O(1), also when a hundred thousand
entries share a pattern; no recursion, so any number of tokens is fine.  Must
never know: what an entry is, connections, accounts, queue groups, caches.

The shape of a pattern is its number of tokens, the positions of its C{*}, and
whether it ends in C{>}: C{orders.*.paid} and C{users.*.seen} have one shape.
All patterns live in one dict under their own text.  A subject is matched by
asking, for each shape that can apply, what text a pattern of that shape would
have to have, and looking that text up.  Real systems use a handful of shapes
for any number of patterns, and the number of shapes is capped, so nobody can
subscribe to patterns that make matching slow (see C{docs/topics/routing.md}).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from natsbroker.subjects.grammar import isValidSubject

__all__ = ["DEFAULT_MAX_SHAPES", "InvalidPattern", "SubjectIndex", "TooManyShapes"]

DEFAULT_MAX_SHAPES = 1024

#: On average, the tokens that a shape may have before the cap on shapes shrinks.
_TOKENS_PER_SHAPE = 16

#: Above this many entries a pattern's entries are kept in a dict, not a list.
_FEW = 16

Entry = TypeVar("Entry")

#: Number of tokens (a final C{>} counts), positions of C{*}, ends in C{>}.
_Shape = tuple[int, tuple[int, ...], bool]

#: From a subject's tokens followed by C{*} and C{>} to a pattern's tokens.
_Recipe = Callable[[Sequence[bytes]], Sequence[bytes]]

_WILDCARDS = (b"*", b">")


class InvalidPattern(ValueError):
    """
    What was to be inserted is not a valid subject.
    """


class TooManyShapes(Exception):
    """
    The pattern would add a wildcard shape beyond the cap; nothing was inserted.
    """


class _Few(list[Any]):
    """
    The entries of one pattern, from two to a few.
    """

    __slots__ = ()

    def discard(self, entry: object) -> bool:
        """
        @return: whether the entry was there, by identity, and now is not.
        """
        for place, each in enumerate(self):
            if each is entry:
                # The order is nobody's business: the last takes the gap.
                self[place] = self[-1]
                self.pop()
                return True
        return False


class _Many(dict[int, Any]):
    """
    The entries of one pattern by identity, when there are more than a few.
    """

    __slots__ = ()


class _Missing:
    """
    What a look-up answers where no pattern is.
    """


_MISSING = _Missing()


def _shapeOf(pattern: bytes) -> _Shape | None:
    """
    @return: the shape of a valid pattern, or L{None} for a literal.
    """
    if b"*" not in pattern and b">" not in pattern:
        return None
    parts = pattern.split(b".")
    stars = tuple([i for i, part in enumerate(parts) if part == b"*"])
    full = parts[-1] == b">"
    return (len(parts), stars, full) if stars or full else None


def _recipeFor(shape: _Shape) -> _Recipe:
    """
    @return: a function that picks, from a subject's tokens with C{*} and C{>}
        appended, the tokens that a matching pattern of this shape has.
    """
    length, stars, full = shape
    picks = list(range(length))
    for position in stars:
        picks[position] = -2
    if full:
        picks[-1] = -1
    if length > 1:
        return itemgetter(*picks)
    # itemgetter of one index gives an item, of a slice gives a sequence.
    return itemgetter(slice(-1, None) if full else slice(-2, -1))


class SubjectIndex(Generic[Entry]):
    """
    An index from patterns to entries.

    Entries are told apart by identity.  An entry may be inserted under any
    number of patterns; inserting it again under the same pattern changes
    nothing.

    Not thread-safe; a result of L{match} is the caller's own list.
    """

    __slots__ = ("_count", "_found", "_maxShapes", "_recipes", "_shapeTokens", "_shapes")

    def __init__(self, maxShapes: int = DEFAULT_MAX_SHAPES) -> None:
        """
        @param maxShapes: how many distinct wildcard shapes may be in use at a
            time.  The sum of their token counts is capped as well, at sixteen
            times this number, because a look-up costs in proportion to it.
        """
        self._found: dict[bytes, Any] = {}
        self._shapes: dict[_Shape, int] = {}
        self._shapeTokens = 0
        self._recipes: dict[int, tuple[_Recipe, ...]] = {}
        self._count = 0
        self._maxShapes = maxShapes

    def insert(self, pattern: bytes, entry: Entry) -> None:
        """
        Let subjects that match the pattern reach the entry.

        @param pattern: a valid subject, perhaps with wildcards.
        @param entry: anything.
        @raise InvalidPattern: if the pattern is not a valid subject.
        @raise TooManyShapes: if the pattern's wildcard shape is new and the cap
            is reached.
        """
        there = self._found.get(pattern, _MISSING)
        if there is _MISSING:
            self._admit(pattern)
            self._found[pattern] = entry
        elif type(there) is _Few:
            if any(each is entry for each in there):
                return
            there.append(entry)
            if len(there) > _FEW:
                self._found[pattern] = _Many((id(each), each) for each in there)
        elif type(there) is _Many:
            if id(entry) in there:
                return
            there[id(entry)] = entry
        elif there is entry:
            return
        else:
            self._found[pattern] = _Few((there, entry))
        self._count += 1

    def remove(self, pattern: bytes, entry: Entry) -> bool:
        """
        Undo one L{insert}.

        @return: whether the entry was there under that very pattern.
        """
        there = self._found.get(pattern, _MISSING)
        if type(there) is _Few:
            if not there.discard(entry):
                return False
            if len(there) == 1:
                self._found[pattern] = there[0]
        elif type(there) is _Many:
            if there.pop(id(entry), _MISSING) is _MISSING:
                return False
            if len(there) <= _FEW // 2:
                self._found[pattern] = _Few(there.values())
        elif there is entry:
            del self._found[pattern]
            self._retire(pattern)
        else:
            return False
        self._count -= 1
        return True

    def match(self, subject: bytes) -> list[Entry]:
        """
        @param subject: the subject of a message; its tokens are taken
            literally (see L{natsbroker.subjects.grammar.matches}).
        @return: every entry that it reaches, in no particular order; an entry
            stands there once for each pattern that it was reached by.
        """
        found: list[Entry] = []
        for there in self._reached(subject):
            if type(there) is _Few:
                found += there
            elif type(there) is _Many:
                found += there.values()
            else:
                found.append(there)
        return found

    def hasInterest(self, subject: bytes) -> bool:
        """
        @return: whether L{match} would find anything.
        """
        return bool(self._reached(subject))

    def _reached(self, subject: bytes) -> list[Any]:
        """
        @return: what is kept under each pattern that matches the subject.
        """
        lookup = self._found.get
        there = lookup(subject, _MISSING)
        if not self._shapes:
            return [] if there is _MISSING else [there]
        picked = subject.split(b".")
        if b"" in picked:
            return []
        if b"*" in picked or b">" in picked:
            return self._reachedByOddity(picked)
        reached = [] if there is _MISSING else [there]
        recipes = self._recipes.get(len(picked))
        if recipes is None:
            recipes = self._recipesFor(len(picked))
        join = b".".join
        picked += _WILDCARDS
        for recipe in recipes:
            there = lookup(join(recipe(picked)), _MISSING)
            if there is not _MISSING:
                reached.append(there)
        return reached

    def _reachedByOddity(self, picked: list[bytes]) -> list[Any]:
        """
        Match a subject that holds wildcard tokens: several shapes may then
        lead to one pattern, which counts once.
        """
        recipes = self._recipesFor(len(picked))
        join = b".".join
        texts = {join(picked)}
        picked += _WILDCARDS
        texts.update([join(recipe(picked)) for recipe in recipes])
        return [self._found[text] for text in texts if text in self._found]

    def _recipesFor(self, length: int) -> tuple[_Recipe, ...]:
        """
        @return: the recipes of the shapes that can match a subject of so many
            tokens.  They are kept until the shapes in use change.
        """
        # All subjects longer than every shape are matched by the same shapes.
        length = min(length, 1 + max((shape[0] for shape in self._shapes), default=0))
        recipes = self._recipes.get(length)
        if recipes is None:
            recipes = self._recipes[length] = tuple(
                _recipeFor(shape)
                for shape in self._shapes
                if shape[0] == length or (shape[2] and shape[0] < length)
            )
        return recipes

    def _admit(self, pattern: bytes) -> None:
        """
        Count the shape of a pattern that is new here.
        """
        if not isValidSubject(pattern):
            raise InvalidPattern(f"not a valid subject: {pattern!r}")
        shape = _shapeOf(pattern)
        if shape is None:
            return
        if shape in self._shapes:
            self._shapes[shape] += 1
            return
        weight = self._shapeTokens + shape[0]
        if len(self._shapes) >= self._maxShapes or weight > self._maxShapes * _TOKENS_PER_SHAPE:
            raise TooManyShapes(
                f"no room for the wildcard shape of {pattern[:80]!r}: "
                f"{len(self._shapes)} shapes with {self._shapeTokens} tokens are in use"
            )
        self._shapes[shape] = 1
        self._shapeTokens = weight
        self._recipes.clear()

    def _retire(self, pattern: bytes) -> None:
        """
        Count out the shape of a pattern that is gone.
        """
        shape = _shapeOf(pattern)
        if shape is None:
            return
        left = self._shapes[shape] - 1
        if left:
            self._shapes[shape] = left
            return
        del self._shapes[shape]
        self._shapeTokens -= shape[0]
        self._recipes.clear()

    def entriesFor(self, pattern: bytes) -> tuple[Entry, ...]:
        """
        @return: the entries inserted under exactly this text.
        """
        there = self._found.get(pattern, _MISSING)
        return () if there is _MISSING else tuple(_each(there))

    def patterns(self) -> Iterator[bytes]:
        """
        @return: each distinct pattern once, in no particular order.
        """
        return iter(self._found)

    def __iter__(self) -> Iterator[Entry]:
        """
        @return: each entry, once for each pattern it is inserted under.
        """
        for there in self._found.values():
            yield from _each(there)

    def __len__(self) -> int:
        """
        @return: how many entries are inserted, over all patterns.
        """
        return self._count

    @property
    def shapes(self) -> int:
        """
        How many distinct wildcard shapes are in use: the cost of a match.
        """
        return len(self._shapes)


def _each(there: Any) -> Sequence[Any]:
    """
    @return: the entries in what is kept under one pattern.
    """
    if type(there) is _Many:
        return tuple(there.values())
    return there if type(there) is _Few else (there,)
