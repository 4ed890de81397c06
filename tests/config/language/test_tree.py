"""
Tests for L{natsbroker.config.language.tree}.
"""

from __future__ import annotations

from datetime import datetime

import pytest

from natsbroker.config.errors import Position
from natsbroker.config.language.tree import (
    ArrayNode,
    Node,
    ScalarNode,
    TableEntry,
    TableNode,
    kindOf,
    moved,
)

HERE = Position("s.conf", 1, 1)
THERE = Position("s.conf", 9, 9)


@pytest.mark.parametrize(
    ("node", "name"),
    [
        (ScalarNode("a", HERE), "a string"),
        (ScalarNode(True, HERE), "a boolean"),
        (ScalarNode(1, HERE), "an integer"),
        (ScalarNode(1.5, HERE), "a float"),
        (ScalarNode(datetime(2020, 1, 1), HERE), "a datetime"),
        (ArrayNode([], HERE), "an array"),
        (TableNode(HERE), "a map"),
    ],
)
def test_kindOf(node: Node, name: str) -> None:
    """Each kind of node has a name for error messages."""
    assert kindOf(node) == name


def test_moved() -> None:
    """A moved node is the same at another place, and the original stays where it is."""
    table = TableNode(HERE, {"a": TableEntry("a", ScalarNode(1, HERE), HERE)})
    copy = moved(table, THERE)
    assert isinstance(copy, TableNode)
    assert (copy.position, copy.entries) == (THERE, table.entries)
    assert table.position == HERE


def test_weightOfStrings() -> None:
    """A long string weighs more than a short one, so that repeating it counts."""
    assert ScalarNode("x" * 6400, HERE).weight > 100 * ScalarNode("x", HERE).weight
