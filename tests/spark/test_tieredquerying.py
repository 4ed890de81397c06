"""
The short form of what L{tests.spark.tieredquerying} does a thousand times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.spark.tieredquerying import queried


def test_besideArchiver(spark: Any, tmp_path: Path) -> None:
    """During archiving and compacting, each query has each message once."""
    counts = queried(spark, tmp_path, 4)
    assert counts["queries"] == 4
    assert counts["versions"] > 1, counts
    assert (counts["missing"], counts["twice"], counts["wrong"]) == (0, 0, 0), counts
