"""
A configuration as a tree of tables, arrays and scalars, each with its line and column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from natsbroker.config.errors import Position

Scalar = str | int | float | bool | datetime
"""The values of a leaf. Bytes that are not UTF-8 stand as surrogate escapes in strings."""


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """
    @ivar sized: what was written for a number with a size, such as C{2m}; else empty.
    @ivar isOutside: whether the value comes from the environment.
    """

    value: Scalar
    position: Position
    sized: str = field(default="", compare=False)
    isOutside: bool = False

    @property
    def weight(self) -> int:
        return 1 + (len(self.value) >> 6 if isinstance(self.value, str) else 0)


@dataclass(frozen=True, slots=True)
class ArrayNode:
    items: list[Node]
    position: Position
    weight: int = 1


@dataclass(slots=True)
class TableEntry:
    """
    @ivar position: where the key stands, which is where errors point.
    @ivar used: some C{$reference} took its value from here, so the key need not be known.
    """

    key: str
    node: Node
    position: Position
    used: bool = False


@dataclass(frozen=True, slots=True)
class TableNode:
    """A map. A key that is written twice has its last value, with the place of that value."""

    position: Position
    entries: dict[str, TableEntry] = field(default_factory=dict)
    weight: int = 1

    def __iter__(self) -> Iterator[TableEntry]:
        return iter(self.entries.values())


Node = ScalarNode | ArrayNode | TableNode

_NAMES = {str: "a string", bool: "a boolean", int: "an integer", float: "a float"}


def kindOf(node: Node) -> str:
    if isinstance(node, ArrayNode):
        return "an array"
    if isinstance(node, TableNode):
        return "a map"
    return _NAMES.get(type(node.value), "a datetime")
