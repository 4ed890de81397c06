"""
The manifest of an archive: which files hold which sequences of which log.

An archive is a directory. C{data/} has Parquet files with names that are never used twice; C{_nb/}
has one manifest for each version, which describes the whole archive. The one with the highest
number holds. Whoever wants to change the archive makes the next version; of several who try, one
succeeds, and the others learn it.

Promises: a version is there whole and for good, or not at all; the files of a manifest follow each
other without a gap from its start to its stop, or it is refused.
Must never know: servers, or what rows look like.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from natsbroker.spark.errors import SourceError

__all__ = ["File", "Log", "Manifest", "Table", "TableError", "joined"]

FORMAT = 1

_VERSION = re.compile(r"(\d{10})\.json")

Range = tuple[int, int]


class TableError(SourceError):
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
    @ivar sha256: of the file.
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
    @ivar files: from C{start} on, each beginning where the one before stops.
    @ivar lost: half-open ranges of sequences that were not stored any more when they were to be
        archived, or could not be read.
    @ivar written: when, in seconds since 1970.
    """

    version: int
    table: str
    log: Log
    start: int
    files: tuple[File, ...] = ()
    lost: tuple[Range, ...] = ()
    written: float = 0.0

    @classmethod
    def first(cls, log: Log, start: int) -> Manifest:
        """
        An archive that has nothing yet.
        """
        return cls(0, uuid.uuid4().hex, log, start)

    @property
    def stop(self) -> int:
        """
        The first sequence that it does not account for.
        """
        return self.files[-1].stop if self.files else self.start

    @property
    def rows(self) -> int:
        """
        How many messages it has.
        """
        return sum(each.rows for each in self.files)

    def extended(self, files: Sequence[File], lost: Iterable[Range], now: float) -> Manifest:
        """
        The next version, with more at its end.
        """
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
        """
        See that nothing is missing and nothing twice.

        @raise TableError: otherwise.
        """
        cursor = self.start
        for each in self.files:
            if each.start != cursor or each.stop <= each.start:
                raise TableError(
                    f"version {self.version}: a file begins at {each.start} and not at {cursor}"
                )
            if bool(each.path) != bool(each.rows) or each.rows > each.stop - each.start:
                raise TableError(f"version {self.version}: {each.path} cannot have its rows")
            cursor = each.stop
        if joined(self.lost) != self.lost:
            raise TableError(f"version {self.version}: its lost ranges are not in order")
        if self.lost and not self.start <= self.lost[0][0] < self.lost[-1][1] <= self.stop:
            raise TableError(f"version {self.version}: it lost what it does not account for")

    def dumped(self) -> bytes:
        """
        As it is written.
        """
        fields = {"format": FORMAT, **asdict(self), "stop": self.stop}
        return json.dumps(fields, indent=1).encode("utf-8")

    @classmethod
    def read(cls, data: bytes) -> Manifest:
        """
        From what was written.

        @raise TableError: if it makes no sense.
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


class Table:
    """
    An archive in a directory.

    @ivar root: the directory.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """
        @raise TableError: if it is no directory of a file system that is mounted here.
        """
        text = os.fspath(root)
        text = text[7:] if text.startswith("file:///") else text
        if re.match(r"[a-zA-Z][\w+.-]*:/", text):
            raise TableError(f"{text}: only directories of mounted file systems are supported yet")
        self.root = Path(text).absolute()
        self._versions = self.root / "_nb"

    def make(self) -> None:
        """
        Make the directories, if they are not there.
        """
        try:
            self._versions.mkdir(parents=True, exist_ok=True)
            (self.root / "data").mkdir(exist_ok=True)
        except OSError as error:
            raise _failed(self.root, error) from None

    def versions(self) -> list[int]:
        """
        The numbers of those that are there, ascending.
        """
        try:
            names = os.listdir(self._versions)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(self.root, error) from None
        found = (_VERSION.fullmatch(each) for each in names)
        return sorted(int(each[1]) for each in found if each is not None)

    def latest(self) -> Manifest | None:
        """
        The version that holds; C{None} if there is none yet.

        @raise TableError: if it cannot be read.
        """
        while versions := self.versions():
            try:
                return self.version(versions[-1])
            except FileNotFoundError:
                continue  # Somebody vacuums, and there is a later one.
        return None

    def version(self, number: int) -> Manifest:
        """
        One version.

        @raise FileNotFoundError: if it is not there.
        @raise TableError: if it cannot be read.
        """
        path = self.pathOf(number)
        try:
            manifest = Manifest.read(path.read_bytes())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _failed(path, error) from None
        except TableError as error:
            raise TableError(f"{path}: {error}") from None
        if manifest.version != number:
            raise TableError(f"{path}: is version {manifest.version}")
        return manifest

    def require(self) -> Manifest:
        """
        The version that holds.

        @raise TableError: if there is none.
        """
        manifest = self.latest()
        if manifest is None:
            raise TableError(f"{self.root}: there is no archive")
        return manifest

    def pathOf(self, version: int) -> Path:
        """
        Where a version is, or would be.
        """
        return self._versions / f"{version:010}.json"

    def commit(self, manifest: Manifest) -> bool:
        """
        Make a version hold.

        @return: whether it does: not if somebody else has made this version.
        @raise TableError: if it cannot be written.
        """
        manifest.check()
        draft = self._versions / f".{secrets.token_hex(8)}.tmp"
        try:
            with open(draft, "xb") as file:
                file.write(manifest.dumped())
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, self.pathOf(manifest.version))
            except FileExistsError:
                return False
            finally:
                os.unlink(draft)
            syncDirectory(self._versions)
        except OSError as error:
            raise _failed(self.root, error) from None
        return True

    def newPath(self, start: int, stop: int) -> str:
        """
        A path for a data file that nobody else uses.
        """
        return f"data/{start:020}-{stop:020}-{uuid.uuid4().hex}.parquet"


def syncDirectory(path: Path) -> None:
    """
    Make sure that the names in a directory survive.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(path: Path, error: OSError) -> TableError:
    return TableError(f"{path}: {error.strerror or error}")
