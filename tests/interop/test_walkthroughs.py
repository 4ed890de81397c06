"""
The pages that readers follow step by step, followed step by step.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.walkthroughs import ROOT, walk

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
PAGES = [
    *(DOCS / each for each in ("installation.md", "tutorial.md", "topics/plugins.md")),
    *sorted(DOCS.glob("howto/*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pageDoesWhatItSays(page: Path, tmp_path: Path) -> None:
    """Each file of the page is written and each command typed, and prints what is shown."""
    walk(page.read_text("utf-8"), tmp_path)
