"""
Tables of pages: rows, rates, order, filter, and how values are shown.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from natsbroker.monitoring.top.tables import (
    INTERNAL,
    Column,
    Table,
    Unit,
    View,
    bytesText,
    chosenRows,
    countText,
    itemsAt,
    memberAt,
    secondsIn,
    spanText,
    tableFrom,
)

VIEW = View(
    key="1",
    title="Things",
    path="/things",
    query={"a": "b"},
    itemsIn=lambda page: itemsAt(page, "things"),
    identity=("name",),
    columns=(
        Column("Name", "name"),
        Column("Size", "sizes.now", Unit.BYTES),
        Column("Msgs/s", "msgs", Unit.COUNT, isRate=True),
        Column("Age", "age", Unit.DURATION),
    ),
    order="Size",
    limit=3,
)


def page(*things: dict[str, Any], server: str = "S", **more: Any) -> bytes:
    """A page as a server sends it."""
    return json.dumps({"server_id": server, "things": things, **more}).encode()


def table(body: bytes, time: float = 0.0, before: Table | None = None) -> Table:
    """The table of a page."""
    return tableFrom(VIEW, json.loads(body), time, before)


def names(drawn: Table, sort: int, isDescending: bool, wanted: str = "") -> list[object]:
    """The names of the rows in their order."""
    return [row.values[0] for row in chosenRows(drawn, VIEW, sort, isDescending, wanted)]


class TestRates:
    """Changes per second between two readings."""

    def test_rates(self) -> None:
        """
        A rate is the change since the last reading, divided by the time. The first reading has
        none.
        """
        first = table(page({"name": "a", "msgs": 100}), 10.0)
        second = table(page({"name": "a", "msgs": 150}), 12.5, first)
        assert [drawn.rows[0].values[2] for drawn in (first, second)] == [None, 20.0]

    @pytest.mark.parametrize(
        ("body", "time"),
        [
            (page({"name": "a", "msgs": 50}), 2.0),
            (page({"name": "b", "msgs": 150}), 2.0),
            (page({"name": "a", "msgs": 150}, server="T"), 2.0),
            (page({"name": "a", "msgs": 150}), 1.0),
            (page({"name": "a", "msgs": "150"}), 2.0),
        ],
        ids=["less than before", "new", "another server", "no time", "no number"],
    )
    def test_unknown(self, body: bytes, time: float) -> None:
        """A rate is missing if the earlier value or the time is unusable."""
        first = table(page({"name": "a", "msgs": 100}), 1.0)
        assert table(body, time, first).rows[0].values[2] is None


class TestRows:
    """The row of an item."""

    def test_values(self) -> None:
        """Values are found by their paths."""
        body = page({"name": "a", "sizes": {"now": 5}, "msgs": 1, "age": "1h"})
        assert table(body).rows[0].values == ("a", 5, None, 3600.0)

    @pytest.mark.parametrize(
        "item",
        [
            {"name": ["a"], "sizes": 5, "msgs": True, "age": "soon"},
            {"sizes": {"now": True}, "age": {}},
            {"name": {}, "sizes": {"now": 1e300}, "age": "9" * 300 + "y"},
            {"sizes": {"now": math.nan}, "msgs": 10**400, "age": -math.inf},
        ],
    )
    def test_otherTypes(self, item: dict[str, Any]) -> None:
        """Values of unexpected types, and impossible numbers, give empty cells."""
        assert table(page(item)).rows[0].values == (None, None, None, None)

    @pytest.mark.parametrize("body", [b"{}", b'{"things": 1}', b'{"things": [1, null, []]}'])
    def test_noItems(self, body: bytes) -> None:
        """A page without items is an empty table."""
        assert table(body).rows == ()

    def test_twins(self) -> None:
        """Of two items with the same key the first is shown."""
        drawn = table(page({"name": "a", "msgs": 1}, {"name": "a", "msgs": 2}))
        assert len(drawn.rows) == 1

    def test_omittedItems(self) -> None:
        """The number of items that the page left out is known."""
        assert table(page(total=5)).unread == 2
        assert table(page(total=3)).unread == table(page(total="x")).unread == 0

    def test_noJetStream(self) -> None:
        """A server without JetStream is shown as such."""
        assert table(page(disabled=True)).isOff
        assert not table(page()).isOff


class TestOrder:
    """The selection and order of rows."""

    BODY = page(
        {"name": "b", "sizes": {"now": 9}},
        {"name": "A", "sizes": {"now": 10}},
        {"name": "c"},
        {"name": "$x", "sizes": {"now": 1}, INTERNAL: True},
    )

    def test_sorted(self) -> None:
        """Numbers sort as numbers, texts in any case, and empty cells come last."""
        drawn = table(self.BODY)
        assert names(drawn, 1, True) == ["A", "b", "$x", "c"]
        assert names(drawn, 1, False) == ["$x", "b", "A", "c"]
        assert names(drawn, 0, False) == ["$x", "A", "b", "c"]

    def test_filter(self) -> None:
        """Rows are kept that have a text in any cell, as it is shown."""
        drawn = table(self.BODY)
        assert names(drawn, 0, False, "a") == ["A"]
        assert names(drawn, 0, False, "10b") == ["A"]

    def test_internal(self) -> None:
        """Rows of the server's own subjects can be left out."""
        rows = chosenRows(table(self.BODY), VIEW, 0, False, internal=False)
        assert [row.values[0] for row in rows] == ["A", "b", "c"]


class TestShown:
    """The form of values."""

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0, "0"),
            (0.25, "0.2"),
            (150.5, "150"),
            (9999, "9999"),
            (12345, "12.3K"),
            (2e18, "2000.0P"),
        ],
    )
    def test_count(self, value: float, text: str) -> None:
        """Large numbers are short."""
        assert countText(value) == text

    @pytest.mark.parametrize(
        ("value", "text"), [(0, "0B"), (1023, "1023B"), (1536, "1.5KB"), (3 << 30, "3.0GB")]
    )
    def test_bytes(self, value: float, text: str) -> None:
        """Bytes have units of 1024."""
        assert bytesText(value) == text

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("1y2d3h4m5s", 31_536_000 + 2 * 86400 + 3 * 3600 + 245),
            ("1.5ms", 0.0015),
            ("736\u00b5s", 0.000736),
            ("0s", 0.0),
            ("", None),
            ("5", None),
            ("1h later", None),
        ],
    )
    def test_durations(self, text: str, seconds: float | None) -> None:
        """Durations and uptimes in text are converted to seconds."""
        assert secondsIn(text) == (None if seconds is None else pytest.approx(seconds))

    def test_spans(self) -> None:
        """Durations below a second have their unit; longer ones are in whole seconds."""
        assert [spanText(seconds) for seconds in (0.0015, 3725.5)] == ["1.5ms", "1h2m5s"]

    def test_control(self) -> None:
        """
        Control characters in a client's name are escaped, so that they do not reach the terminal.
        """
        assert Column("Name", "name").textOf("a\x1b[2J\ud800") == "a\\x1b[2J\\ud800"
        assert Column("Name", "name").textOf(None) == ""


def test_question() -> None:
    """A page is requested with the number of items that the view shows."""
    assert VIEW.question == {"a": "b", "limit": 3}
    assert VIEW.firstSort == 1
    assert memberAt({"a": {"b": 1}}, "a.c") is None
