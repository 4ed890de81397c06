"""Files that are replaced whole, and names that survive a loss of power."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def replaceFile(path: Path, write: Callable[[Path], object], isDurable: bool = False) -> None:
    """
    Replace a file so that readers find all of the old contents or all of the new.

    @param write: writes the contents at the path that it gets.
    @param isDurable: whether contents and name are on disk when this returns.
    @raise OSError: if that fails; the file is then unchanged and nothing else is left.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(draft)
        if isDurable:
            _sync(draft, os.O_RDONLY)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    if isDurable:
        syncDirectory(path.parent)


def syncDirectory(path: Path) -> None:
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
