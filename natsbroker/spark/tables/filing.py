"""
The data files of a table: written whole, and then added to its manifest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from natsbroker.files import syncDirectory
from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.logs.columns import schemaOf
from natsbroker.spark.tables.manifests import File, Manifest, TableError, newPath
from natsbroker.spark.tables.table import ArchiveTable

__all__ = [
    "COLUMNS",
    "SCHEMA",
    "FileWriter",
    "added",
    "readFiles",
    "timeOf",
    "writeDays",
    "writeFile",
]


#: What files have, in the columns of the data source.
COLUMNS = ("seq", "subject", "data", "time", "headers", "time_ns")

SCHEMA = schemaOf(COLUMNS)

#: How many rows of files that share a range a batch has.
_ROWS = 131_072


def readFiles(root: Path, files: Sequence[File]) -> Iterator[Any]:
    """
    The messages of files that share a range, as batches with L{COLUMNS}. One file of ours is in
    order, and is read piece by piece; others are read whole.
    """
    paths = [root / each.path for each in files if each.path]
    try:
        if len(paths) == 1 and files[0].sha256:
            for batch in pq.ParquetFile(paths[0]).iter_batches(columns=list(COLUMNS)):
                yield from pa.Table.from_batches([batch]).select(COLUMNS).cast(SCHEMA).to_batches()
        elif paths:
            read = [pq.ParquetFile(each).read(columns=list(COLUMNS)) for each in paths]
            whole = pa.concat_tables([each.select(COLUMNS).cast(SCHEMA) for each in read])
            yield from whole.sort_by("seq").to_batches(_ROWS)
    except OSError as error:
        raise TableError(f"{root}: {error.strerror or error}") from None
    except (pa.ArrowException, KeyError) as error:
        raise TableError(f"{paths[0]}: {error}") from None


#: How many rows make a row group.
_GROUP = 131_072
_GROUP_BYTES = 64 << 20

#: The column that says when a row's message was stored, if a file does not say.
_TIME = b"time_ns"


class FileWriter:
    """
    Writes the rows of a range into one file.
    """

    def __init__(
        self, root: Path, start: int, stop: int, time: str = "time_ns", day: str = ""
    ) -> None:
        """
        @param root: the directory of the table.
        @param start: the first sequence that it accounts for.
        @param stop: the first one behind that it does not.
        @param time: the column that says when a row's message was stored: nanoseconds since 1970,
            or a timestamp in microseconds.
        @param day: of all the messages, if they go into its directory.
        """
        self._start = start
        self._stop = stop
        self._time = time
        self._root = root
        self._day = day
        self._name = newPath(start, stop, day)
        self._path = root / self._name
        self._writer: Any = None
        self._kept: list[Any] = []
        self._waiting = self._size = 0
        self._rows = self._first = self._last = 0

    def add(self, batch: Any) -> None:
        """
        Take rows, which come behind those before.

        @param batch: an Arrow batch; all have the same columns.
        """
        if not batch.num_rows:
            return
        self._kept.append(batch)
        self._waiting += batch.num_rows
        self._size += batch.get_total_buffer_size() if self._waiting < _GROUP else 0
        if self._waiting >= _GROUP or self._size >= _GROUP_BYTES:
            self._write()

    def finish(self, stop: int | None = None) -> File:
        """
        Have it on disk.

        @param stop: the first sequence behind that it does not account for, if only now is known
            which.
        @return: the manifest's entry for it; without a path if there were no rows.
        """
        if self._kept:
            self._write()
        if stop is not None:
            self._stop = stop
        if self._writer is None:
            return File("", self._start, self._stop)
        said = {"nb.start": str(self._start), "nb.stop": str(self._stop)}
        try:
            self._writer.add_key_value_metadata(said)
            self._writer.close()
            size, digest = _settled(self._path)
            self._name = newPath(self._start, self._stop, self._day, digest)
            self._path = self._path.rename(self._root / self._name)
            syncDirectory(self._path.parent)
        except OSError as error:
            raise self._failed(error) from None
        span = self._start, self._stop
        return File(self._name, *span, self._rows, size, digest, self._first, self._last)

    def abandon(self) -> None:
        if self._writer is not None:
            _close(self._writer)
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        group = pa.Table.from_batches(self._kept)
        self._kept, self._waiting, self._size = [], 0, 0
        try:
            if self._writer is None:
                if self._day:
                    self._path.parent.mkdir(exist_ok=True)
                    syncDirectory(self._path.parent.parent)
                schema = group.schema.with_metadata({"nb.time": self._time})
                self._writer = pq.ParquetWriter(self._path, schema, compression="zstd")
                self._first = self._moment(group, 0)
            self._writer.write_table(group.cast(self._writer.schema), row_group_size=_GROUP)
        except OSError as error:
            raise self._failed(error) from None
        self._rows += group.num_rows
        self._last = self._moment(group, group.num_rows - 1)

    def _moment(self, group: Any, row: int) -> int:
        column = group.column(self._time)
        scale = 1000 if pa.types.is_timestamp(column.type) else 1
        return int(column[row].value if scale == 1000 else column[row].as_py()) * scale

    def _failed(self, error: OSError) -> DataSourceError:
        if isinstance(error, DataSourceError):
            return error
        return TableError(f"{self._path}: {error.strerror or error}")


def timeOf(root: Path, files: Iterable[File]) -> str:
    """
    The column that says when a row's message was stored, as the files of a table say.
    """
    for each in files:
        if each.path:
            try:
                found = (pq.read_schema(root / each.path).metadata or {}).get(b"nb.time", _TIME)
            except (OSError, pa.ArrowException) as error:
                raise TableError(f"{root / each.path}: {error}") from None
            return str(found, "utf-8")
    return str(_TIME, "utf-8")


def writeFile(
    root: Path,
    batches: Iterable[Any],
    start: int,
    stop: int,
    time: str = "time_ns",
    day: str = "",
) -> File:
    """
    Write the messages of a range.

    @param root: the directory of the table.
    """
    writer = FileWriter(root, start, stop, time, day)
    try:
        for batch in batches:
            writer.add(batch)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def writeDays(root: Path, batches: Iterable[Any], start: int, stop: int) -> list[File]:
    """
    Write the messages of a range, into another file whenever the day is another one, in UTC.

    @param batches: Arrow batches with the columns C{seq} and C{time}.
    @return: files that follow each other.
    """
    files: list[File] = []
    day = ""
    writer = FileWriter(root, start, stop)
    try:
        for batch in batches:
            for current, part in _days(batch):
                if current != day:
                    following = part.column("seq")[0].as_py() if day else start
                    if day:
                        files.append(writer.finish(following))
                    writer = FileWriter(root, following, stop, day=current)
                    day = current
                writer.add(part)
        return [*files, writer.finish()]
    except BaseException:
        writer.abandon()
        for each in files:
            (root / each.path).unlink(missing_ok=True)
        raise


def _days(batch: Any) -> Iterator[tuple[str, Any]]:
    if not batch.num_rows:
        return
    days = pc.run_end_encode(batch.column("time").cast(pa.date32()))
    place = 0
    for day, end in zip(days.values.to_pylist(), days.run_ends.to_pylist(), strict=True):
        yield day.isoformat(), batch.slice(place, end - place)
        place = end


def added(table: ArchiveTable, manifest: Manifest, files: Sequence[File]) -> bool:
    """
    Make a version hold that names new files; they go if somebody else was faster.

    @return: whether it holds.
    """
    for each in files:
        if each.path and not (table.root / each.path).exists():
            raise TableError(f"{each.path} was deleted before it was named: by what vacuums?")
    if table.commit(manifest):
        return True
    for each in files:
        if each.path:
            (table.root / each.path).unlink(missing_ok=True)
    return False


def _close(writer: Any) -> None:
    """
    Let go of a file that is given up; that it cannot be finished is no news.
    """
    try:
        writer.close()
    except (OSError, pa.ArrowException):
        return


def _settled(path: Path) -> tuple[int, str]:
    """
    Have a file on disk; its size and SHA-256.
    """
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        digest = hashlib.sha256()
        size = 0
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()
