"""
What all formats have in common.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from natsbroker.spark.tables.manifests import TableError
from natsbroker.spark.tables.table import Vacuumed, deleted, failed, rootOf


@pytest.mark.parametrize("root", ["s3://bucket/x", "hdfs://h/x", "file://host/x"])
def test_otherPlaces(root: str) -> None:
    """What is no directory here is refused."""
    with pytest.raises(TableError, match="only directories of mounted file systems"):
        rootOf(root)


def test_places() -> None:
    """A directory, also as a URL."""
    assert rootOf("file:///lake/x") == rootOf("/lake/x") == Path("/lake/x")
    assert rootOf("x") == Path.cwd() / "x"


def test_deleted(tmp_path: Path) -> None:
    """Only what is old goes, and nothing where one tries."""
    old, new = tmp_path / "old", tmp_path / "new"
    for each in (old, new):
        each.write_bytes(b"12345")
    os.utime(old, (100, 100))
    assert deleted([old, new], 200, True) == Vacuumed(1, 0, 5)
    assert old.exists()
    assert deleted([old, new], 200, False) == Vacuumed(1, 0, 5)
    assert (old.exists(), new.exists()) == (False, True)


def test_failed() -> None:
    """An error says where and why."""
    assert str(failed(Path("/x"), OSError(28, "No space left"))) == "/x: No space left"
    assert str(failed(Path("/x"), OSError("odd"))) == "/x: odd"
