"""
The default subject router. It finds the entries that a subject reaches.

A match costs one look-up for each wildcard shape in use (see L{natsbroker.subjects.shapes}),
whatever the number of patterns; insert and remove are O(1), also when a hundred thousand entries
share a pattern.

All patterns are in one dict under their own text. To match a subject, the text that a matching
pattern must have is made for each possible shape, and looked up. Real systems use few shapes for
any number of patterns. The number of shapes is capped, so nobody can make matching slow by
subscribing (see C{docs/topics/routing.md}).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from natsbroker.subjects.grammar import isValidSubject
from natsbroker.subjects.shapes import (
    DEFAULT_MAX_SHAPES,
    WILDCARDS,
    Recipe,
    ShapeTable,
    TooManyShapes,
)

__all__ = ["DEFAULT_MAX_SHAPES", "InvalidPattern", "SubjectIndex", "TooManyShapes"]

#: Above this many bytes a subject is matched with regard to pattern lengths.
_LONG = 512

#: Above this many entries a pattern's entries are kept in a dict, not a list.
_FEW = 16

Entry = TypeVar("Entry")


class InvalidPattern(ValueError):
    pass


class _Few(list[Any]):
    __slots__ = ()

    def discard(self, entry: object) -> bool:
        for place, held in enumerate(self):
            if held is entry:
                # The order does not matter, so the last entry fills the gap.
                self[place] = self[-1]
                self.pop()
                return True
        return False


class _Many(dict[int, Any]):
    __slots__ = ()


_MISSING = object()


def _each(there: Any) -> Sequence[Any]:
    if type(there) is _Many:
        return tuple(there.values())
    return there if type(there) is _Few else (there,)


class SubjectIndex(Generic[Entry]):
    """
    An index from patterns to entries, which are compared by identity and inserted once under each
    pattern. Not thread-safe; a result of L{match} is the caller's own list.
    """

    __slots__ = ("_count", "_found", "_shapes")

    def __init__(self, maxShapes: int = DEFAULT_MAX_SHAPES) -> None:
        """
        @param maxShapes: the most distinct wildcard shapes at a time. The longest patterns of all
            shapes together may have sixty-four times as many bytes.
        """
        # A single entry stands for itself, several are in a _Few or a _Many.
        self._found: dict[bytes, Any] = {}
        self._shapes = ShapeTable(maxShapes)
        self._count = 0

    def insert(self, pattern: bytes, entry: Entry) -> None:
        """
        @raise InvalidPattern: if the pattern is not a valid subject.
        @raise TooManyShapes: if its wildcard shape is new, or it is the longest pattern of its
            shape, and the cap is reached.
        """
        there = self._found.get(pattern, _MISSING)
        if there is _MISSING:
            if not isValidSubject(pattern):
                raise InvalidPattern(f"not a valid subject: {pattern!r}")
            self._shapes.admit(pattern)
            self._found[pattern] = entry
        elif type(there) is _Many:
            if id(entry) in there:
                return
            there[id(entry)] = entry
        elif any(held is entry for held in _each(there)):
            return
        elif type(there) is not _Few:
            self._found[pattern] = _Few((there, entry))
        elif len(there) < _FEW:
            there.append(entry)
        else:
            self._found[pattern] = _Many((id(held), held) for held in (*there, entry))
        self._count += 1

    def remove(self, pattern: bytes, entry: Entry) -> bool:
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
            self._shapes.retire(pattern)
        else:
            return False
        self._count -= 1
        return True

    # match and hasInterest spell out one loop twice: a call for each subject,
    # or a list of what was found, would cost as much as a look-up.

    def match(self, subject: bytes) -> list[Entry]:
        """
        Entries that a literal subject reaches (L{natsbroker.subjects.grammar.matches}), in any
        order, once for each pattern.
        """
        lookup = self._found.get
        entries: list[Entry] = []
        there = lookup(subject, _MISSING)
        if there is not _MISSING:
            entries += _each(there)
        if not self._shapes.counts:
            return entries
        picked = subject.split(b".")
        if len(subject) > _LONG or b"*" in picked or b">" in picked:
            return self._matchOddity(picked)
        join = b".".join
        for recipe in self._recipesFor(picked):
            there = lookup(join(recipe(picked)), _MISSING)
            if there is not _MISSING:
                if type(there) is _Few:
                    entries += there
                elif type(there) is _Many:
                    entries += there.values()
                else:
                    entries.append(there)
        return entries

    def hasInterest(self, subject: bytes) -> bool:
        known = self._found
        if subject in known:
            return True
        if not self._shapes.counts:
            return False
        picked = subject.split(b".")
        if len(subject) > _LONG:
            return bool(self._matchOddity(picked))
        join = b".".join
        return any(join(recipe(picked)) in known for recipe in self._recipesFor(picked))

    def _recipesFor(self, picked: list[bytes]) -> tuple[Recipe, ...]:
        """The recipes for a subject without empty tokens, to which their wildcards are appended."""
        recipes = self._shapes.recipes.get(len(picked))
        if recipes is None:
            recipes = self._shapes.recipesFor(len(picked))
        if b"" in picked:
            return ()
        picked += WILDCARDS
        return recipes

    def _matchOddity(self, picked: list[bytes]) -> list[Entry]:
        """Match a subject that is very long or has wildcard tokens. Each pattern counts once."""
        if b"" in picked:
            return []
        texts = {b".".join(picked), *self._shapes.textsFor(picked)}
        entries: list[Entry] = []
        for text in texts:
            if text in self._found:
                entries += _each(self._found[text])
        return entries

    def entriesFor(self, pattern: bytes) -> tuple[Entry, ...]:
        there = self._found.get(pattern, _MISSING)
        return () if there is _MISSING else tuple(_each(there))

    def patterns(self) -> Iterator[bytes]:
        return iter(self._found)

    def __iter__(self) -> Iterator[Entry]:
        for there in self._found.values():
            yield from _each(there)

    def __len__(self) -> int:
        return self._count

    @property
    def shapes(self) -> int:
        """The number of distinct wildcard shapes in use: the cost of a match."""
        return len(self._shapes.counts)
