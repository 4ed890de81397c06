"""
The size of rooms and modules, and the names of classes.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import natsbroker

PACKAGE = Path(natsbroker.__file__).resolve().parent

MOST_MODULES = 25
"""Modules of a room, without its C{__init__}."""

MOST_LINES = 500
"""Lines of a module."""


def sources(*patterns: str) -> list[Path]:
    """
    @return: the files of the package with these names.
    """
    return sorted(path for pattern in patterns for path in PACKAGE.rglob(pattern))


def test_roomsAreSmall() -> None:
    """A room has at most 25 modules; a larger one has rooms inside."""
    rooms: defaultdict[str, int] = defaultdict(int)
    for path in sources("*.py", "*.pyx", "*.pxi"):
        if path.name != "__init__.py":
            rooms[path.parent.relative_to(PACKAGE).as_posix()] += 1
    assert len(rooms) > 20
    assert {room: count for room, count in rooms.items() if count > MOST_MODULES} == {}


def test_modulesAreShort() -> None:
    """A module has at most 500 lines."""
    long = {
        path.relative_to(PACKAGE).as_posix()
        for path in sources("*.py", "*.pyx", "*.pxi")
        if len(path.read_text("utf-8").splitlines()) > MOST_LINES
    }
    assert long == set()


def test_classNamesAreUnique() -> None:
    """No two modules have a class of the same name, so that a name can be searched for."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sources("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert len(places) > 500
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
