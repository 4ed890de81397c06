"""
The pages that readers follow step by step, played as by a reader.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.walkthroughs import ROOT, walk

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
PAGES = [
    *(DOCS / page for page in ("installation.md", "tutorial.md", "topics/plugins.md")),
    *sorted(DOCS.glob("howto/*.md")),
]


RELUCTANT = ("patroni",)
"""Programs that refuse to run as root, as their pages say."""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """
    A folder that every user can read; for root, with programs that refuse to be run by root, as
    nobody.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        made, programs = Path(name, "page"), Path(name, "programs")
        for place in (made, programs):
            place.mkdir()
        if os.getuid() == 0:
            for place in (made.parent, made):
                place.chmod(0o777)
            for program in filter(shutil.which, RELUCTANT):
                script = programs / program
                run = (
                    f"setpriv --reuid=nobody --regid=nogroup --clear-groups {shutil.which(program)}"
                )
                script.write_text(f'#!/bin/sh\nexec {run} "$@"\n')
                script.chmod(0o755)
            monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        yield made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pageDoesWhatItSays(page: Path, folder: Path) -> None:
    """Each file of the page is written, each command is run, and its output is the one shown."""
    walk(page.read_text("utf-8"), folder)
