"""
The thirty cases are all there.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.interop.servers import CHECKOUT
from tests.interop.tls.cases import CASES


def names(path: Path) -> set[str]:
    """
    @return: the tests in a file: names, and names behind those of their classes.
    """
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            found.update(inner)
            found.update(f"{node.name}::{name}" for name in inner)
    return found


def test_thirty() -> None:
    """There are thirty, numbered from one."""
    assert list(CASES) == list(range(1, 31))


@pytest.mark.parametrize("number", CASES)
def test_tried(number: int) -> None:
    """The tests that try a case exist."""
    case = CASES[number]
    assert case.what and case.tests
    for each in case.tests:
        path, _, name = each.partition("::")
        assert name in names(CHECKOUT / path), each
