"""
The rows of ordinary operations: their targets, and the sync intervals of both servers.
"""

from __future__ import annotations

import re

import pytest

from benchmarks.__main__ import chosenRows, parser
from benchmarks.figures import Bound
from benchmarks.operationrows import OPERATIONS, SYNCS, syncOf
from benchmarks.rows import ROWS, choose
from benchmarks.settings import SETTINGS


@pytest.mark.parametrize("name", ["put", "update", "fetch-1", "get", "publish"])
@pytest.mark.parametrize("sync", ["default", "always", "2m"])
def test_costTargets(name: str, sync: str) -> None:
    """
    Each operation has a target for its cost of at most that of nats-server, lower where both sync.
    """
    suffix = "" if sync == "default" else f"-{sync}"
    (row,) = choose([f"operation-{name}{suffix}"])
    least = sync == "always" and name in ("put", "update", "fetch-1")
    assert row.figures[0].fast == Bound(0.8 if least else 1.0, least=False)
    assert f"sync_interval {sync}" in row.title


@pytest.mark.parametrize(
    ("sync", "ours", "theirs"),
    [
        ("default", None, None),
        ("always", None, "sync_interval: always"),
        ("2m", 'sync_interval: "2m"', 'sync_interval: "2m"'),
    ],
)
def test_syncs(sync: str, ours: str | None, theirs: str | None) -> None:
    """Each operation has a row for each sync interval. Our server always syncs by default."""
    setting = SETTINGS[SYNCS[sync]]
    for text, wanted in ((setting.text, ours), (setting.theirs, theirs)):
        interval = re.search(r"sync_interval: \S+", text)
        assert (interval and interval[0]) == wanted
    assert setting.stores


def test_syncOption() -> None:
    """C{--sync} omits the operations with other intervals, and no other row."""
    options = parser().parse_args(["--sync", "2m", "default"])
    chosen = chosenRows(options)
    assert {syncOf(row) for row in chosen if row in OPERATIONS} == {"", "2m", "default"}
    assert [row for row in ROWS if row not in chosen] == [
        row for row in OPERATIONS if syncOf(row) == "always"
    ]


def test_growthIsLimited() -> None:
    """An operation beside 10,000 streams may cost at most twice as much as beside 10."""
    (row,) = choose(["operation-lists-2m"])
    limits = {figure.key: figure.limit for figure in row.figures if figure.limit}
    assert limits == dict.fromkeys(
        ["info_growth", "consumer_growth", "stream_growth"], Bound(2, least=False)
    )
    assert row.load[-2:] == ("--others", "10000")
