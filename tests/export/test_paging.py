"""
Pages of a log.
"""

from __future__ import annotations

import pytest

from natsbroker.export.paging import ROWS, page
from tests.export.support import Stage, result


@pytest.fixture(params=[False, True], ids=["exporting", "plain"])
def log(request: pytest.FixtureRequest) -> object:
    """A log with a gap, of either kind."""
    stage = Stage()
    inner = stage.log("c", [b"xx"] * (ROWS + 10), request.param)
    result(inner.delete([2, 3]))
    return stage.shelf.logs["c"]


def test_bounded(log: object) -> None:
    """A page has so many sequences, or bytes, and says where the next one begins."""
    columns = result(page(log, 1, ROWS + 11, 1 << 20))  # type: ignore[arg-type]
    assert len(columns.sequences) <= ROWS
    assert list(columns.sequences[:3]) == [1, 4, 5]
    rest = result(page(log, columns.next, ROWS + 11, 1 << 20))  # type: ignore[arg-type]
    assert len(columns.sequences) + len(rest.sequences) == ROWS + 8
    assert rest.next == ROWS + 11
    few = result(page(log, 1, ROWS + 11, 7))  # type: ignore[arg-type]
    assert (list(few.sequences), few.next) == ([1, 4, 5], 6)


def test_stops(log: object) -> None:
    """Nothing from the end of the range on."""
    columns = result(page(log, 1, 3, 1 << 20))  # type: ignore[arg-type]
    assert (list(columns.sequences), columns.next) == ([1], 3)
    columns = result(page(log, 2, 4, 1 << 20))  # type: ignore[arg-type]
    assert (list(columns.sequences), columns.next) == ([], 4)
