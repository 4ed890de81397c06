"""
The common part of all formats of tables. A table is a directory, or a prefix in an object store.
C{data/} has Parquet files with names that are never used twice; the format's own log lists the
current ones. If several writers continue from one version, one succeeds, and the others get an
error.
"""

from __future__ import annotations

import importlib
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables.locations import Location, ObjectPath, directoryOf, locationOf
from natsbroker.spark.tables.parquet import STORED, discard, joinFiles
from natsbroker.spark.tables.snapshots import (
    File,
    Range,
    TableError,
    TableSnapshot,
    Tile,
    joined,
    since,
    storing,
)

#: The sign that a directory has a table of a format, and the class of such tables, whose module
#: imports this one. Iceberg's are the archive's own catalog, and the file that names another one.
MARKS = {"delta": ("_delta_log",), "iceberg": ("catalog.db", "_nb_catalog.json")}
_CLASSES = {"delta": "DeltaLakeTable", "iceberg": "IcebergTable"}

FORMATS = tuple(MARKS)

#: The directory of manifests in an archive that an earlier version made.
FORMER = "_nb"


@dataclass(frozen=True)
class Vacuumed:
    files: int = 0
    versions: int = 0
    bytes: int = 0


class ArchiveTable(ABC):
    """A table; C{errors} are the library's, C{conflicts} another's commits."""

    form = ""
    errors: tuple[type[Exception], ...] = (OSError, ValueError)
    conflicts: tuple[type[Exception], ...] = ()

    def __init__(self, root: Location, catalog: str = "") -> None:
        self.root = root

    @property
    def directory(self) -> Path:
        return directoryOf(self.root)

    def make(self) -> None:
        if isinstance(self.root, Path):
            with storing(self.root):
                (self.root / "data").mkdir(parents=True, exist_ok=True)

    def latest(self, hasFiles: bool = True) -> TableSnapshot | None:
        """
        The current version, if any. With C{hasFiles} its files are listed, which takes longer for
        many.
        """
        table = self._open()
        return None if table is None else self._read(table, hasFiles)

    @abstractmethod
    def _open(self) -> Any: ...

    @abstractmethod
    def _read(self, table: Any, hasFiles: bool) -> TableSnapshot: ...

    def create(self, first: TableSnapshot, columns: Any = STORED) -> None:
        """Make the first version, unless another writer made it at the same moment."""
        try:
            self._create(first, columns)
        except self.errors as error:
            if self.latest() is None:
                raise self._failed(error) from None

    @abstractmethod
    def _create(self, first: TableSnapshot, columns: Any) -> None: ...

    def append(
        self, base: TableSnapshot, files: Sequence[File], lost: Iterable[Range], stop: int
    ) -> bool:
        """
        @param files: new ones, with the messages from where the base stops.
        @param lost: ranges of them that were not stored any more.
        @param stop: the sequence up to which the table is complete afterwards.
        @return: C{False} if another writer has continued from there meanwhile. Then the files are
            deleted.
        """
        cursor = base.stop
        for file in files:
            if not (self.root / file.path).exists():
                raise TableError(
                    f"{file.path} was deleted before the table named it; was the table vacuumed?"
                )
            if file.first < cursor or file.last >= stop or file.rows > file.last - file.first + 1:
                raise TableError(
                    f"{file.path}: {file.rows} rows, sequences {file.first} to {file.last}, do not"
                    f" fit between {cursor} and {stop}"
                )
            cursor = file.last + 1
        table = self._open()
        snapshot = None if table is None else self._read(table, False)
        if snapshot is None or snapshot.table != base.table:
            raise TableError(f"{self.root}: there is no archive")
        token = uuid.uuid4().hex
        everLost = joined([*snapshot.lost, *lost])
        after = replace(snapshot, stop=stop, lost=everLost, files=tuple(files))
        try:
            if snapshot.stop == base.stop:
                self._commit(table, after, (), token)
                return True
        except self.errors as error:
            # The commit may have succeeded nevertheless.
            table = self._open()
            if table is None or self._read(table, False).version == snapshot.version:
                raise self._failed(error) from None
            if token in self._tokens(table, snapshot.version):
                return True
        discard(self.root, files)
        return False

    @abstractmethod
    def _commit(self, table: Any, after: TableSnapshot, old: Sequence[File], token: str) -> None:
        """
        @param after: the start and stop of the table after the commit, all losses, the new files.
        @param token: the value of C{natsbroker.commit} in the commit.
        """

    @abstractmethod
    def _tokens(self, table: Any, version: int) -> list[str | None]:
        """The values of C{natsbroker.commit} in the commits behind a version."""

    def _committed(self, commit: Callable[[], object]) -> bool:
        """Whether the commit succeeded; C{False} if another writer's commit came first."""
        with self._failing():
            try:
                commit()
            except self.conflicts:
                return False
        return True

    @contextmanager
    def _failing(self, *more: type[Exception]) -> Iterator[None]:
        try:
            yield
        except (*self.errors, *more) as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> TableError:
        return TableError(f"{self.root}: {' '.join(str(error).split()) or type(error).__name__}")

    def compact(self, target: int) -> int:
        """
        Make few large files of small ones, and return the number of the latter. They stay until
        they are vacuumed. Files that another writer replaces meanwhile are left to it.
        """
        gone = 0
        base = self.require()
        # Other programs may have put files elsewhere, which then have no day that is known.
        tiles = [x for x in base.tiles if all(file.day or not base.partition for file in x.files)]
        for old in _runs(tiles, target):
            new = joinFiles(self.root, old, old[0].day)
            if self._replace(old, new):
                gone += len(old)
            else:
                discard(self.root, [new])
        return gone

    def _replace(self, old: Sequence[File], new: File) -> bool:
        table = self._open()
        snapshot = self._read(table, True)
        return self._changed(table, snapshot, replace(snapshot, files=(new,)), old)

    def _changed(
        self, table: Any, snapshot: TableSnapshot, after: TableSnapshot, old: Sequence[File]
    ) -> bool:
        """
        Whether the old files were replaced; C{False} if one of them is not in the table any more.
        """
        change = partial(self._commit, table, after, old, "")
        return set(old) <= set(snapshot.files) and self._committed(change)

    def expire(self, base: TableSnapshot, start: int) -> bool:
        """
        Remove the messages before a tile's first sequence. Their files stay until they are
        vacuumed.

        @return: C{False} if somebody else changed the archive meanwhile.
        """
        table = self._open()
        snapshot = self._read(table, True)
        if (snapshot.start, snapshot.lost) != (base.start, base.lost):
            return False
        after = replace(snapshot, start=start, lost=since(start, snapshot.lost), files=())
        return self._changed(table, snapshot, after, [x for x in base.files if x.first < start])

    @abstractmethod
    def vacuum(self, age: float, isDryRun: bool) -> Vacuumed:
        """
        Delete old versions, and files that no remaining version names.

        @param age: the least seconds since the versions were replaced, or the files written.
        """

    def require(self, hasFiles: bool = True) -> TableSnapshot:
        snapshot = self.latest(hasFiles)
        if snapshot is None:
            raise TableError(f"{self.root}: there is no archive")
        return snapshot


