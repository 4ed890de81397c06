"""One row of a view in full: a view with a row for each member that the page has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from natsbroker.monitoring.top.tables import INTERNAL, Column, Item, Row, Unit, View

COLUMNS = (
    Column("Member", "member"),
    Column("Value", "value"),
    Column("Change/s", "number", Unit.COUNT, isRate=True),
)


def detailView(view: View, row: Row) -> View:
    columns = zip(view.columns, row.values, strict=True)
    values = {column.path: value for column, value in columns if not column.isRate}
    named = {name: values[path] for name, path in view.detailNames.items()}

    def itemsIn(page: Item) -> Iterator[Item]:
        for item in view.itemsIn(page):
            if view.identityOf(item) == row.identity:
                return membersOf(item)
        return iter(())

    return replace(
        view,
        key=f"{view.key}={row.identity}",
        title=" / ".join(filter(None, row.identity.split("\0"))),
        query={**view.query, **view.detailQuery, **named},
        itemsIn=itemsIn,
        identity=("member",),
        columns=COLUMNS,
        order="Member",
    )


def membersOf(item: Item, prefix: str = "") -> Iterator[Item]:
    """The members of an item by dotted paths; each element of a list is one."""
    for name, value in item.items():
        if name == INTERNAL:
            continue
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from membersOf(value, f"{path}.")
        elif isinstance(value, list):
            digits = len(str(len(value) - 1))
            for number, element in enumerate(value):
                yield {"member": f"{path}[{number:0{digits}}]", "value": _phrase(element)}
        else:
            yield {"member": path, "value": _phrase(value), "number": value}


def _phrase(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{member['member']} {member['value']}" for member in membersOf(value))
    return value if isinstance(value, str) else json.dumps(value)
