"""
The glossary names modules and classes that exist.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \|.*`(natsbroker[\w.]+)` \|$", re.MULTILINE)
ROWS = ROW.findall(GLOSSARY.read_text("utf-8"))


def test_isRead() -> None:
    """The table of the glossary has rows with names of the package."""
    assert len(ROWS) > 30


@pytest.mark.parametrize(("word", "name"), ROWS)
def test_exists(word: str, name: str) -> None:
    """Each module or class that the glossary names exists."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), word
