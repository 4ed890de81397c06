"""
The statements of C{docs/topics/routing.md} about L{natsbroker.subjects}.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from natsbroker.subjects import cache, index, shapes
from natsbroker.subjects.permissions import ALLOWED, SubscribePermissions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "topics" / "routing.md"
TEXT = PAGE.read_text("utf-8")


def test_examples() -> None:
    """The page's examples print the text on it; every part has examples."""
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert "".join(report) == ""
    assert result.attempted >= 40


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("wildcard shapes in use at a time", shapes.DEFAULT_MAX_SHAPES),
        (
            "bytes of the longest pattern of each of those shapes, together",
            shapes.BYTES_PER_SHAPE * shapes.DEFAULT_MAX_SHAPES,
        ),
    ],
)
def test_limits(what: str, limit: int) -> None:
    """The limits on the page are the limits in force."""
    assert f"| {what} | {limit} |" in TEXT


def test_byteLimitHolds() -> None:
    """The limit of bytes that the page states is met exactly."""
    subjects: index.SubjectIndex[int] = index.SubjectIndex()
    stated = shapes.BYTES_PER_SHAPE * shapes.DEFAULT_MAX_SHAPES
    subjects.insert(b"*." + b"a" * (stated - 2), 1)
    with pytest.raises(shapes.TooManyShapes):
        subjects.insert(b"*", 2)


def test_longestSubject() -> None:
    """The page has the length up to which subjects are remembered."""
    assert f"subjects of more than {cache.DEFAULT_LONGEST} bytes are not remembered" in TEXT


@pytest.mark.parametrize("row", re.findall(r"^\| (`.*`) \| (made.*|refused.*) \|$", TEXT, re.M))
def test_queueTables(row: tuple[str, str]) -> None:
    """Each row about queue entries names the subscriptions that are allowed."""
    entries = [text.encode() for text in re.findall(r"`([^`]*)`", row[0])]
    denying = TEXT.index(" | ".join(row)) > TEXT.index("| denied entries |")
    permissions = SubscribePermissions(None, entries) if denying else SubscribePermissions(entries)
    verdicts = [permissions.verdict(b"foo", queue) is ALLOWED for queue in (b"", b"v1", b"v2")]
    assert [("refused", "made")[verdict] for verdict in verdicts] == row[1].split(" | ")
