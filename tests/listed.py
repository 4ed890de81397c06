"""
Lists of tests by the problem that they cover.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = ["Listed", "missingFrom", "within"]

CHECKOUT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Listed:
    """
    One entry.

    @ivar what: the problem.
    @ivar tests: C{path::name} or C{path::class::name}.
    @ivar beside: whether the tests compare with nats-server.
    """

    what: str
    tests: tuple[str, ...] = ()
    beside: bool = False


def within(place: str, *names: str) -> tuple[str, ...]:
    """
    @return: tests of one file, or of one class in it.
    """
    return tuple(f"{place}::{name}" for name in names)


@lru_cache(maxsize=64)
def _namesIn(path: Path) -> frozenset[str]:
    """
    The tests in a file: names, and names behind those of their classes.
    """
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [member.name for member in node.body if isinstance(member, ast.FunctionDef)]
            names.update(f"{node.name}::{name}" for name in inner)
    return frozenset(names)


def missingFrom(listed: Listed) -> list[str]:
    """
    @return: the tests of an entry that do not exist.
    """
    unknown = []
    for test in listed.tests:
        path, _, name = test.partition("::")
        if not (CHECKOUT / path).is_file() or name not in _namesIn(CHECKOUT / path):
            unknown.append(test)
    return unknown
