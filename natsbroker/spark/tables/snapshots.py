"""A version of a table: which log it follows, how far, and with which files."""

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
        found = re.search(r"(?:^|/)date=([^/]+)/", self.path)
        return "" if found is None else found[1]


@dataclass(frozen=True)
class Tile:
    start: int
    stop: int
    files: tuple[File, ...] = ()


@dataclass(frozen=True)
class TableSnapshot:
    """
    @ivar table: tells this table from others of the same log.
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
        return sum(each.rows for each in self.files)

    @property
    def tiles(self) -> list[Tile]:
        found: list[Tile] = []
        group: list[File] = []
        cursor = end = self.start
        for each in self.files:
            if group and each.first >= end:
                found.append(Tile(cursor, end, tuple(group)))
                cursor, group = end, []
            group.append(each)
            end = max(end, each.last + 1)
        if group:
            found.append(Tile(cursor, end, tuple(group)))
            cursor = end
        return [*found, Tile(cursor, self.stop)] if cursor < self.stop else found


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    found: list[Range] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return tuple(found)


def since(start: int, ranges: Iterable[Range]) -> tuple[Range, ...]:
    return tuple((max(first, start), stop) for first, stop in ranges if stop > start)


def newPath(start: int, day: str = "") -> str:
    folder = f"data/date={day}" if day else "data"
    return f"{folder}/{start:020}-{uuid.uuid4().hex}.parquet"


def ordered(files: Iterable[File], start: int, stop: int) -> tuple[File, ...]:
    found = tuple(sorted(files, key=lambda each: (each.first, each.last, each.path)))
    for each in found:
        if each.first < start or each.last >= stop:
            raise TableError(
                f"{each.path}: has sequences {each.first} to {each.last}, and the archive those"
                f" from {start} to {stop - 1}: another program has added it"
            )
    return found
