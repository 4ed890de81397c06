"""
The renaming of subjects.
"""

from __future__ import annotations

import pytest

from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.jobs.replay.replayer import renamer


@pytest.mark.parametrize(
    ("texts", "subject", "expected"),
    [
        ([], "orders.eu", "orders.eu"),
        (["orders.>=replay.orders.>"], "orders.eu.1", "replay.orders.eu.1"),
        (["orders.>=replay.orders.>"], "others.eu", "others.eu"),
        (["a.*.b.*=x.*.*"], "a.1.b.2", "x.1.2"),
        (["a.*.b.*=x.$2.$1"], "a.1.b.2", "x.2.1"),
        (["a.*=x.{{wildcard(1)}}"], "a.1", "x.1"),
        (["a.1=one", "a.*=many.*"], "a.1", "one"),
        (["a.1=one", "a.*=many.*"], "a.2", "many.2"),
        (["a=b=c"], "a", "b=c"),
        (["é.>=ü.>"], "é.x", "ü.x"),
    ],
)
def test_renamed(texts: list[str], subject: str, expected: str) -> None:
    """The first mapping that matches decides, and a subject without a match stays."""
    rename = renamer(texts)
    assert [rename(subject), rename(subject)] == [expected, expected]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders.>", "OLD=NEW expected"),
        ("orders.>=replay", "invalid subject"),
        ("orders=replay.>", "invalid subject"),
        ("a..b=c", "invalid subject"),
        ("a=b c", "invalid"),
        ("a.*=b.*.*", "wildcard index out of range"),
        ("a.*=b.{{random(3)}}", "must always become the same one"),
    ],
)
def test_invalidMappings(text: str, reason: str) -> None:
    """An impossible mapping is refused, and named."""
    with pytest.raises(OptionError, match=reason) as caught:
        renamer(["x=y", text])
    assert str(caught.value).startswith(f"map: {text}" if "=" in text else "map: ")


def test_noSubject() -> None:
    """The new subject must be valid."""
    with pytest.raises(DataSourceError, match=r"does not turn a\.-- into a subject"):
        renamer(["a.*={{split(1,-)}}"])("a.--")
