"""
Where the manifest of an archive is kept: what all formats of tables have in common.

An archive is a directory. C{data/} has Parquet files with names that are never used twice; the
format's own log lists those that hold. A writer makes the next version; of several that try, one
succeeds, and the others learn it.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from natsbroker.spark.tables.manifests import Manifest, TableError

__all__ = ["ArchiveTable", "Vacuumed", "deleted", "failed", "rootOf"]


@dataclass(frozen=True)
class Vacuumed:
    """
    What was deleted.

    @ivar bytes: of the files.
    """

    files: int = 0
    versions: int = 0
    bytes: int = 0


class ArchiveTable(ABC):
    """
    An archive in a directory.

    @cvar form: what the format is called.
    @ivar root: the directory.
    """

    form = ""

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self) -> None:
        try:
            (self.root / "data").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise failed(self.root, error) from None

    @abstractmethod
    def latest(self) -> Manifest | None:
        """
        The version that holds; C{None} if there is none yet.
        """

    @abstractmethod
    def commit(self, manifest: Manifest) -> bool:
        """
        Make a version hold.

        @param manifest: the first one, or what the version that holds became.
        @return: whether it does: not if somebody else has made another one meanwhile.
        """

    @abstractmethod
    def vacuum(self, age: float, now: Callable[[], float], isDryRun: bool) -> Vacuumed:
        """
        Delete versions that have not held for a while, and files that no version names that is
        left.

        @param age: how long ago they stopped holding, or were written, at least; in seconds.
        @param isDryRun: say what would be deleted, and delete nothing.
        """

    def require(self) -> Manifest:
        manifest = self.latest()
        if manifest is None:
            raise TableError(f"{self.root}: there is no archive")
        return manifest


def rootOf(place: str | os.PathLike[str]) -> Path:
    """
    The directory of an archive.
    """
    text = os.fspath(place)
    text = text[7:] if text.startswith("file:///") else text
    if re.match(r"[a-zA-Z][\w+.-]*:/", text):
        raise TableError(f"{text}: only directories of mounted file systems are supported yet")
    return Path(text).absolute()


def deleted(files: list[Path], oldest: float, isDryRun: bool) -> Vacuumed:
    """
    Delete those of some files that were written before a moment.

    @param oldest: in seconds since 1970.
    @param isDryRun: delete nothing.
    """
    count = size = 0
    for each in files:
        found = each.stat()
        if found.st_mtime < oldest:
            count += 1
            size += found.st_size
            if not isDryRun:
                each.unlink(missing_ok=True)
    return Vacuumed(count, 0, size)


def failed(path: Path, error: OSError) -> TableError:
    return TableError(f"{path}: {error.strerror or error}")
