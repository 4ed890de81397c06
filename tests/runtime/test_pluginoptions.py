"""
Tests of L{natsbroker.runtime.pluginoptions}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from natsbroker.runtime.pluginoptions import PluginOptions

Take = Callable[[PluginOptions], Any]


@pytest.mark.parametrize(
    ("value", "take", "expected"),
    [
        ("a", lambda s: s.text("x"), "a"),
        ("a", lambda s: s.texts("x"), ["a"]),
        (["a", "b"], lambda s: s.texts("x"), ["a", "b"]),
        ({"a": "b"}, lambda s: s.map("x"), {"a": "b"}),
        (5, lambda s: s.count("x", 1), 5),
        (0, lambda s: s.count("x", 1), 0),
        (True, lambda s: s.flag("x"), True),
        (2, lambda s: s.seconds("x", 1.0), 2.0),
        (0.5, lambda s: s.seconds("x", 1.0), 0.5),
        ("1m30s", lambda s: s.seconds("x", 1.0), 90.0),
    ],
)
def test_taken(value: Any, take: Take, expected: Any) -> None:
    """An option that was taken with its type is not reported as unknown."""
    section = PluginOptions({"x": value})
    assert take(section) == expected
    section.end()


def test_absent() -> None:
    """A missing option has its default."""
    section = PluginOptions({})
    assert (section.text("x"), section.text("x", "y")) == ("", "y")
    assert (section.texts("x"), section.map("x"), section.flag("x")) == ([], {}, False)
    assert (section.count("x", 3), section.seconds("x", 0.5)) == (3, 0.5)
    section.end()


@pytest.mark.parametrize(
    ("value", "take"),
    [
        (1, lambda s: s.text("x")),
        (1, lambda s: s.texts("x")),
        (["a", 1], lambda s: s.texts("x")),
        ({"a": 1}, lambda s: s.map("x")),
        ("a", lambda s: s.map("x")),
        (True, lambda s: s.count("x", 1)),
        (1.5, lambda s: s.count("x", 1)),
        (-1, lambda s: s.count("x", 1)),
        (0, lambda s: s.count("x", 1, 1)),
        (1, lambda s: s.flag("x")),
        ("yes", lambda s: s.flag("x")),
        (-1, lambda s: s.seconds("x", 1.0)),
        (True, lambda s: s.seconds("x", 1.0)),
        (float("nan"), lambda s: s.seconds("x", 1.0)),
        ("-1s", lambda s: s.seconds("x", 1.0)),
        ([], lambda s: s.seconds("x", 1.0)),
    ],
)
def test_otherType(value: Any, take: Take) -> None:
    """An option of another type is refused by name."""
    with pytest.raises(ValueError, match=r"^x must be"):
        take(PluginOptions({"x": value}))


def test_noDuration() -> None:
    """Text that is no duration is refused."""
    with pytest.raises(ValueError, match="soon"):
        PluginOptions({"x": "soon"}).seconds("x", 1.0)


def test_unknown() -> None:
    """An option that no plugin took is unknown."""
    with pytest.raises(ValueError, match='unknown option "x"'):
        PluginOptions({"x": 1}).end()
