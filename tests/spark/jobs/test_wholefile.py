"""
Writing a file whole, or not at all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.common import writeWhole


def test_writes(tmp_path: Path) -> None:
    """The old content stays until the new one is completely written."""
    path = tmp_path / "file"
    path.write_text("before")

    def write(draft: Path) -> None:
        draft.write_text("after")
        assert path.read_text() == "before"

    writeWhole(path, write)
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_writeFails(tmp_path: Path) -> None:
    """A write that fails in the middle leaves the old content, and nothing else."""
    path = tmp_path / "file"
    path.write_text("before")

    def write(draft: Path) -> None:
        draft.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(DataSourceError, match="file: No space left on device"):
        writeWhole(path, write)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_noDirectory(tmp_path: Path) -> None:
    """A place below a file is an error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(DataSourceError, match="Not a directory"):
        writeWhole(tmp_path / "file" / "x", lambda draft: draft.write_text(""))
