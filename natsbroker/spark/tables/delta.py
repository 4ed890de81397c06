"""
Tables of Delta Lake.

The log that a table follows is in its configuration. Its end and its losses are application
transactions. These are numbers of a commit, which checkpoints keep. Delta does not let two writers
that began with the same version set the same number.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, Transaction

from natsbroker.files import syncDirectory
from natsbroker.spark.codecs.datatypes import merged, nullable
from natsbroker.spark.tables.locations import Location, ObjectPath, filesBelow, parquetFile, sizeOf
from natsbroker.spark.tables.parquet import CHECKSUM, STORED, FileWriter
from natsbroker.spark.tables.snapshots import File, Log, TableError, TableSnapshot, ordered, storing
from natsbroker.spark.tables.table import ArchiveTable, Vacuumed

#: For how long entries of the table's log stay behind a checkpoint, and for how long a checkpoint
#: names files that were removed. Each time that a table is opened, all of them are read. To delete
#: files, L{DeltaLakeTable.vacuum} lists the directory and needs neither.
_RETENTION = "interval 1 days"

#: Reading needs no more than files if a table has no other features.
_FEATURES = {"timestampNtz"}


class DeltaLakeTable(ArchiveTable):
    form = "delta"
    errors = (DeltaError, OSError, ValueError)
    conflicts = (CommitFailedError,)

    def columns(self) -> Any:
        table = self._open()
        return None if table is None else pa.schema(table.schema().to_arrow())

    def widen(self, wanted: Any) -> Any:
        """Add columns; L{natsbroker.spark.codecs.datatypes.Clash} for another type."""
        wanted = pa.schema([pa.field(field.name, nullable(field.type)) for field in wanted])
        while True:
            table = self._open()
            known = pa.schema(table.schema().to_arrow())
            both = pa.schema(merged(list(known), list(wanted)))
            if both == known:
                return known
            # If two writers add columns at the same moment, one tries again.
            fields = deltalake.Schema.from_arrow(wanted).fields
            self._committed(partial(table.alter.add_columns, fields))

    def _create(self, first: TableSnapshot, columns: Any) -> None:
        settings = {
            "natsbroker.table": first.table,
            "natsbroker.log": json.dumps(asdict(first.log)),
            "natsbroker.start": str(first.start),
            "delta.logRetentionDuration": _RETENTION,
            "delta.deletedFileRetentionDuration": _RETENTION,
        }
        day = [pa.field("date", pa.date32())] if first.partition else []
        deltalake.DeltaTable.create(
            str(self.root),
            pa.schema([*columns, *day]),
            partition_by=[field.name for field in day],
            configuration=settings,
            commit_properties=deltalake.CommitProperties(max_commit_retries=0),
            raise_if_key_not_exists=False,
        )
        self._sync(0)

    def _commit(self, table: Any, after: TableSnapshot, old: Sequence[File], token: str) -> None:
        base = self._read(table, False)
        now = int(time.time() * 1000)
        # Compacting does not change the messages that a reader finds.
        isNew = not (old and after.files)
        removed = [RemoveAction(x.path, isNew, now, x.bytes, _partition(x)) for x in old]
        # The library compacts the newest files first, in this order, so that consecutive files stay
        # together.
        new = [added(self.root, file, isNew) for file in reversed(after.files)]
        # Of two commits that remove files at the same moment one fails, whichever files they are.
        marks = [Transaction("nb/compact", now, now)] if old else []
        said = {"natsbroker.commit": token, "natsbroker.stop": str(after.stop)}
        table.create_write_transaction(
            [*removed, *new],
            "append",
            pa.schema(table.schema().to_arrow()),
            partition_by=["date"] if base.partition else [],
            commit_properties=deltalake.CommitProperties(
                custom_metadata=said, app_transactions=marks + _transactions(base, after)
            ),
        )
        self._sync(base.version + 1)

    def _tokens(self, table: Any, version: int) -> list[str | None]:
        history = table.history(table.version() - version)
        return [entry.get("natsbroker.commit") for entry in history]

    def compact(self, target: int) -> int:
        """
        Compact the table. The library compacts tables of decoded messages. With it, two
        simultaneous compactions both commit and double each row, so archives are compacted in
        another way.
        """
        table = self._open()
        names = {field.name for field in table.schema().fields} - {"date"}
        if names == set(STORED.names):
            return super().compact(target)
        with self._failing(), suppress(CommitFailedError):
            done = table.optimize.compact(
                target_size=target, writer_properties=deltalake.WriterProperties(compression="ZSTD")
            )
            return int(done["numFilesRemoved"])
        return 0  # Another process has compacted them.

    def vacuum(self, age: float, isDryRun: bool) -> Vacuumed:
        """
        Let the library delete files, and log entries that expired by the table's own settings.

        @param age: rounded up to hours, which is how Delta counts.
        """
        self.require()
        table = self._open()
        hours = int(-(-age // 3600))
        vacuum = partial(table.vacuum, hours, enforce_retention_duration=False, full=True)
        with self._failing():
            files = [self.root / path for path in vacuum(True)]
            size = sum(sizeOf(file) for file in files)
            before = self._entries()
            if not isDryRun:
                vacuum(False)
                table = self._open()
                table.create_checkpoint()
                table.cleanup_metadata()
            return Vacuumed(len(files), max(before - self._entries(), 0), size)

    def _open(self) -> Any:
        with self._failing(), suppress(TableNotFoundError):
            return deltalake.DeltaTable(str(self.root))
        return None

    def _read(self, table: Any, hasFiles: bool) -> TableSnapshot:
        with self._failing(KeyError, TypeError):
            protocol = table.protocol()
            others = set(protocol.reader_features or ["features"]) - _FEATURES
            if protocol.min_reader_version > 1 and others:
                raise TableError(
                    f"{self.root}: another program has made it a table of reader version"
                    f" {protocol.min_reader_version}: its files are not all there is to it"
                )
            settings = table.metadata().configuration
            if "natsbroker.log" not in settings:
                raise TableError(f"{self.root}: is a Delta table, but not an archive")
            log = Log(**json.loads(settings["natsbroker.log"]))
            name, number = f"nb/{log.name}", table.transaction_version
            start = number(f"{name}/start") or int(settings["natsbroker.start"])
            stop = number(name) or start
            places = [f"{name}/lost/{place}" for place in range(number(f"{name}/lost") or 0)]
            return TableSnapshot(
                table.version(),
                settings["natsbroker.table"],
                log,
                start,
                stop,
                _files(table, start, stop) if hasFiles else (),
                tuple((int(number(f"{x}/start")), int(number(f"{x}/stop"))) for x in places),
                "date" if "date" in table.metadata().partition_columns else "",
            )

    def _sync(self, version: int) -> None:
        """
        Sync the newest entry of the log to disk, which the library does not.

        @param version: the first that it can be. A listing would take longer the more there are.
        """
        if isinstance(self.root, ObjectPath):
            return
        entries = self.root / "_delta_log"
        while (entries / f"{version + 1:020}.json").exists():
            version += 1
        newest = entries / f"{version:020}.json"
        with storing(newest), open(newest, "rb") as file:
            os.fsync(file.fileno())
            syncDirectory(newest.parent)

    def _entries(self) -> int:
        return sum(path.endswith(".json") for path, _, _ in filesBelow(self.root, "_delta_log"))


def _numbers(snapshot: TableSnapshot) -> dict[str, int]:
    name, lost = f"nb/{snapshot.log.name}", snapshot.lost
    numbers = {name: snapshot.stop, f"{name}/start": snapshot.start, f"{name}/lost": len(lost)}
    for place, (start, stop) in enumerate(lost):
        numbers |= {f"{name}/lost/{place}/start": start, f"{name}/lost/{place}/stop": stop}
    return numbers


def _transactions(base: TableSnapshot, after: TableSnapshot) -> list[Transaction]:
    """
    The numbers that a commit changes. Each commit sets the number of lost ranges. If two commits
    set the same number at the same moment, one fails.
    """
    before, values = _numbers(base), _numbers(after)
    now = int(time.time() * 1000)
    isSet = {f"nb/{base.log.name}/lost": after.lost != base.lost}
    return [
        Transaction(x, value, now)
        for x, value in values.items()
        if before.get(x) != value or isSet.get(x)
    ]


def _partition(file: File) -> dict[str, str | None]:
    return {"date": file.day} if file.day else {}


def added(root: Location, file: File, isNew: bool = True) -> AddAction:
    """
    The entry of an added file. C{isNew} tells whether its messages were not in the table before.
    """
    statistics = json.dumps(_statistics(root / file.path))
    now = int(time.time() * 1000)
    return AddAction(file.path, file.bytes, _partition(file), now, isNew, statistics)


def _statistics(path: Location) -> dict[str, Any]:
    metadata = parquetFile(path).metadata
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    statistics: dict[str, Any] = {"numRecords": metadata.num_rows}
    statistics.update(minValues={}, maxValues={}, nullCount={})
    for place in range(metadata.num_columns):
        name = groups[0].column(place).path_in_schema
        ends = [group.column(place).statistics for group in groups]
        if "." in name or not all(end is not None and end.has_min_max for end in ends):
            continue
        least, most = min(end.min for end in ends), max(end.max for end in ends)
        if isinstance(least, datetime) and least.tzinfo is not None:
            least, most = (f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}" for moment in (least, most))
        elif type(least) is not int:
            continue
        statistics["minValues"][name], statistics["maxValues"][name] = least, most
        statistics["nullCount"][name] = sum(end.null_count for end in ends)
    return statistics


def _files(table: Any, start: int, stop: int) -> tuple[File, ...]:
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    if CHECKSUM not in [field.name for field in table.schema().fields]:
        # Their names begin with the sequences of their ranges.
        rows.sort(key=lambda row: str(row["path"]))
        return tuple(File(x["path"], 0, 0, x["num_records"], x["size_bytes"]) for x in rows)
    for entry in rows:
        if entry.get("min.seq") is None or entry.get("max.seq") is None:
            raise TableError(f"{entry['path']}: has no statistics that say which sequences it has")
    files = (
        File(x["path"], x["min.seq"], x["max.seq"], x["num_records"], x["size_bytes"]) for x in rows
    )
    return ordered(files, start, stop)


#: The columns that dead letters have beside those of their rows.
REASONS = (pa.field("code", pa.int32()), pa.field("error", pa.string()))

#: The dead letters that are collected before they are written.
_ROWS = 1024


class DeadLetterTable(DeltaLakeTable):
    """
    The table of rows that a stream did not take, with the written columns, the number of the error
    and its text.

    Tasks write data files, which nobody sees. The driver adds them in one commit that also names
    the write, so that a repeated micro-batch adds them once. Other files stay until a vacuum,
    because a commit that ended with an error may name them.
    """

    def __init__(self, root: Location, columns: Any, task: int = 0) -> None:
        super().__init__(root)
        written = (pa.field(column.name, nullable(column.type)) for column in columns)
        self.schema = pa.schema([*written, *REASONS])
        existing = self.columns()
        if existing is not None and not existing.equals(self.schema):
            raise TableError(f"{root}: it is not a table of these dead letters: its columns differ")
        self._writer = FileWriter(root, task, seq="")
        self._kept: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any], code: int, error: str) -> None:
        self._kept.append({**row, "code": code, "error": error})
        if len(self._kept) >= _ROWS:
            self._write()

    def finish(self) -> tuple[File, ...]:
        if self._kept:
            self._write()
        return tuple(self._writer.finish())

    def abandon(self) -> None:
        self._writer.abandon()

    def _write(self) -> None:
        self.make()
        self._writer.add(pa.RecordBatch.from_pylist(self._kept, self.schema))
        self._kept = []

    def record(self, files: Sequence[File], write: str, number: int) -> bool:
        """
        @param write: the write, or streaming query, that wrote the files.
        @param number: of the micro-batch.
        @return: C{False} if those of this micro-batch, or of a later one, are recorded already.
        """
        with self._failing():
            table = deltalake.DeltaTable.create(str(self.root), self.schema, mode="ignore")
            known = table.transaction_version(write)
            if known is not None and known >= number:
                return False
            mark = Transaction(write, number, int(time.time() * 1000))
            table.create_write_transaction(
                [added(self.root, file) for file in files],
                "append",
                self.schema,
                commit_properties=deltalake.CommitProperties(app_transactions=[mark]),
            )
        self._sync(table.version())
        return True
