"""
Tests for L{natsbroker.config.language.tree}.
"""

from __future__ import annotations

from datetime import datetime

import pytest

from natsbroker.config.errors import Position
from natsbroker.config.language.tree import Array, Entry, Leaf, Node, Table, kindOf, moved

HERE = Position("s.conf", 1, 1)
THERE = Position("s.conf", 9, 9)


@pytest.mark.parametrize(
    ("node", "name"),
    [
        (Leaf("a", HERE), "a string"),
        (Leaf(True, HERE), "a boolean"),
        (Leaf(1, HERE), "an integer"),
        (Leaf(1.5, HERE), "a float"),
        (Leaf(datetime(2020, 1, 1), HERE), "a datetime"),
        (Array([], HERE), "an array"),
        (Table(HERE), "a map"),
    ],
)
def test_kindOf(node: Node, name: str) -> None:
    """Each kind of node has a name for error messages."""
    assert kindOf(node) == name


def test_moved() -> None:
    """A moved node is the same at another place, and the original stays where it is."""
    table = Table(HERE, {"a": Entry("a", Leaf(1, HERE), HERE)})
    copy = moved(table, THERE)
    assert isinstance(copy, Table)
    assert (copy.position, copy.entries) == (THERE, table.entries)
    assert table.position == HERE


def test_weightOfStrings() -> None:
    """A long string weighs more than a short one, so that repeating it counts."""
    assert Leaf("x" * 6400, HERE).weight > 100 * Leaf("x", HERE).weight
