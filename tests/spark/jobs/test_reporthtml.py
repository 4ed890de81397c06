"""
Reports as pages of their own.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from natsbroker.spark.errors import SourceError
from natsbroker.spark.jobs.report import Chart, Report, Section
from natsbroker.spark.jobs.reporthtml import pageOf, writePage

EVIL = "</title><script>alert(1)</script>\" onload='x' &amp; \x1b<svg/onload=alert(2)>"

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """
    Reads a page and insists that every element ends.

    @ivar tags: all elements with their attributes.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without contents."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        assert self._open.pop() == tag


def full(text: str) -> Report:
    """A report with everything in it, named by a text."""
    lines = Chart("lines", {text: [(0.0, 1.0), (60.0, 5e6)], "b": [(30.0, 0.0)]}, text)
    bars = Chart("bars", {"": [(text, 5.0), ("b", 0.0)]}, text)
    rows = [(text, 1, 2.5)]
    return Report(
        text,
        {text: text, "n": 1},
        [
            Section(text, (text, "n", "f"), rows, text, lines),
            Section("bars", chart=bars),
            Section("none", ("a",)),
            Section("empty", chart=Chart("lines", {})),
            Section("spans", chart=Chart("spans", {text: [(1, 101)], "b": [(51, 61)]}, text)),
            Section("no spans", chart=Chart("spans", {"a": []})),
            Section("zero", chart=Chart("bars", {"": [("a", 0.0)]})),
        ],
    )


def test_escapes() -> None:
    """What peers have named is text wherever it stands: no element and no attribute more."""
    evil, tame = Reader(pageOf(full(EVIL))), Reader(pageOf(full("tame")))
    assert [tag for tag, _ in evil.tags] == [tag for tag, _ in tame.tags]
    assert [sorted(attrs) for _, attrs in evil.tags] == [sorted(attrs) for _, attrs in tame.tags]
    assert "script" not in {tag for tag, _ in evil.tags}
    assert "\x1b" not in pageOf(full(EVIL))


def test_loadsNothing() -> None:
    """Nothing is loaded and nothing runs, and browsers are told so."""
    page = pageOf(full("x"))
    found = Reader(page)
    for tag, attrs in found.tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "image", "use", "a"}
        assert not {"src", "href", "xlink:href", "srcset"} & set(attrs)
        assert not [name for name in attrs if name.startswith("on")]
    assert re.findall(r"https?://[^\"]+", page) == ["http://www.w3.org/2000/svg"] * 3
    (policy,) = [
        attrs["content"] for tag, attrs in found.tags if attrs.get("http-equiv") is not None
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "@import" not in page and "url(" not in page


def test_draws() -> None:
    """Lines go from the lowest to the highest, and bars are as long as what they stand for."""
    page = pageOf(full("x"))
    assert 'points="80.0,210.0 850.0,10.0"' in page
    assert "5M" in page and "1970-01-01 00:01:00Z" in page
    assert 'x="300" y="3" width="430.0"' in page
    assert 'x="570.0" y="23" width="54.0"' in page
    assert page.count("Nothing to draw") == 3
    assert "None." in page


def test_writes(tmp_path: Path) -> None:
    """A file is written whole; one that cannot be is told of, and nothing is left."""
    path = tmp_path / "report.html"
    writePage(full("x"), str(path))
    assert path.read_text("utf-8") == pageOf(full("x"))
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(SourceError, match="No such file or directory"):
        writePage(full("x"), str(tmp_path / "nowhere" / "report.html"))
