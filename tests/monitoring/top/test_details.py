"""One row in full: the requested page, and the members of its item."""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.monitoring.top.details import detailView, membersOf
from natsbroker.monitoring.top.tables import INTERNAL, Row, Table, View, tableFrom
from natsbroker.monitoring.top.views import VIEWS
from tests.monitoring.top.test_views import PAGES

VIEW_BY_TITLE = {view.title: view for view in VIEWS}


def opened(title: str, page: bytes) -> tuple[View, Table]:
    """The view of the first row of a page, and its table of the same page."""
    parent = VIEW_BY_TITLE[title]
    row: Row = tableFrom(parent, json.loads(page), 0.0).rows[0]
    view = detailView(parent, row)
    return view, tableFrom(view, json.loads(page), 0.0)


@pytest.mark.parametrize(
    ("title", "shown", "query"),
    [
        ("Connections", "6", {"auth": "true", "subs": "detail", "state": "all", "cid": 6}),
        ("Subjects", "A / jobs / q", {"subs": "true"}),
        ("Accounts", "A", {"unused": "true"}),
        (
            "Streams",
            "A / ORDERS",
            {
                "accounts": "true",
                "streams": "true",
                "consumers": "true",
                "config": "true",
                "acc": "A",
            },
        ),
        (
            "Consumers",
            "A / ORDERS / c1",
            {
                "accounts": "true",
                "streams": "true",
                "consumers": "true",
                "config": "true",
                "acc": "A",
            },
        ),
        ("Channels", "foo", {"channels": "1", "subs": "1"}),
        ("Closed", "7", {"auth": "true", "subs": "detail", "state": "all", "cid": 7}),
        ("Routes", "4", {}),
        ("Gateways", "B / out / 5", {"accs": "true"}),
        ("Leafnodes", "9 / 127.0.0.1 / 7422", {}),
    ],
)
def test_question(title: str, shown: str, query: dict[str, object]) -> None:
    """The view of a single row requests only this row's item, if the page supports that."""
    view, table = opened(title, PAGES[title])
    assert (view.title, view.query) == (shown, query)
    assert table.rows


def test_members() -> None:
    """
    Each member of an item is a row. Nested members have dotted paths, and elements of lists have
    numbers.
    """
    item = {
        "name": "ORDERS",
        INTERNAL: True,
        "sealed": False,
        "state": {"messages": 3, "lost": None},
        "subjects": ["a", "b"],
        "consumers": [{"name": "c1", "delivered": {"seq": 1}}],
        "tags": [],
    }
    members = [
        (member["member"], member["value"], member.get("number")) for member in membersOf(item)
    ]
    assert members == [
        ("name", "ORDERS", "ORDERS"),
        ("sealed", "false", False),
        ("state.messages", "3", 3),
        ("state.lost", "null", None),
        ("subjects[0]", "a", None),
        ("subjects[1]", "b", None),
        ("consumers[0]", "name c1, delivered.seq 1", None),
    ]


def test_longList() -> None:
    """The numbers of a list's elements have equal length, so that they sort correctly."""
    names = [member["member"] for member in membersOf({"list": list(range(12))})]
    assert names == sorted(names)
    assert (names[0], names[-1]) == ("list[00]", "list[11]")


def test_rates() -> None:
    """Members that are numbers have rates; texts and booleans have none."""

    def page(messages: int) -> Any:
        item = {"name": "A", "stream_detail": [{"name": "S", "x": True, "state": {"n": messages}}]}
        return {"account_details": [item]}

    parent = VIEW_BY_TITLE["Streams"]
    view = detailView(parent, tableFrom(parent, page(1), 0.0).rows[0])
    before = tableFrom(view, page(10), 1.0)
    values = {row.values[0]: row.values[2] for row in tableFrom(view, page(30), 3.0, before).rows}
    assert values == {"account": None, "name": None, "x": None, "state.n": 10.0}


def test_removedItem() -> None:
    """An item that is not on the page any more has no rows."""
    view, _ = opened("Streams", PAGES["Streams"])
    assert tableFrom(view, {"account_details": []}, 0.0).rows == ()
