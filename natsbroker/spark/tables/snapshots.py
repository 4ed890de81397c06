"""A version of a table: its log, the place up to which it follows the log, and its files."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from natsbroker.spark.errors import DataSourceError

#: Half-open.
Range = tuple[int, int]


class TableError(DataSourceError):
    pass


@contextmanager
def storing(place: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TableError(f"{place}: {error.strerror or error}") from None


@dataclass(frozen=True)
class Log:
    kind: str
    name: str
    scope: str
    identity: str


@dataclass(frozen=True)
class File:
    path: str
    first: int
    last: int
    rows: int
    bytes: int

    @property
    def day(self) -> str:
        match = re.search(r"(?:^|/)date=([^/]+)/", self.path)
        return "" if match is None else match[1]


@dataclass(frozen=True)
class Tile:
    start: int
    stop: int
    files: tuple[File, ...] = ()


@dataclass(frozen=True)
class TableSnapshot:
    """
    @ivar table: distinguishes this table from others of the same log.
    @ivar stop: the first sequence that it does not account for.
    @ivar files: in the order of their sequences.
    @ivar lost: ranges that were not stored any more, or unreadable, when they were to be archived.
    @ivar partition: C{date} if each file has messages of one day in UTC; else empty.
    """

    version: int
    table: str
    log: Log
    start: int
    stop: int
    files: tuple[File, ...] = ()
    lost: tuple[Range, ...] = ()
    partition: str = ""

    @classmethod
    def first(cls, log: Log, start: int, partition: str = "") -> TableSnapshot:
        return cls(0, uuid.uuid4().hex, log, start, start, partition=partition)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def tiles(self) -> list[Tile]:
        tiles: list[Tile] = []
        group: list[File] = []
        cursor = end = self.start
        for file in self.files:
            if group and file.first >= end:
                tiles.append(Tile(cursor, end, tuple(group)))
                cursor, group = end, []
            group.append(file)
            end = max(end, file.last + 1)
        if group:
            tiles.append(Tile(cursor, end, tuple(group)))
            cursor = end
        return [*tiles, Tile(cursor, self.stop)] if cursor < self.stop else tiles


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    joining: list[Range] = []
    for start, stop in sorted(ranges):
        if joining and start <= joining[-1][1]:
            joining[-1] = joining[-1][0], max(stop, joining[-1][1])
        else:
            joining.append((start, stop))
    return tuple(joining)


def since(start: int, ranges: Iterable[Range]) -> tuple[Range, ...]:
    return tuple((max(first, start), stop) for first, stop in ranges if stop > start)


def newPath(start: int, day: str = "") -> str:
    folder = f"data/date={day}" if day else "data"
    return f"{folder}/{start:020}-{uuid.uuid4().hex}.parquet"


def ordered(files: Iterable[File], start: int, stop: int) -> tuple[File, ...]:
    inOrder = tuple(sorted(files, key=lambda file: (file.first, file.last, file.path)))
    for file in inOrder:
        if file.first < start or file.last >= stop:
            raise TableError(
                f"{file.path}: has sequences {file.first} to {file.last}, and the archive those"
                f" from {start} to {stop - 1}: another program has added it"
            )
    return inOrder
