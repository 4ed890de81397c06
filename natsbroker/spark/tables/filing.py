"""
The data files of a table: written whole, and then added to its log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from natsbroker.files import syncDirectory
from natsbroker.spark.tables.checking import intact, withChecksums
from natsbroker.spark.tables.locations import Location, opened, sizeOf
from natsbroker.spark.tables.snapshots import File, newPath, storing

#: How many rows, or bytes, make a row group.
_GROUP, _GROUP_BYTES = 131_072, 64 << 20


class FileWriter:
    """
    A new Parquet file, which is stored, with its name, once it was finished.
    """

    def __init__(self, root: Location, start: int, day: str = "", seq: str = "seq") -> None:
        """
        @param day: of all the messages, if they go into its directory.
        @param seq: the column of sequences; empty if there is none.
        """
        self._seq = seq
        self._name = newPath(start, day)
        self._path = root / self._name
        self._writer: Any = None
        self._kept: list[Any] = []
        self._waiting = self._size = 0
        self._rows = self._first = self._last = 0

    def add(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        self._kept.append(batch)
        self._waiting += batch.num_rows
        self._size += batch.get_total_buffer_size() if self._waiting < _GROUP else 0
        if self._waiting >= _GROUP or self._size >= _GROUP_BYTES:
            self._write()

    def finish(self) -> list[File]:
        if self._kept:
            self._write()
        if self._writer is None:
            return []
        with storing(self._path):
            self._writer.close()
            if isinstance(self._path, Path):
                with open(self._path, "rb") as file:
                    os.fsync(file.fileno())
                syncDirectory(self._path.parent)
        return [File(self._name, self._first, self._last, self._rows, sizeOf(self._path))]

    def abandon(self) -> None:
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):  # It need not be finished.
                self._writer.close()
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        group = pa.Table.from_batches(self._kept)
        self._kept, self._waiting, self._size = [], 0, 0
        seqs = group.column(self._seq) if self._seq else [pa.scalar(0)]
        with storing(self._path):
            if self._writer is None:
                self._first = seqs[0].as_py()
                self._writer = self._opened(group.schema)
            self._writer.write_table(group.cast(self._writer.schema), row_group_size=_GROUP)
        self._rows += group.num_rows
        self._last = seqs[-1].as_py()

    def _opened(self, schema: Any) -> pq.ParquetWriter:
        path = self._path
        if isinstance(path, Path) and not path.parent.exists():
            path.parent.mkdir(exist_ok=True)
            syncDirectory(path.parent.parent)
        filesystem, name = opened(path)
        return pq.ParquetWriter(
            name, schema, filesystem=filesystem, compression="zstd", write_page_checksum=True
        )


def writeFiles(
    root: Location, batches: Iterable[Any], start: int, isByDay: bool = False
) -> list[File]:
    """
    @param isByDay: whether another file begins where another day does, in UTC.
    """
    files: list[File] = []
    day = ""
    writer = FileWriter(root, start)
    try:
        for batch in batches:
            rows = withChecksums(batch)
            for current, part in _days(rows) if isByDay else (("", rows),):
                if current != day:
                    files += writer.finish()
                    writer = FileWriter(root, part.column("seq")[0].as_py(), current)
                    day = current
                writer.add(part)
        return files + writer.finish()
    except BaseException:
        writer.abandon()
        discard(root, files)
        raise


def joinFiles(root: Location, files: Sequence[File], day: str = "") -> File:
    writer = FileWriter(root, files[0].first, day)
    try:
        for rows in intact(root, files):
            for batch in rows.to_batches():
                writer.add(batch)
        [made] = writer.finish()
        return made
    except BaseException:
        writer.abandon()
        raise


def discard(root: Location, files: Iterable[File]) -> None:
    for each in files:
        (root / each.path).unlink(missing_ok=True)


def _days(batch: Any) -> Iterator[tuple[str, Any]]:
    if not batch.num_rows:
        return
    days = pc.run_end_encode(batch.column("time").cast(pa.date32()))
    place = 0
    for day, end in zip(days.values.to_pylist(), days.run_ends.to_pylist(), strict=True):
        yield day.isoformat(), batch.slice(place, end - place)
        place = end
