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
    TableNode,
    kindOf,
)

HERE = Position("s.conf", 1, 1)


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


def test_weightOfStrings() -> None:
    """A long string has a higher weight than a short one, so that repeating it counts."""
    assert ScalarNode("x" * 6400, HERE).weight > 100 * ScalarNode("x", HERE).weight
