"""
The suppressions in the package, and their reasons.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import natsbroker

PACKAGE = Path(natsbroker.__file__).resolve().parent
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))

#: The beginning of an assert statement; close enough for Cython, which L{ast} cannot read.
_ASSERT = re.compile(r"\s*assert\b")

_IGNORED = re.compile(r"# type: ignore(?:\[([^\]]*)\])?")

#: What may be ignored, by what the line has, with the reason.
REASONS = {
    ("no-untyped-call", r"super\(\)\.\w+\("): "Twisted does not annotate it",
    ("no-untyped-call", r"\.setServiceParent\("): "Twisted does not annotate it",
    ("no-untyped-call", r"\._(unbufferPendingWrites|flushReceiveBIO)\("): (
        "Twisted does not annotate it"
    ),
    (
        "no-untyped-call",
        r"MemoryReactor\(\)|self\.assert\w+\(",
    ): "Twisted does not annotate it",
    ("no-untyped-call", r"datetimeToString\(\)"): "Twisted does not annotate it",
    ("arg-type", r"__init__\(timeout=None, reactor=clock\)"): "Twisted wants a whole reactor",
    ("no-untyped-call", r"getName\(\)"): "zope.interface does not annotate it",
    ("no-untyped-call", r"verify\.verify\("): "the module is one for programs, without annotations",
    ("assignment", r"__hash__ = None"): "Python's way to say that something has no hash",
    ("override", r"def (required|__doc__)\("): "a property in the place of an attribute",
    ("type-arg", r"\(hot\.SubjectIndex\)"): "generic in Python, and not when it is compiled",
    ("attr-defined", r"SSL\._lib"): "pyOpenSSL has no other way to name curves",
    ("return-value", r"return opening"): "providers of interfaces are no subclasses for Deferred",
    ("attr-defined", r"\blog\.(retain|holds)\("): "an interface that was asked for before",
}


def source(module: str) -> str:
    """
    The text of a module.
    """
    return (PACKAGE / module).read_text("utf-8")


def test_noAsserts() -> None:
    """The package has no assert statements, which C{python -O} would remove."""
    places = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for pattern in ("*.py", "*.pyx", "*.pxi")
        for path in PACKAGE.rglob(pattern)
        for number in _asserts(path)
    ]
    assert places == []


def _asserts(path: Path) -> list[int]:
    """The lines of a module that begin an assert statement."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return [n for n, line in enumerate(text.split("\n"), 1) if _ASSERT.match(line)]
    return [node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("module", MODULES)
def test_ignored(module: str) -> None:
    """Each suppression of mypy is named, and listed."""
    unknown = []
    for number, line in enumerate(source(module).split("\n"), 1):
        comment = _IGNORED.search(line)
        if comment is not None and not any(
            code == comment[1] and re.search(pattern, line) for code, pattern in REASONS
        ):
            unknown.append(f"{number}: {line.strip()}")
    assert unknown == []


def test_reasonsAreNeeded() -> None:
    """Each listed reason belongs to an existing suppression."""
    lines = [line for module in MODULES for line in source(module).split("\n")]
    for code, pattern in REASONS:
        mark = f"# type: ignore[{code}]"
        assert any(mark in line and re.search(pattern, line) for line in lines), (code, pattern)


@pytest.mark.parametrize("module", MODULES)
def test_handlers(module: str) -> None:
    """
    A handler that catches every exception raises or logs the exception, or has a comment with the
    reason.
    """
    text = source(module)
    lines = text.split("\n")
    silent = [
        f"{node.lineno}: {lines[node.lineno - 1].strip()}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ExceptHandler) and _isBroad(node)
        if not _handsOn(node) and not _isExplained(node, lines)
    ]
    assert silent == []


def _isBroad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))
        for kind in kinds
    )


def _handsOn(handler: ast.ExceptHandler) -> bool:
    """
    Whether a handler raises, makes a Failure, or calls a function whose name says that it reports a
    failure.
    """
    for node in ast.walk(handler):
        if isinstance(node, ast.Raise):
            return True
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if isinstance(node, ast.Attribute | ast.Name) and re.search(r"(?i)fail|broken", name):
            return True
    return False


def _isExplained(handler: ast.ExceptHandler, lines: list[str]) -> bool:
    """Whether a handler begins with a comment."""
    return any("#" in line for line in lines[handler.lineno - 1 : handler.body[0].lineno])
