"""
The wildcard shapes in use, and the texts to look up for each. The number of shapes is capped, and
with it the cost of matching any subject of any length. Adding and removing a pattern is O(1) in the
number of patterns.

The shape of a pattern is its number of tokens, the positions of its C{*}, and whether it ends in
C{>}: C{orders.*.paid} and C{users.*.seen} have one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from natsbroker.subjects.grammar import hasWildcard

DEFAULT_MAX_SHAPES = 1024

#: The average bound on the longest patterns of the shapes, in bytes.
BYTES_PER_SHAPE = 64

#: The wildcards that follow a subject's tokens in the argument of a recipe.
WILDCARDS = (b"*", b">")

#: From a subject's tokens and L{WILDCARDS} to the tokens that a pattern of some
#: shape must have if it matches the subject.
Recipe = Callable[[Sequence[bytes]], Sequence[bytes]]

#: Number of tokens (a final C{>} counts), positions of C{*}, ends in C{>}.
_Shape = tuple[int, tuple[int, ...], bool]


class TooManyShapes(Exception):
    pass


def _shapeOf(pattern: bytes) -> _Shape | None:
    if not hasWildcard(pattern):
        return None
    parts = pattern.split(b".")
    stars = tuple([place for place, part in enumerate(parts) if part == b"*"])
    return len(parts), stars, parts[-1] == b">"


def _fits(shape: _Shape, length: int) -> bool:
    return shape[0] == length or (shape[2] and shape[0] < length)


def _recipeFor(shape: _Shape) -> Recipe:
    length, stars, full = shape
    picks = list(range(length))
    for place in stars:
        picks[place] = -2
    if full:
        picks[-1] = -1
    if length > 1:
        return itemgetter(*picks)
    # itemgetter of one index gives an item, of a slice gives a sequence.
    return itemgetter(slice(-1, None) if full else slice(-2, -1))


@dataclass(eq=False, slots=True)
class ShapeTable:
    """
    The number of patterns of each shape.

    @ivar maxShapes: the most shapes in use at a time. The bytes of the longest patterns that the
        shapes have had may add up to sixty-four times this number. Nothing longer is looked up.
    @ivar counts: the number of patterns by shape; to be read only.
    @ivar recipes: the recipes of the shapes that can match a subject, by its number of tokens.
        L{recipesFor} makes them on demand.
    @ivar generation: grows whenever a shape comes into use or goes out of it.
    """

    maxShapes: int
    counts: dict[_Shape, int] = field(default_factory=dict, init=False)
    generation: int = field(default=0, init=False)
    recipes: dict[int, tuple[Recipe, ...]] = field(default_factory=dict, init=False)
    _made: dict[_Shape, Recipe] = field(default_factory=dict, init=False)
    _lengths: dict[_Shape, int] = field(default_factory=dict, init=False)
    _bytes: int = field(default=0, init=False)
    _longest: int = field(default=0, init=False)

    def admit(self, pattern: bytes) -> None:
        """
        Admit a pattern. L{TooManyShapes} if it has a new shape, or is the longest of its shape, and
        there is no room.
        """
        shape = _shapeOf(pattern)
        if shape is None:
            return
        grown = len(pattern) - self._lengths.get(shape, 0)
        if grown > 0:
            self._grow(shape, grown, pattern)
        if shape in self.counts:
            self.counts[shape] += 1
            return
        self.counts[shape] = 1
        self._made[shape] = _recipeFor(shape)
        self._longest = max(self._longest, shape[0])
        self.recipes.clear()
        self.generation += 1

    def _grow(self, shape: _Shape, grown: int, pattern: bytes) -> None:
        full = shape not in self.counts and len(self.counts) >= self.maxShapes
        if full or self._bytes + grown > self.maxShapes * BYTES_PER_SHAPE:
            raise TooManyShapes(
                f"no room for the wildcard shape of {pattern[:80]!r}: "
                f"{len(self.counts)} shapes with {self._bytes} bytes are in use"
            )
        self._lengths[shape] = len(pattern)
        self._bytes += grown

    def retire(self, pattern: bytes) -> None:
        shape = _shapeOf(pattern)
        if shape is None:
            return
        left = self.counts[shape] - 1
        if left:
            self.counts[shape] = left
            return
        del self.counts[shape], self._made[shape]
        self._bytes -= self._lengths.pop(shape)
        if shape[0] == self._longest:
            self._longest = max((known[0] for known in self.counts), default=0)
        self.recipes.clear()
        self.generation += 1

    def recipesFor(self, length: int) -> tuple[Recipe, ...]:
        """The recipes of shapes for that many tokens, remembered until the shapes change."""
        # All subjects longer than every shape can be matched by the same ones.
        length = min(length, self._longest + 1)
        recipes = self.recipes.get(length)
        if recipes is None:
            recipes = self.recipes[length] = tuple(
                recipe for shape, recipe in self._made.items() if _fits(shape, length)
            )
        return recipes

    def textsFor(self, tokens: list[bytes]) -> Iterator[bytes]:
        """
        Make the texts of all recipes. Recipes of shapes whose patterns are all shorter are left
        out, which bounds the cost for long subjects.

        @return: the texts that patterns must have to match; a text may come twice if the subject
            itself has wildcard tokens.
        """
        length = len(tokens)
        picked = (*tokens, *WILDCARDS)
        for shape, recipe in self._made.items():
            if _fits(shape, length):
                parts = recipe(picked)
                if sum(map(len, parts)) + len(parts) - 1 <= self._lengths[shape]:
                    yield b".".join(parts)

    def __len__(self) -> int:
        return len(self.counts)
