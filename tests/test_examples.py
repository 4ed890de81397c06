"""
Every example is run by a test of its own, and uses only public modules.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.test_imports import edgesOf

ROOT = Path(__file__).resolve().parents[1]


def examples() -> list[object]:
    """
    @return: the programs in C{examples/}, as test parameters.
    """
    folder = ROOT / "examples"
    programs = [path for path in folder.rglob("*") if path.suffix in (".py", ".tac")]
    return [pytest.param(path, id=path.relative_to(folder).as_posix()) for path in sorted(programs)]


def privateImports(text: str) -> list[str]:
    """
    @return: the modules of the package that C{text} imports and that are not public.
    """
    private = []
    for edge in edgesOf("example", text):
        names = f"{edge.base}.{edge.name}".split(".")
        if names[0] == "natsbroker" and any(name.startswith("_") for name in names[1:]):
            private.append(".".join(names))
    return private


@pytest.mark.parametrize("path", examples())
class TestExamples:
    """Each example by itself."""

    def test_hasItsTest(self, path: Path) -> None:
        """A test named after the example exists and runs the example's file."""
        stem = path.stem.replace("-", "_")
        test = ROOT / "tests" / "examples" / f"test_{stem}.py"
        assert test.is_file(), f"tests/examples/test_{stem}.py is missing"
        text = test.read_text("utf-8")
        assert path.name in text or f"examples.{stem}" in text

    def test_saysWhatItShows(self, path: Path) -> None:
        """An example begins with a docstring."""
        assert ast.get_docstring(ast.parse(path.read_text("utf-8")))

    def test_usesPublicNames(self, path: Path) -> None:
        """An example imports only public modules."""
        assert privateImports(path.read_text("utf-8")) == []


def test_privateImportsAreSeen() -> None:
    """The check of imports reports a private module and accepts the version."""
    text = "from natsbroker._accel import lane\nfrom natsbroker.broker import Broker\n"
    assert privateImports(text) == ["natsbroker._accel.lane"]
