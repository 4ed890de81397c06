"""
The cost of streaming. The tests take minutes and an idle machine, so they are skipped unless
C{NATSBROKER_SPEED} is set.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.spark.speed import measured

MOST = 4.0
"""Processor seconds of Python for a million rows of a channel, in a streaming query."""


@pytest.mark.skipif("NATSBROKER_SPEED" not in os.environ, reason="a benchmark")
def test_streaming(tmp_path: Path) -> None:
    """The Pythons of a streaming query into Parquet take a few seconds for a million rows."""
    measures = measured(tmp_path, 1_000_000, 1, ["parquet"])
    assert measures["channelToParquet"]["python"] <= MOST
