"""
Writing a file whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from natsbroker.files import replaceFile
from natsbroker.spark.errors import DataSourceError

__all__ = ["writeWhole"]


def writeWhole(path: Path, write: Callable[[Path], object]) -> None:
    """
    Write a file, under another name first.

    @param write: writes it at the place that it is given.
    @raise DataSourceError: if that cannot be done; nothing is left then.
    """
    try:
        replaceFile(path, write)
    except OSError as error:
        raise DataSourceError(f"{path}: {error.strerror or error}") from None
