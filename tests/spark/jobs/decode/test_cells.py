"""
The room that rows take.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark.codecs.datatypes import readSchema
from natsbroker.spark.jobs.decode.decoder import cellsIn, shapeOf

WIDE = ", ".join(f"x{number}: INT" for number in range(10))


def shape(ddl: str) -> Any:
    """The relevant part of a schema."""
    return shapeOf(pa.struct(list(readSchema(ddl))))


@pytest.mark.parametrize(
    "ddl",
    [
        "a INT, b ARRAY<STRING>, c MAP<STRING, DOUBLE>",
        f"a STRUCT<{WIDE}>",
        "a ARRAY<STRUCT<p: INT, q: ARRAY<STRING>>>",
    ],
)
def test_proportion(ddl: str) -> None:
    """Rows whose size is limited by their payloads are not counted."""
    assert shape(ddl) is None


@pytest.mark.parametrize(
    ("ddl", "value", "cells"),
    [
        (f"a ARRAY<STRUCT<{WIDE}>>", {"a": [{}, None, {"x0": 5}]}, 33),
        (f"a ARRAY<STRUCT<{WIDE}>>", {}, 0),
        (f"a ARRAY<STRUCT<{WIDE}>>", {"a": None}, 0),
        (f"s STRUCT<a: ARRAY<STRUCT<{WIDE}>>>", {"s": {"a": [{}]}}, 11),
        (f"m MAP<STRING, STRUCT<{WIDE}>>", {"m": [("k", {}), ("l", None)]}, 22),
        (f"m MAP<STRING, ARRAY<STRUCT<{WIDE}>>>", {"m": {"k": [{}], "l": None}}, 2 + 11),
        (f"a ARRAY<STRUCT<i: STRUCT<{WIDE}>>>", {"a": [None]}, 12),
        (
            f"a ARRAY<STRUCT<b: ARRAY<STRUCT<{WIDE}>>>>",
            {"a": [{"b": [None, {}]}, None, {}]},
            2 * 3 + 11 * 2,
        ),
        (f"m MAP<STRING, ARRAY<STRUCT<{WIDE}>>>", {"m": [("k", [{}]), ("l", None)]}, 2 + 11),
    ],
)
def test_counted(ddl: str, value: Any, cells: int) -> None:
    """Each item of a list counts for each column below it."""
    assert cellsIn(value, shape(ddl)) == cells
