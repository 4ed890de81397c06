"""
Archives that are Delta tables.

The table's own log is the manifest. Delta lists the files; their ranges and SHA-256
are in their names. What the archive is of is in the table's configuration, and where it stops and
what it lost are application transactions: numbers that a commit carries, that checkpoints keep, and
of which Delta lets no two writers that began with the same version set the same one.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, PostCommitHookProperties, RemoveAction, Transaction

from natsbroker.files import syncDirectory
from natsbroker.spark.tables.filing import SCHEMA
from natsbroker.spark.tables.manifests import File, Log, Manifest, TableError, dayOf, fileOf, tiled
from natsbroker.spark.tables.table import ArchiveTable, Vacuumed, deleted, failed

__all__ = ["DeltaLakeTable"]

#: How many versions apart checkpoints are, which spare readers the log before them.
_CHECKPOINT = 50

#: The columns with statistics.
_MEASURED = ("seq", "time", "time_ns")

#: What comes after a commit is done by ourselves, so that an error is one of the commit.
_ALONE = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

#: What this library raises, from its own errors to those of the disk.
_ERRORS = (DeltaError, OSError, ValueError)


class DeltaLakeTable(ArchiveTable):
    """
    An archive whose manifest is the log of a Delta table.
    """

    form = "delta"

    def latest(self) -> Manifest | None:
        table = self._open()
        return None if table is None else self._read(table)

    def commit(self, manifest: Manifest) -> bool:
        manifest.check()
        table = self._open()
        if table is None:
            return self._create(manifest)
        base = self._read(table)
        if base.version != manifest.version - 1:
            return False
        known = base.paths
        gone = known - manifest.paths
        token = uuid.uuid4().hex
        properties = deltalake.CommitProperties(
            custom_metadata={"natsbroker.commit": token, "natsbroker.stop": str(manifest.stop)},
            max_commit_retries=0,
            app_transactions=_transactions(base, manifest),
        )
        try:
            table.create_write_transaction(
                [*self._added(manifest, known, not gone), *_removed(base, gone)],
                "append",
                _schema(manifest),
                partition_by=_columns(manifest),
                commit_properties=properties,
                post_commithook_properties=_ALONE,
            )
        except _ERRORS as error:
            return self._settled(base, token, error)
        self._keep()
        return True

    def vacuum(self, age: float, now: Callable[[], float], isDryRun: bool) -> Vacuumed:
        """
        Delete the files below C{data/} that Delta's own vacuum names, and log entries that have
        expired by the table's own settings.

        @param age: rounded up to hours, which is how Delta counts.
        """
        self.require()
        table = deltalake.DeltaTable(str(self.root))
        hours = int(-(-age // 3600))
        try:
            names = table.vacuum(hours, True, enforce_retention_duration=False, full=True)
            files = [self.root / each for each in names if each.startswith("data/")]
            before = len(self._entries())
            done = deleted([x for x in files if x.exists()], now(), isDryRun)
            if not isDryRun:
                table.create_checkpoint()
                table.cleanup_metadata()
            return replace(done, versions=before - len(self._entries()))
        except _ERRORS as error:
            raise self._failed(error) from None

    def _open(self) -> Any:
        try:
            return deltalake.DeltaTable(str(self.root))
        except TableNotFoundError:
            return None
        except _ERRORS as error:
            raise self._failed(error) from None

    def _read(self, table: Any) -> Manifest:
        try:
            protocol = table.protocol()
            if protocol.min_reader_version > 1:
                raise TableError(
                    f"{self.root}: another program has made it a table of reader version"
                    f" {protocol.min_reader_version}: its files are not all there is to it"
                )
            settings = table.metadata().configuration
            if "natsbroker.log" not in settings:
                raise TableError(f"{self.root}: is a Delta table, and no archive")
            log = Log(**json.loads(settings["natsbroker.log"]))
            start = int(settings["natsbroker.start"])
            names = _Names(log)
            stop = table.transaction_version(names.stop) or start
            count = table.transaction_version(names.lost) or 0
            lost = [
                tuple(table.transaction_version(each) for each in names.ends(place))
                for place in range(count)
            ]
            rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
            manifest = Manifest(
                table.version(),
                settings["natsbroker.table"],
                log,
                start,
                tiled(map(_file, rows), start, stop),
                tuple((int(a), int(b)) for a, b in lost),
                table.history(1)[0].get("timestamp", 0) / 1000,
                "date" if "date" in table.metadata().partition_columns else "",
            )
        except (*_ERRORS, KeyError, TypeError) as error:
            raise self._failed(error) from None
        manifest.check()
        return manifest

    def _create(self, manifest: Manifest) -> bool:
        if manifest.files:
            raise TableError(f"{self.root}: there is no archive")
        settings = {
            "natsbroker.table": manifest.table,
            "natsbroker.log": json.dumps(asdict(manifest.log)),
            "natsbroker.start": str(manifest.start),
        }
        try:
            deltalake.DeltaTable.create(
                str(self.root),
                _schema(manifest),
                partition_by=_columns(manifest),
                configuration=settings,
                commit_properties=deltalake.CommitProperties(max_commit_retries=0),
                raise_if_key_not_exists=False,
            )
        except _ERRORS as error:
            found = self.latest()
            if found is None:
                raise self._failed(error) from None
            return found.table == manifest.table
        self._keep()
        return True

    def _settled(self, base: Manifest, token: str, error: Exception) -> bool:
        table = self._open()
        if table is not None and table.version() != base.version:
            since = table.history(table.version() - base.version)
            return any(each.get("natsbroker.commit") == token for each in since)
        raise self._failed(error) from None

    def _added(self, manifest: Manifest, known: set[str], isChange: bool) -> Iterable[AddAction]:
        for each in manifest.files:
            if each.path and each.path not in known:
                path = self.root / each.path
                written = int(path.stat().st_mtime * 1000)
                stats = json.dumps(_statistics(path), default=_timeText)
                yield AddAction(each.path, each.bytes, _values(each.path), written, isChange, stats)

    def _keep(self) -> None:
        """
        Have the newest entry of the log on disk, which the library leaves to the system, and write
        a checkpoint now and then. If that fails the next one does it: nothing needs it.
        """
        try:
            newest = max(self._entries())
            with open(newest, "rb") as file:
                os.fsync(file.fileno())
            syncDirectory(newest.parent)
        except OSError as error:
            raise failed(newest, error) from None
        if int(newest.stem) % _CHECKPOINT == 0:
            try:
                deltalake.DeltaTable(str(self.root)).create_checkpoint()
            except _ERRORS:
                return

    def _entries(self) -> list[Path]:
        return list((self.root / "_delta_log").glob("*.json"))

    def _failed(self, error: Exception) -> TableError:
        if isinstance(error, TableError):
            return error
        return TableError(f"{self.root}: {' '.join(str(error).split()) or type(error).__name__}")


class _Names:
    """
    What the application transactions of an archive are called.

    @ivar stop: where it stops.
    @ivar lost: how many lost ranges there are.
    """

    def __init__(self, log: Log) -> None:
        self.stop = f"nb/{log.name}"
        self.lost = f"nb/{log.name}/lost"

    def ends(self, place: int) -> tuple[str, str]:
        """
        Where the lost range at a place starts and stops.
        """
        return f"{self.lost}/{place}/start", f"{self.lost}/{place}/stop"


def _transactions(base: Manifest, manifest: Manifest) -> list[Transaction]:
    """
    Where the archive stops, always, and what it lost, where that is new.
    """
    names = _Names(manifest.log)
    now = int(time.time() * 1000)
    found = [Transaction(names.stop, manifest.stop, now)]
    if manifest.lost != base.lost:
        found.append(Transaction(names.lost, len(manifest.lost), now))
        for place, ends in enumerate(manifest.lost):
            if base.lost[place : place + 1] != (ends,):
                pairs = zip(names.ends(place), ends, strict=True)
                found += [Transaction(name, number, now) for name, number in pairs]
    return found


def _removed(base: Manifest, gone: set[str]) -> Iterable[RemoveAction]:
    now = int(time.time() * 1000)
    for each in base.files:
        if each.path in gone:
            yield RemoveAction(each.path, False, now, each.bytes, _values(each.path))


def _schema(manifest: Manifest) -> Any:
    return SCHEMA.append(pa.field("date", pa.date32())) if manifest.partition else SCHEMA


def _columns(manifest: Manifest) -> list[str]:
    return [manifest.partition] if manifest.partition else []


def _values(path: str) -> dict[str, str | None]:
    """
    What the directory of a file says that the file does not.
    """
    day = dayOf(path)
    return {"date": day} if day else {}


def _statistics(path: Path) -> dict[str, Any]:
    """
    Delta's statistics of a file, from the file's own.
    """
    metadata = pq.read_metadata(path)
    found: dict[str, Any] = {"numRecords": metadata.num_rows, "minValues": {}, "maxValues": {}}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            name, ends = column.path_in_schema, column.statistics
            if name in _MEASURED:
                least = found["minValues"].get(name, ends.min)
                found["minValues"][name] = min(least, ends.min)
                found["maxValues"][name] = max(found["maxValues"].get(name, ends.max), ends.max)
    return {**found, "nullCount": dict.fromkeys(_MEASURED, 0)}


def _timeText(value: Any) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"


def _file(row: dict[str, Any]) -> File:
    seqs = row.get("min.seq"), row.get("max.seq")
    times = row.get("min.time_ns"), row.get("max.time_ns")
    return fileOf(row["path"], row["num_records"], row["size_bytes"], seqs, times)
