"""
The text of the files that a configuration names.
"""

from __future__ import annotations

__all__ = ["readText"]


def readText(path: str) -> str:
    """
    Read a file; bytes that are not UTF-8 become surrogate escapes.

    @raise OSError: when it cannot be read.
    """
    with open(path, "rb") as stream:
        return stream.read().decode("utf-8", "surrogateescape")
