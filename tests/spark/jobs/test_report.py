"""
Reports as tables of text.
"""

from __future__ import annotations

from natsbroker.spark.jobs.report import (
    Amount,
    Chart,
    JobReport,
    ReportSection,
    bytesOf,
    cellOf,
    marksOf,
    rateOf,
    tableOf,
)


def test_table() -> None:
    """In tables of text, names are aligned left and numbers right."""
    rows = [("a", 1, 2.25), ("bcd", 12_345, 100.0)]
    assert tableOf(("name", "count", "rate"), rows).splitlines() == [
        "  name   count   rate",
        "  a          1    2.2",
        "  bcd   12,345  100.0",
    ]
    assert tableOf(("name",), []) == "  (none)"


def test_marks() -> None:
    """
    A column of amounts is aligned as numbers, even with empty cells. Names that look like amounts
    are not.
    """
    rows = [(1, bytesOf(5), "", "5 B", True, ""), (2.5, rateOf(7), 3, "7", 1, "")]
    assert marksOf(rows) == ["n", "n", "n", None, None, None]
    assert marksOf([]) == []
    assert tableOf(("size",), [(bytesOf(5),), (bytesOf(1023),)]).splitlines()[1:] == [
        "      5 B",
        "  1,023 B",
    ]


def test_cells() -> None:
    """Control characters in a name are escaped, and long names are cut."""
    assert cellOf("\x1b[2J\n") == "\\x1b[2J\\n"
    assert cellOf("größe") == "größe"
    assert cellOf(True) == "True"
    assert len(tableOf(("x",), [("y" * 1000,)]).splitlines()[1]) < 100


def test_units() -> None:
    """Bytes are shown in human-readable units."""
    texts = [bytesOf(count) for count in (0, 1023, 1024, 3 << 20, 5 << 60)]
    assert texts == ["0 B", "1,023 B", "1.0 KiB", "3.0 MiB", "5,120.0 PiB"]
    assert rateOf(2048) == "2.0 KiB/s"
    assert isinstance(rateOf(1), Amount)


def test_text() -> None:
    """A report has its facts and sections in order, without the drawn parts."""
    report = JobReport(
        "Title",
        {"Events": 3},
        [
            ReportSection("One", ("x",), [("y",)], "A note."),
            ReportSection("Drawn", chart=Chart("bars", {})),
            ReportSection("Two"),
        ],
    )
    assert report.text() == "Title\n\nEvents: 3\n\nOne\nA note.\n  x\n  y\n\nTwo\n"
