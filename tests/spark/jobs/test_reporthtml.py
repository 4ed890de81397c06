"""
Reports as pages of their own.
"""

from __future__ import annotations

import re
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.jobs.report import (
    Chart,
    JobReport,
    ReportSection,
    bytesOf,
    pageOf,
    writePage,
)

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


def full(text: str) -> JobReport:
    """A report with everything in it, named by a text."""
    lines = Chart("lines", {text: [(0.0, 1.0), (60.0, 5e6)], "b": [(30.0, 0.0)]}, text)
    bars = Chart("bars", {"": [(text, 5.0), ("b", 0.0)]}, text)
    rows = [(text, 1, 2.5)]
    return JobReport(
        text,
        {text: text, "n": 1},
        [
            ReportSection(text, (text, "n", "f"), rows, text, lines),
            ReportSection("bars", chart=bars),
            ReportSection("none", ("a",)),
            ReportSection("empty", chart=Chart("lines", {})),
            ReportSection(
                "ranges", chart=Chart("ranges", {text: [(1, 101)], "b": [(51, 61)]}, text)
            ),
            ReportSection("no ranges", chart=Chart("ranges", {"a": []})),
            ReportSection("zero", chart=Chart("bars", {"": [("a", 0.0)]})),
        ],
    )


def test_escapes() -> None:
    """A name from a peer is text in every place. It adds no element and no attribute."""
    evil, tame = Reader(pageOf(full(EVIL))), Reader(pageOf(full("tame" * 20)))
    assert [tag for tag, _ in evil.tags] == [tag for tag, _ in tame.tags]
    assert [sorted(attrs) for _, attrs in evil.tags] == [sorted(attrs) for _, attrs in tame.tags]
    assert "script" not in {tag for tag, _ in evil.tags}
    assert "\x1b" not in pageOf(full(EVIL))
    assert EVIL.partition("\x1b")[0] in unescape(pageOf(full(EVIL)))


