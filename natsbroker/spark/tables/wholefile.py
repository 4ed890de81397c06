"""
Writing a file whole, or not at all.

Promises: whoever reads it under its name finds what was there before, or all that was written.
Must never know: what is in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from natsbroker.spark.errors import SourceError

__all__ = ["writeWhole"]


def writeWhole(path: Path, write: Callable[[Path], object]) -> None:
    """
    Write a file, under another name first.

    @param write: writes it at the place that it is given.
    @raise SourceError: if that cannot be done; nothing is left then.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(draft)
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise SourceError(f"{path}: {error.strerror or error}") from None
