"""
Monitoring pages of nats-server and natsbroker, and their accepted differences.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

#: Objects whose keys are data.
DATA = {"/varz http_req_stats"}


def typeOf(value: Any) -> str:
    """The JSON type of a value; integers and other numbers have the same type."""
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def inOrder(rows: list[Any]) -> list[Any]:
    """
    Subscriptions sorted by their sids, because nats-server's are in random order. Other rows are
    unchanged.
    """
    isSubscription = all(isinstance(row, dict) and "sid" in row for row in rows)
    return sorted(rows, key=lambda row: str(row["sid"])) if isSubscription else rows


def placesOf(value: Any, names: Container[str] = (), place: str = "") -> set[str]:
    """
    The paths of a document, each with its type. The rows of a list have one path, with the keys of
    all rows together.

    @param names: the paths of objects whose keys are data; C{*} stands for these keys.
    """
    if isinstance(value, list):
        return {entry for row in value for entry in placesOf(row, names, place)} | {
            f"{place}: list"
        }
    if not isinstance(value, dict):
        return {f"{place}: {typeOf(value)}"}
    places = {f"{place}: dict"}
    for key, inner in value.items():
        name = "*" if place in names else key
        places |= placesOf(inner, names, f"{place}.{name}" if place else name)
    return places


@dataclass
class Difference:
    """
    The difference of two documents.

    @ivar missing: the paths that only nats-server has.
    @ivar extra: the paths that only natsbroker has.
    @ivar types: the paths with different types.
    @ivar order: the paths whose common keys are in another order.
    """

    page: str
    missing: set[str]
    extra: set[str]
    types: list[str]
    order: list[str]

    def compare(self, real: Any, ours: Any, place: str = "") -> None:
        """Compare two values at one path. Of lists, the elements that both have are compared."""
        if typeOf(real) != typeOf(ours):
            self.types.append(f"{place}: {typeOf(real)} there, {typeOf(ours)} here")
        elif isinstance(real, dict) and f"{self.page} {place}" not in DATA:
            self._compareObjects(real, ours, place)
        elif isinstance(real, list):
            for there, here in zip(inOrder(real), inOrder(ours), strict=False):
                self.compare(there, here, place)

    def _compareObjects(self, real: dict[str, Any], ours: dict[str, Any], place: str) -> None:
        dot = f"{place}." if place else ""
        self.missing |= {f"{self.page} {dot}{key}" for key in real.keys() - ours.keys()}
        self.extra |= {f"{self.page} {dot}{key}" for key in ours.keys() - real.keys()}
        if [key for key in real if key in ours] != [key for key in ours if key in real]:
            self.order.append(place)
        for key in real.keys() & ours.keys():
            self.compare(real[key], ours[key], dot + key)
