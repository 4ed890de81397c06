"""
The short form of what L{tests.spark.killing} does in many rounds, and that it would notice.
"""

from __future__ import annotations

import copy
from pathlib import Path

from natsbroker.spark.nats.connection import connect
from tests.spark.killing import Logs, isWhole, rounds


def test_killed(tmp_path: Path) -> None:
    """
    A driver with queries from both kinds of logs is killed in the middle. The next one writes each
    message once, to Parquet and to another stream. Duplicates and gaps would be found.
    """
    logs = Logs(tmp_path / "servers")
    try:
        counts = rounds(logs, tmp_path, kills=1, seed=7)
        assert isWhole(counts), counts
        stored = counts["stream"]["stored"]
        with connect(logs.station.peer) as connection:
            for kind in ("stream", "channel"):
                connection.answer(connection.ask(f"OUT-{kind}.x", b""))
        assert {row["copied"] for row in logs.copied().values()} == {stored + 1}
    finally:
        logs.close()


def test_controls() -> None:
    """Any count that differs from the number of stored messages is noticed."""
    names = ("rows", "different", "most", "right", "copied", "ids", "data")
    whole = {kind: dict.fromkeys((*names, "stored"), 9) for kind in ("stream", "channel")}
    assert isWhole(whole)
    assert not isWhole({"stream": whole["stream"]})
    for kind in whole:
        for name in names:
            for wrong in (8, 10):
                counts = copy.deepcopy(whole)
                counts[kind][name] = wrong
                assert not isWhole(counts), (kind, name, wrong)
