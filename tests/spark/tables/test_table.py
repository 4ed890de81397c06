"""
What all formats have in common.
"""

from __future__ import annotations

from pathlib import Path

from natsbroker.spark.tables.table import failed


def test_failed() -> None:
    """An error says where and why."""
    assert str(failed(Path("/x"), OSError(28, "No space left"))) == "/x: No space left"
    assert str(failed(Path("/x"), OSError("odd"))) == "/x: odd"