def test_loadsNothing() -> None:
    """No file is loaded and no script runs, and the policy tells browsers so."""
    page = pageOf(full("x"))
    reader = Reader(page)
    for tag, attrs in reader.tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "image", "use", "a"}
        assert not {"src", "href", "xlink:href", "srcset"} & set(attrs)
        assert not [name for name in attrs if name.startswith("on")]
    spaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\"]+", page)) == spaces
    (policy,) = [
        attrs["content"] for tag, attrs in reader.tags if attrs.get("http-equiv") is not None
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "@import" not in page and "url(" not in page


def test_draws() -> None:
    """Every kind of chart is drawn. An empty one has a note."""
    page = pageOf(full("x"))
    assert page.count("<svg") == 3
    assert "5M" in page and "1970-01-01 00:00:00Z to 1970-01-01 00:01:00Z" in page
    assert page.count("Nothing to draw") == 3
    assert "None." in page


def test_lengths() -> None:
    """Bars and ranges are as long as their values. The shortest range is still visible."""
    bars = Chart("bars", {"": [("a", 4.0), ("b", 1.0), ("c", 0.0)]})
    assert widths(bars) == [430, 107.5, 0]
    ranges = Chart("ranges", {"a": [(1, 101)], "b": [(51, 61)], "c": [(21, 21)]})
    assert widths(ranges) == [540, 54, 0]
    assert drawn(ranges).count('stroke-width="2"') == 3


def drawn(chart: Chart) -> str:
    """The page of one chart."""
    return pageOf(JobReport("r", {}, [ReportSection("s", chart=chart)]))


def widths(chart: Chart) -> list[float]:
    """The lengths of the bars of a plot."""
    (marks,) = re.findall(r'<g class="mark-rect role-mark[^"]*"[^>]*>(.*?)</g>', drawn(chart))
    return [abs(float(width)) for width in re.findall(r' d="M[-\d.]+,[-\d.]+h([-\d.]+)v', marks)]


def labels(chart: Chart) -> list[str]:
    """The labels of a plot."""
    return [unescape(label) for label in re.findall(r"<text[^>]*>([^<]*)</text>", drawn(chart))]


def test_tables() -> None:
    """Numbers are aligned right, and only columns with long words may break them."""
    rows = [("n" * 56, "short words", 5, bytesOf(5)), ("m", "x", "", bytesOf(7))]
    page = pageOf(JobReport("r", {"n": 1}, [ReportSection("s", ("a", "b", "c", "d"), rows)]))
    assert '<tr><th scope="row">n</th><td class="n">1</td></tr>' in page
    assert (
        '<thead><tr><th scope="col" class="w">a</th><th scope="col">b</th>'
        '<th scope="col" class="n">c</th><th scope="col" class="n">d</th></tr></thead>' in page
    )
    assert '<td class="w">m</td><td>x</td><td class="n"></td><td class="n">7 B</td>' in page
    tags = [tag for tag, _ in Reader(page).tags]
    assert [tags[place - 1] for place, tag in enumerate(tags) if tag == "table"] == ["div"] * 2


def test_narrowScreen() -> None:
    """A page fits small screens and paper."""
    page = pageOf(full("x"))
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "@media print" in page


def test_described() -> None:
    """Each plot has a text for readers who do not see it."""
    page = pageOf(
        JobReport("r", {}, [ReportSection("Lag", chart=Chart("bars", {"": [("a", 1.0)]}, "B"))])
    )
    assert 'aria-label="Lag (B)">' in page
    page = pageOf(
        JobReport("r", {}, [ReportSection("Lag", chart=Chart("bars", {"": [("a", 1.0)]}))])
    )
    assert 'aria-label="Lag">' in page


def test_onlyTable() -> None:
    """A chart without values has no note if there is a table."""
    chart = Chart("bars", {"": [("a", 0.0)]})
    assert "to draw" not in pageOf(
        JobReport("r", {}, [ReportSection("s", ("a",), [("b",)], chart=chart)])
    )
    assert "<svg" not in pageOf(JobReport("r", {}, [ReportSection("s", ("a",), [], chart=chart)]))


def test_longNames() -> None:
    """Long names are shortened in the middle beside bars and ranges, but not below lines."""
    name = "account" * 8 + " orders.>"
    shown = name[:22] + "…" + name[-21:]
    assert shown in labels(Chart("bars", {"": [(name, 1.0)]}))
    assert shown in labels(Chart("ranges", {name: [(1, 2)]}))
    assert name in labels(Chart("lines", {name: [(0.0, 1.0)]}))


@pytest.mark.parametrize(
    ("top", "mark"), [(400.0, "300"), (1.0, "0.2"), (999_600.0, "400k"), (2.5e15, "2P")]
)
def test_heights(top: float, mark: str) -> None:
    """The vertical axis of lines has round numbers and a unit."""
    texts = labels(Chart("lines", {"a": [(0.0, top)]}, "msgs/s"))
    assert {"0", mark, "msgs/s", "1970-01-01 00:00:00Z", "a"} <= set(texts)


@pytest.mark.parametrize(
    ("seconds", "mark"), [(700, "00:05"), (80_000, "18:00"), (20 * 86400, "Wed 14")]
)
def test_times(seconds: int, mark: str) -> None:
    """Times on the axis are in UTC, or days for long ranges."""
    assert mark in labels(Chart("lines", {"a": [(0.0, 0.0), (float(seconds), 1.0)]}))


def test_amounts() -> None:
    """Bars show bytes in binary units, and other values with their unit."""
    for unit, shown in (("B", "2.0 KiB"), ("B/s", "2.0 KiB/s"), ("sequences", "2,048 sequences")):
        assert labels(Chart("bars", {"": [("a", 2048.0)]}, unit)) == ["a", shown]
    texts = labels(Chart("bars", {"": [("a", 0.25), ("b", 2.0**64), ("c", 0.0)]}))
    assert texts == ["a", "b", "c", "0.25", "1.84467e+19", "0"]


def test_spanAxis() -> None:
    """Ranges are drawn over an axis with their unit, from the first to the last."""
    chart = Chart("ranges", {"a": [(1, 10**9)], "b": [(5, 6)]}, "sequences")
    assert sorted(labels(chart)) == ["1", "1,000,000,000", "a", "b", "sequences"]


@pytest.mark.parametrize("missing", ["jinja2", "vl_convert"])
def test_needsExtra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the drawing library, the error names the package to install."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(OptionError, match=r"--html needs: pip install 'natsbroker\[report\]'"):
        pageOf(full("x"))


def test_writes(tmp_path: Path) -> None:
    """A file is written as a whole. If that fails there is an error, and no file is left."""
    path = tmp_path / "report.html"
    writePage(full("x"), str(path), {})
    assert path.read_text("utf-8") == pageOf(full("x"))
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(DataSourceError, match="No such file or directory"):
        writePage(full("x"), str(tmp_path / "nowhere" / "report.html"), {})
