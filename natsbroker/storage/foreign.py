"""
Directories that belong to another program.
"""

from __future__ import annotations

from pathlib import Path

from natsbroker.interfaces.records import UnknownFormat

__all__ = ["refuseForeign"]

#: With which every file of nats-streaming-server's file store begins: its version.
_VERSION = b"\x01\0\0\0"


def refuseForeign(directory: Path) -> None:
    """
    Refuse a data directory of nats-streaming-server: a store of ours would stand empty between its
    files, and its channels would seem lost. Nothing in the directory is touched.

    @raise UnknownFormat: if it is one.
    """
    if not directory.is_dir():
        return
    # Without server.dat it is one still: the server makes that file again.
    patterns = ("server.dat", "*/subs.dat", "*/msgs.*.dat")
    if any(_isMark(found) for each in patterns for found in directory.glob(each)):
        raise UnknownFormat(
            f"{directory} is a data directory of nats-streaming-server and was not touched: give "
            f"another directory, and read this one with: natsbroker streaming import {directory}"
        )


def _isMark(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_VERSION)) == _VERSION
    except (FileNotFoundError, IsADirectoryError):
        return False
