"""
How much room decoded rows take as columns.

An item of an array has a place in each column beneath it, also where the payload says with one byte
that it is null or has nothing. So a payload can take many times its size; what can is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

__all__ = ["cellsOf"]

#: Items with up to so many columns are in proportion.
_FEW = 8

Count = Callable[[Any], int]


def cellsOf(kind: Any) -> Count | None:
    """
    What counts the places that a value takes in the columns beneath arrays and maps.

    @param kind: its Arrow type.
    @return: C{None} if that is in proportion to its payload.
    """
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _items(kind.value_type, lambda found: found)
    if pa.types.is_map(kind):
        return _items(kind.item_type, lambda found: [value for _, value in found])
    return None


def _struct(kind: Any) -> Count | None:
    counts = [(each.name, cellsOf(each.type)) for each in kind]
    needed = [(name, count) for name, count in counts if count is not None]
    if not needed:
        return None

    def cells(found: Any) -> int:
        values = ((count, found.get(name)) for name, count in needed)
        return sum(count(value) for count, value in values if value is not None)

    return cells


def _items(item: Any, values: Callable[[Any], Any]) -> Count | None:
    width = _width(item)
    inner = cellsOf(item)
    if inner is None:
        return None if width <= _FEW else lambda found: width * len(found)
    count = inner

    def cells(found: Any) -> int:
        return width * len(found) + sum(count(x) for x in values(found) if x is not None)

    return cells


def _width(kind: Any) -> int:
    """
    How many columns there are beneath an item, without those of arrays in it.
    """
    if pa.types.is_struct(kind):
        return 1 + sum(_width(each.type) for each in kind)
    return 1
