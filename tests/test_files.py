"""
Files that are replaced as a whole.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from natsbroker.files import replaceFile, syncDirectory


@pytest.mark.parametrize("isDurable", [False, True])
def test_oldUntilWhole(tmp_path: Path, isDurable: bool) -> None:
    """Readers see the old contents until all of the new ones are written."""
    path = tmp_path / "file"
    path.write_text("before")

    def write(draft: Path) -> None:
        draft.write_text("after")
        assert path.read_text() == "before"

    replaceFile(path, write, isDurable)
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_keptOnFailure(tmp_path: Path) -> None:
    """A failure during a replacement leaves the old contents, and no other file."""
    path = tmp_path / "file"
    path.write_text("before")

    def write(draft: Path) -> None:
        draft.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        replaceFile(path, write)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_modeOfWriter(tmp_path: Path) -> None:
    """The file has the permissions that its writer gave it."""
    path = tmp_path / "file"
    replaceFile(path, lambda draft: draft.touch(0o600), isDurable=True)
    assert path.stat().st_mode & 0o777 == 0o600


def test_syncOfMissingDirectory(tmp_path: Path) -> None:
    """A sync of a directory that does not exist is an error."""
    with pytest.raises(FileNotFoundError):
        syncDirectory(tmp_path / os.urandom(4).hex())
