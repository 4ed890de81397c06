"""
Reports as pages of their own.
"""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.report import Chart, JobReport, ReportSection, bytesOf
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
    """What peers have named is text wherever it stands: no element and no attribute more."""
    evil, tame = Reader(pageOf(full(EVIL))), Reader(pageOf(full("tame" * 20)))
    assert [tag for tag, _ in evil.tags] == [tag for tag, _ in tame.tags]
    assert [sorted(attrs) for _, attrs in evil.tags] == [sorted(attrs) for _, attrs in tame.tags]
    assert "script" not in {tag for tag, _ in evil.tags}
    assert "\x1b" not in pageOf(full(EVIL))


def test_loadsNothing() -> None:
    """Nothing is loaded and nothing runs, and the policy says so to browsers."""
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


def labels(chart: Chart) -> list[str]:
    """What stands in a plot."""
    page = pageOf(JobReport("r", {}, [ReportSection("s", chart=chart)]))
    return [unescape(each) for each in re.findall(r"<text[^>]*>([^<]*)</text>", page)]


def test_tables() -> None:
    """Numbers and amounts end at the same place, and only columns with long words break them."""
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


def test_narrow() -> None:
    """A page fits telephones and paper."""
    page = pageOf(full("x"))
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "@media print" in page


def test_described() -> None:
    """Each plot says what it shows to those who do not see it."""
    page = pageOf(
        JobReport("r", {}, [ReportSection("Lag", chart=Chart("bars", {"": [("a", 1.0)]}, "B"))])
    )
    assert "<title>Lag (B)</title>" in page
    page = pageOf(
        JobReport("r", {}, [ReportSection("Lag", chart=Chart("bars", {"": [("a", 1.0)]}))])
    )
    assert "<title>Lag</title>" in page


def test_onlyTable() -> None:
    """Where there is a table, nothing is said of nothing to draw."""
    chart = Chart("bars", {"": [("a", 0.0)]})
    assert "to draw" not in pageOf(
        JobReport("r", {}, [ReportSection("s", ("a",), [("b",)], chart=chart)])
    )
    assert "<svg" not in pageOf(JobReport("r", {}, [ReportSection("s", ("a",), [], chart=chart)]))


def test_longNames() -> None:
    """Names that are too long lose their middle, whatever their letters are."""
    names = [letter * 300 for letter in "iWx語"]
    found = labels(Chart("bars", {"": [(each, 0.5) for each in names]}))[::2]
    for name, shown in zip(names, found, strict=True):
        front, back = shown.split("…")
        assert 0 <= len(front) - len(back) <= 1 and len(shown) < 80
        assert set(front + back) == set(name)
    name = "ACCOUNT" * 8 + " orders.>"
    assert labels(Chart("bars", {"": [(name, 1.0)]}))[0].endswith(" orders.>")
    assert len(labels(Chart("ranges", {name: [(1, 2)]}))[0]) < len(name)
    assert labels(Chart("lines", {name: [(0.0, 1.0)]}))[-1] == name


@pytest.mark.parametrize(
    ("top", "marks"),
    [
        (404.0, ["0", "100", "200", "300", "400"]),
        (1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (999_600.0, ["0", "200k", "400k", "600k", "800k"]),
        (1_200.0, ["0", "250", "500", "750", "1k"]),
        (2.5e15, ["0", "500T", "1P", "1.5P", "2P", "2.5P"]),
    ],
)
def test_heights(top: float, marks: list[str]) -> None:
    """Round numbers stand at the lines, and the unit above them."""
    found = labels(Chart("lines", {"a": [(0.0, top)]}, "msgs/s"))
    assert found == ["msgs/s", *marks, "1970-01-01 00:00:00Z", "a"]


@pytest.mark.parametrize(
    ("seconds", "marks"),
    [
        (3, ["01-01", "00:00:01", "00:00:02", "00:00:03"]),
        (700, ["01-01", "00:02", "00:04", "00:06", "00:08", "00:10"]),
        (100_000, ["01-01", "06:00", "12:00", "18:00", "01-02"]),
        (20 * 86400, ["01-01", "01-04", "01-07", "01-10", "01-13", "01-16", "01-19"]),
    ],
)
def test_times(seconds: int, marks: list[str]) -> None:
    """Round times stand below lines, and days where they begin."""
    found = labels(Chart("lines", {"a": [(0.0, 0.0), (float(seconds), 1.0)]}))
    assert found[6:-3] == marks
    assert found[-3] == "1970-01-01 00:00:00Z"


def test_amounts() -> None:
    """Bars say bytes as tables do, other numbers in short; nothing is drawn for nothing."""
    for unit, summary in (("B", "2.0 KiB"), ("B/s", "2.0 KiB/s"), ("sequences", "2.05k sequences")):
        assert labels(Chart("bars", {"": [("a", 2048.0)]}, unit))[1] == summary
    found = labels(Chart("bars", {"": [("a", 999.6), ("b", 2.0**64), ("c", 0.0)]}))
    assert found == ["a", "1k", "b", "18.4E", "c", "0"]
    page = pageOf(
        JobReport(
            "r", {}, [ReportSection("s", chart=Chart("bars", {"": [("a", 1.0), ("b", 0.0)]}))]
        )
    )
    assert page.count("<rect") == 1


def test_spanAxis() -> None:
    """Ranges stand over an axis with their unit; the shortest can be seen."""
    chart = Chart("ranges", {"a": [(1, 10**9)], "b": [(5, 6)]}, "sequences")
    assert labels(chart) == ["a", "b", "1", "sequences", "1,000,000,000"]
    assert 'width="2.0"' in pageOf(JobReport("r", {}, [ReportSection("s", chart=chart)]))


def test_writes(tmp_path: Path) -> None:
    """A file is written whole; one that cannot be is an error, and nothing is left."""
    path = tmp_path / "report.html"
    writePage(full("x"), str(path), {})
    assert path.read_text("utf-8") == pageOf(full("x"))
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(DataSourceError, match="No such file or directory"):
        writePage(full("x"), str(tmp_path / "nowhere" / "report.html"), {})
