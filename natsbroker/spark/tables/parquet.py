"""
The data files of a table: written whole, and then added to its log. Each row has a checksum, which
is checked when it is read. It stays valid if another program rewrites the files.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from natsbroker.files import syncDirectory
from natsbroker.spark.logs.columns import schemaOf
from natsbroker.spark.tables.locations import Location, opened, parquetFile, sizeOf
from natsbroker.spark.tables.snapshots import File, TableError, newPath, storing

#: The columns of the data source that archives have.
COLUMNS = ("seq", "subject", "data", "time", "headers", "time_ns")

SCHEMA = schemaOf(COLUMNS)

CHECKSUM = "crc32"

#: The columns of the files of archives.
STORED = SCHEMA.append(pa.field(CHECKSUM, pa.int64()))

#: The rows of a batch, and the most findings that an error names.
_ROWS, _NAMED = 131_072, 5

#: The rows, or bytes, that make a row group.
_GROUP, _GROUP_BYTES = 131_072, 64 << 20


@dataclass(frozen=True)
class Difference:
    """
    @ivar kind: C{file}, C{damaged}, C{doubled}, C{missing} or C{differs}.
    """

    kind: str
    first: int
    last: int
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: sequences {self.first} to {self.last}: {self.detail}"


class ArchiveDamaged(TableError):
    def __init__(self, root: Location, findings: Sequence[Difference]) -> None:
        text = "; ".join(str(finding) for finding in findings[:_NAMED])
        more = f" and {len(findings) - _NAMED} more" if len(findings) > _NAMED else ""
        super().__init__(f"{root} is damaged: {text}{more}")
        self.findings = tuple(findings)


def withChecksums(rows: Any) -> Any:
    rows = rows.select(COLUMNS).cast(SCHEMA)
    return rows.append_column(STORED.field(CHECKSUM), checksums(rows))


def checksums(rows: Any) -> Any:
    """
    The CRC-32 of each row: of a line C{SEQ TIME TIME_NS SUBJECT} with the time in microseconds, the
    headers as C{KEY:VALUE} with a newline between two of them and one behind, and the data. Arrow
    takes 0.7 microseconds a row for these texts, Python 5.
    """
    if isinstance(rows, pa.Table):
        sums = [checksums(batch) for batch in rows.to_batches()]
        return pa.chunked_array(sums, pa.int64())
    integers = [rows["seq"], rows["time"].cast(pa.int64()), rows["time_ns"]]
    texts = [*(integer.cast(pa.string()) for integer in integers), rows["subject"]]
    firsts = pc.binary_join_element_wise(*texts, " ", null_handling="replace")
    headers = rows["headers"]
    lengths = pc.fill_null(pc.list_value_length(headers), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    keys, values = headers.flatten().flatten()
    pairs = pc.binary_join_element_wise(keys, values, ":", null_handling="replace")
    lines = pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), "\n")
    heads = pc.binary_join_element_wise(firsts, lines, "", "\n").cast(pa.binary())
    parts = zip(heads.to_pylist(), rows["data"].to_pylist(), strict=True)
    crc32 = zlib.crc32
    return pa.array([crc32(data or b"", crc32(head)) for head, data in parts], pa.int64())


#: The first and the last sequence of a row group, the path of its file, and what reads it.
_RowGroup = tuple[int, int, str, Callable[[], Any]]


def examined(root: Location, files: Sequence[File]) -> Iterator[tuple[Any, list[Difference]]]:
    """
    Examine tables in the order of sequences, with the columns L{STORED}. Give each with the errors
    of its rows. An empty table stands for a file, or a part of one, that cannot be read.
    """
    groups: list[_RowGroup] = []
    for listed in files:
        try:
            file = parquetFile(root / listed.path)
            groups += _rowGroups(file, listed)
        except (OSError, pa.ArrowException, ValueError) as error:
            text = getattr(error, "strerror", None) or error
            yield STORED.empty_table(), [_of(listed, str(text))]
            continue
        if file.metadata.num_rows != listed.rows:
            text = f"has {file.metadata.num_rows} rows and not {listed.rows}"
            yield STORED.empty_table(), [_of(listed, text)]
    waiting = STORED.empty_table()
    for first, last, path, read in sorted(groups, key=lambda group: group[0]):
        isBefore = pc.fill_null(pc.less(waiting["seq"], first), False)
        if pc.any(isBefore).as_py():
            yield _checked(waiting.filter(isBefore))
            waiting = waiting.filter(pc.invert(isBefore))
        try:
            table = read().select(STORED.names).cast(STORED)
            waiting = pa.concat_tables([waiting, table]) if waiting.num_rows else table
        except (OSError, pa.ArrowException, KeyError) as error:
            yield STORED.empty_table(), [Difference("file", first, last, f"{path}: {error}")]
    if waiting.num_rows:
        yield _checked(waiting)


def intact(root: Location, files: Sequence[File]) -> Iterator[Any]:
    """The rows of files that share a range, in order, or L{ArchiveDamaged} for changed ones."""
    for table, findings in examined(root, files):
        if findings:
            raise ArchiveDamaged(root, findings)
        yield table


def readFiles(root: Location, files: Sequence[File]) -> Iterator[Any]:
    for table in intact(root, files):
        yield from table.select(COLUMNS).to_batches(_ROWS)


def damageOf(root: Location, files: Sequence[File]) -> list[Difference]:
    return [finding for _, findings in examined(root, files) for finding in findings]


def _of(file: File, text: str) -> Difference:
    return Difference("file", file.first, file.last, f"{file.path}: {text}")


def _rowGroups(file: Any, named: File) -> Iterator[_RowGroup]:
    metadata = file.metadata
    column = metadata.schema.names.index("seq")
    for place in range(metadata.num_row_groups):
        ends = metadata.row_group(place).column(column).statistics
        isKnown = ends is not None and ends.has_min_max
        first, last = (ends.min, ends.max) if isKnown else (named.first, named.last)
        read = partial(file.read_row_group, place, columns=STORED.names)
        yield first, last, named.path, read


def _checked(table: Any) -> tuple[Any, list[Difference]]:
    table = table.combine_chunks()
    gaps = pc.pairwise_diff(table["seq"].combine_chunks())
    if (pc.min(gaps).as_py() or 1) < 0:
        table = table.sort_by("seq")
        gaps = pc.pairwise_diff(table["seq"].combine_chunks())
    seqs = pc.fill_null(table["seq"].combine_chunks(), 0)
    isRight = pc.fill_null(pc.equal(table[CHECKSUM], checksums(table)), False)
    findings = consecutive("damaged", seqs.filter(pc.invert(isRight)), "is not what was archived")
    twice = pc.unique(seqs.filter(pc.fill_null(pc.equal(gaps, 0), False)))
    return table, findings + consecutive("doubled", twice, "is in the archive more than once")


def consecutive(kind: str, seqs: Any, detail: str) -> list[Difference]:
    differences: list[Difference] = []
    for seq in seqs.to_pylist():
        if differences and differences[-1].last == seq - 1:
            differences[-1] = Difference(kind, differences[-1].first, seq, detail)
        else:
            differences.append(Difference(kind, seq, seq, detail))
    return differences


class FileWriter:
    """A new Parquet file; it is durable once it was finished."""

    def __init__(self, root: Location, start: int, day: str = "", seq: str = "seq") -> None:
        """All messages are of C{day}, if given; C{seq} is a column, or empty."""
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
            with suppress(OSError, pa.ArrowException):  # The file need not be complete.
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
    """C{isByDay} begins a new file with each day, in UTC."""
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
    for file in files:
        (root / file.path).unlink(missing_ok=True)


def _days(batch: Any) -> Iterator[tuple[str, Any]]:
    if not batch.num_rows:
        return
    days = pc.run_end_encode(batch.column("time").cast(pa.date32()))
    place = 0
    for day, end in zip(days.values.to_pylist(), days.run_ends.to_pylist(), strict=True):
        yield day.isoformat(), batch.slice(place, end - place)
        place = end