def _runs(tiles: Sequence[Tile], target: int) -> list[list[File]]:
    """The files of consecutive tiles that can become one."""
    runs: list[list[File]] = [[]]
    for tile in tiles:
        files = [*runs[-1], *tile.files]
        if sum(x.bytes for x in files) > target or len({x.day for x in files}) > 1:
            runs.append([])
        runs[-1] += tile.files
    return [run for run in runs if len(run) > 1]


def formOf(root: Location) -> str:
    for form, marks in MARKS.items():
        if any((root / mark).exists() for mark in marks):
            return form
    if (root / FORMER).exists():
        raise TableError(
            f"{root} was made by an earlier version: natsbroker spark convert --archive {root}"
            " --to DIR makes a Delta table of it"
        )
    return ""


def tableAt(
    place: str | os.PathLike[str] | ObjectPath, form: str = "", catalog: str = ""
) -> ArchiveTable:
    """
    @param form: the format; empty: that of the archive that is there, C{delta} if none is.
    @param catalog: of an Iceberg table that is begun: C{CATALOG:NAMESPACE.TABLE}; empty for one of
        its own in the directory.
    """
    root = locationOf(place)
    there = formOf(root)
    if form and there and form != there:
        raise OptionError(f"{root} is an archive of the format {there}, not {form}")
    extra = form or there or ("iceberg" if catalog else "delta")
    if catalog and extra != "iceberg":
        raise OptionError("catalog: only Iceberg tables are in one")
    try:
        module = importlib.import_module(f"natsbroker.spark.tables.{extra}")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("natsbroker"):
            raise
        raise OptionError(f"format {extra}: pip install 'natsbroker[{extra}]'") from None
    table: ArchiveTable = getattr(module, _CLASSES[extra])(root, catalog)
    return table
