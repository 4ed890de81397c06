"""
The reference page.
"""

from __future__ import annotations

from pathlib import Path

from natsbroker.spark.reference import page
from natsbroker.spark.settings import OPTIONS, PLANNED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "spark-options.md"


def test_isUpToDate() -> None:
    """The page that is kept is what the table makes: C{python -m natsbroker.spark.reference}."""
    assert PAGE.read_text("utf-8") == page()


def test_hasEverything() -> None:
    """Every option has a row, and what is planned is named."""
    text = page().partition("## Columns")[0]
    for option in OPTIONS:
        assert text.count(f"\n| `{option.name}` |") == 1
    for name in PLANNED:
        assert f"`{name}`" in page()
