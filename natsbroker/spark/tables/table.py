"""
What all formats of tables have in common.

A table is a directory, or a prefix in an object store. C{data/} has Parquet files with names that
are never used twice; the format's own log lists those that hold. Of several writers that go on from
one version one succeeds, and the others learn it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from natsbroker.spark.tables.checking import STORED
from natsbroker.spark.tables.filing import discard, joinFiles
from natsbroker.spark.tables.locations import Location, directoryOf
from natsbroker.spark.tables.snapshots import File, Range, TableError, TableSnapshot, Tile


@dataclass(frozen=True)
class Vacuumed:
    files: int = 0
    versions: int = 0
    bytes: int = 0


class ArchiveTable(ABC):
    form = ""

    def __init__(self, root: Location) -> None:
        self.root = root

    @property
    def directory(self) -> Path:
        """
        @raise TableError: if the table is in an object store.
        """
        return directoryOf(self.root)

    def make(self) -> None:
        if not isinstance(self.root, Path):
            return
        try:
            (self.root / "data").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise failed(self.root, error) from None

    @abstractmethod
    def latest(self, hasFiles: bool = True) -> TableSnapshot | None:
        """
        The version that holds; C{None} if there is none yet.

        @param hasFiles: whether the snapshot lists its files: the more there are, the longer it
            takes.
        """

    @abstractmethod
    def create(self, first: TableSnapshot, columns: Any = STORED) -> None:
        """
        Make the first version; or somebody else does at the same moment.
        """

    def append(
        self, base: TableSnapshot, files: Sequence[File], lost: Iterable[Range], stop: int
    ) -> bool:
        """
        Account for the sequences up to one.

        @param files: new ones, with the messages from where that stops.
        @param lost: ranges in there that were not stored any more.
        @return: whether it does: not if somebody else went on from there meanwhile. Then the files
            are deleted.
        """
        cursor = base.stop
        for each in files:
            if not (self.root / each.path).exists():
                raise TableError(f"{each.path} was deleted before it was named: by what vacuums?")
            if each.first < cursor or each.last >= stop or each.rows > each.last - each.first + 1:
                raise TableError(
                    f"{each.path}: {each.rows} rows of {each.first} to {each.last} do not go"
                    f" between {cursor} and {stop}"
                )
            cursor = each.last + 1
        if self._append(base, files, tuple(lost), stop):
            return True
        discard(self.root, files)
        return False

    @abstractmethod
    def _append(
        self, base: TableSnapshot, files: Sequence[File], lost: tuple[Range, ...], stop: int
    ) -> bool:
        """
        As L{append}, with what is newly lost.
        """

    def compact(self, target: int) -> int:
        """
        Make few large files of many small ones; these stay until they are vacuumed. Those that
        somebody else replaces meanwhile are left to them.

        @return: how many files gave way to others.
        """
        gone = 0
        days = self._days()
        tiles = [x for x in self.require().tiles if all(each.path in days for each in x.files)]
        for run in _runs(tiles, target, days):
            old = [file for tile in run for file in tile.files]
            new = joinFiles(self.root, old, days[old[0].path])
            if self._replace(old, new):
                gone += len(old)
            else:
                discard(self.root, [new])
        return gone

    @abstractmethod
    def _days(self) -> dict[str, str]:
        """
        The day of the messages of each file, by its path; empty if they are not of one.
        """

    @abstractmethod
    def _replace(self, old: Sequence[File], new: File) -> bool:
        """
        Have a file take the place of others with the same messages.

        @return: whether it does: not if one of them is not in the table any more.
        """

    @abstractmethod
    def expire(self, base: TableSnapshot, start: int) -> bool:
        """
        Give up the messages before a sequence at which a tile begins. Their files stay until they
        are vacuumed.

        @return: whether the archive begins there now: not if somebody else changed it meanwhile.
        """

    @abstractmethod
    def vacuum(self, age: float, isDryRun: bool) -> Vacuumed:
        """
        Delete old versions, and files that no version names that is left.

        @param age: how long ago they stopped holding, or were written, at least; in seconds.
        """

    def require(self, hasFiles: bool = True) -> TableSnapshot:
        found = self.latest(hasFiles)
        if found is None:
            raise TableError(f"{self.root}: there is no archive")
        return found


def _runs(tiles: Sequence[Tile], target: int, days: dict[str, str]) -> list[list[Tile]]:
    """
    Tiles that follow each other and whose files can become one.
    """
    runs: list[list[Tile]] = [[]]
    for each in tiles:
        files = [file for tile in (*runs[-1], each) for file in tile.files]
        size = sum(file.bytes for file in files)
        if runs[-1] and (size > target or len({days[file.path] for file in files}) > 1):
            runs.append([])
        runs[-1].append(each)
    return [each for each in runs if sum(len(x.files) for x in each) > 1]


def failed(path: Path, error: OSError) -> TableError:
    return TableError(f"{path}: {error.strerror or error}")
