"""
The manifest of an archive: which files hold which sequences of which log.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from natsbroker.spark.errors import DataSourceError

__all__ = [
    "File",
    "Log",
    "Manifest",
    "TableError",
    "dayOf",
    "fileOf",
    "joined",
    "newPath",
    "rangeOf",
    "tiled",
]

FORMAT = 1

#: The directory of the files of a day.
_DAY = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/[^/]+")

#: What files are called: their range, something random, and their SHA-256.
_NAME = re.compile(r"(\d{20})-(\d{20})-[0-9a-f]{32}(?:-([0-9a-f]{64}))?\.parquet")

Range = tuple[int, int]


class TableError(DataSourceError):
    """
    The archive cannot be read or written.
    """


@dataclass(frozen=True)
class Log:
    """
    What is archived.

    @ivar kind: C{stream} or C{channel}.
    @ivar scope: the domain of a stream, or the cluster of a channel.
    @ivar identity: which log of that name.
    """

    kind: str
    name: str
    scope: str
    identity: str


@dataclass(frozen=True)
class File:
    """
    A range of sequences, and the file that has its messages.

    @ivar path: below the archive's directory; empty if there was no message.
    @ivar start: the first sequence that it accounts for.
    @ivar stop: the first one behind that it does not.
    @ivar bytes: how large the file is.
    @ivar sha256: of the file; empty if that is not known.
    @ivar first_time: of its first message, in nanoseconds since 1970.
    @ivar last_time: of its last one.
    """

    path: str
    start: int
    stop: int
    rows: int = 0
    bytes: int = 0
    sha256: str = ""
    first_time: int = 0
    last_time: int = 0


@dataclass(frozen=True)
class Manifest:
    """
    One version of an archive.

    @ivar table: tells this archive from others of the same log.
    @ivar start: the first sequence that it accounts for.
    @ivar files: from C{start} on, each beginning where the one before stops, or with the same
        range: such files share its messages.
    @ivar lost: half-open ranges of sequences that were not stored any more when they were to be
        archived, or could not be read.
    @ivar written: when, in seconds since 1970.
    @ivar partition: C{date} if each file has messages of one day in UTC; else empty.
    """

    version: int
    table: str
    log: Log
    start: int
    files: tuple[File, ...] = ()
    lost: tuple[Range, ...] = ()
    written: float = 0.0
    partition: str = ""

    @classmethod
    def first(cls, log: Log, start: int, partition: str = "") -> Manifest:
        return cls(0, uuid.uuid4().hex, log, start, partition=partition)

    @property
    def stop(self) -> int:
        """
        The first sequence that it does not account for.
        """
        return self.files[-1].stop if self.files else self.start

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def groups(self) -> list[tuple[File, ...]]:
        return [tuple(x) for _, x in groupby(self.files, lambda each: (each.start, each.stop))]

    @property
    def paths(self) -> set[str]:
        return {each.path for each in self.files if each.path}

    def extended(self, files: Sequence[File], lost: Iterable[Range], now: float) -> Manifest:
        return replace(
            self,
            version=self.version + 1,
            files=self.files + tuple(files),
            lost=joined([*self.lost, *lost]),
            written=now,
        )

    def replaced(self, old: Sequence[File], new: Sequence[File], now: float) -> Manifest:
        """
        The next version, with other files for a range.

        @param old: files that follow each other.
        """
        place = self.files.index(old[0])
        if self.files[place : place + len(old)] != tuple(old):
            raise TableError("what is to be replaced does not follow each other")
        files = self.files[:place] + tuple(new) + self.files[place + len(old) :]
        return replace(self, version=self.version + 1, files=files, written=now)

    def check(self) -> None:
        cursor = self.start
        for group in self.groups:
            start, stop = group[0].start, group[0].stop
            if start != cursor or stop <= start:
                raise TableError(
                    f"version {self.version}: a file begins at {start} and not at {cursor}"
                )
            isEmpty = len(group) == 1 and not group[0].path and not group[0].rows
            isFull = all(each.path and each.rows > 0 for each in group)
            if not (isEmpty or isFull) or sum(each.rows for each in group) > stop - start:
                raise TableError(f"version {self.version}: {group[0].path} cannot have its rows")
            cursor = stop
        paths = [each.path for each in self.files if each.path]
        if len(paths) != len(set(paths)):
            twice = next(each for each in paths if paths.count(each) > 1)
            raise TableError(f"version {self.version}: {twice} is named twice")
        if self.partition and not all(dayOf(x) for x in self.paths if rangeOf(x) is not None):
            raise TableError(f"version {self.version}: a file is not in the directory of its day")
        if joined(self.lost) != self.lost:
            raise TableError(f"version {self.version}: its lost ranges are not in order")
        if self.lost and not self.start <= self.lost[0][0] < self.lost[-1][1] <= self.stop:
            raise TableError(f"version {self.version}: it lost what it does not account for")

    def dumped(self) -> bytes:
        fields = {"format": FORMAT, **asdict(self), "stop": self.stop}
        return json.dumps(fields, indent=1).encode("utf-8")

    @classmethod
    def read(cls, data: bytes) -> Manifest:
        """
        From what was written.
        """
        try:
            fields = json.loads(data)
            if fields.pop("format") != FORMAT:
                raise TableError("the manifest has a format that this version does not know")
            stop = fields.pop("stop")
            manifest = cls(
                **{
                    **fields,
                    "log": Log(**fields["log"]),
                    "files": tuple(File(**each) for each in fields["files"]),
                    "lost": tuple((int(a), int(b)) for a, b in fields["lost"]),
                }
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TableError(f"the manifest makes no sense: {error}") from None
        manifest.check()
        if stop != manifest.stop:
            raise TableError("the manifest makes no sense: its files stop elsewhere")
        return manifest


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """
    The same sequences in ranges that are in order and apart.
    """
    found: list[Range] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return tuple(found)


def newPath(start: int, stop: int, day: str = "", digest: str = "") -> str:
    """
    A path for a data file that nobody else uses.

    @param day: of all its messages, if that is known: C{2026-11-20}.
    @param digest: its SHA-256, if that is known.
    """
    folder = f"data/date={day}" if day else "data"
    random = f"{uuid.uuid4().hex}-{digest}" if digest else uuid.uuid4().hex
    return f"{folder}/{start:020}-{stop:020}-{random}.parquet"


def dayOf(path: str) -> str:
    """
    The day of all messages of a data file, by the name of its directory; empty if it says none.
    """
    found = _DAY.search(path)
    return "" if found is None else found[1]


def rangeOf(path: str) -> tuple[int, int, str] | None:
    """
    What the name of a data file says: where it starts and stops, and its SHA-256, which may be
    empty; C{None} if somebody else gave it its name.
    """
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else (int(found[1]), int(found[2]), found[3] or "")


def fileOf(path: str, rows: int, size: int, seqs: tuple[Any, Any], times: tuple[Any, Any]) -> File:
    """
    A file of a table of another format: its range is that of its name, or if another program made
    it that of its rows.

    @param seqs: its first and last sequence, as far as is known.
    @param times: when its first and last message were stored.
    """
    named = rangeOf(path)
    if named is None and None in seqs:
        raise TableError(f"{path}: has no statistics that say which sequences it has")
    start, stop, digest = named or (seqs[0], seqs[1] + 1, "")
    return File(path, start, stop, rows, size, digest, times[0] or 0, times[1] or 0)


def tiled(files: Iterable[File], start: int, stop: int) -> tuple[File, ...]:
    """
    Files as manifests have them: those that overlap share a range, and where none is nothing is.

    @param files: in any order.
    """
    found: list[File] = []
    group: list[File] = []
    cursor = start
    for each in sorted((x for x in files), key=lambda x: (x.start, x.stop, x.path)):
        if group and each.start < group[0].stop:
            most = max(each.stop, group[0].stop)
            group = [replace(x, start=group[0].start, stop=most) for x in [*group, each]]
            continue
        found += group
        cursor = group[0].stop if group else cursor
        if cursor < each.start:
            found.append(File("", cursor, each.start))
        group = [each]
    found += group
    cursor = group[0].stop if group else cursor
    if cursor > stop:
        raise TableError(f"there are files up to {cursor}, where the archive stops at {stop}")
    return tuple(found) if cursor == stop else (*found, File("", cursor, stop))
