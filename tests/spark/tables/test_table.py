"""
What all formats have in common.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.spark.tables.snapshots import TableError
from natsbroker.spark.tables.table import failed, rootOf


@pytest.mark.parametrize("root", ["s3://bucket/x", "hdfs://h/x", "file://host/x"])
def test_otherPlaces(root: str) -> None:
    """What is no directory here is refused."""
    with pytest.raises(TableError, match="only directories of mounted file systems"):
        rootOf(root)


def test_places() -> None:
    """A directory, also as a URL."""
    assert rootOf("file:///lake/x") == rootOf("/lake/x") == Path("/lake/x")
    assert rootOf("x") == Path.cwd() / "x"


def test_failed() -> None:
    """An error says where and why."""
    assert str(failed(Path("/x"), OSError(28, "No space left"))) == "/x: No space left"
    assert str(failed(Path("/x"), OSError("odd"))) == "/x: odd"
