"""
Archives that are Iceberg tables.

The table's own metadata is the manifest. What files it has is what the current snapshot says; their
ranges and SHA-256 are in their names. What the archive is of, where it stops and what it lost are
properties of the table, which are set in the commit that adds the files.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import (
    BinaryType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from sqlalchemy.exc import SQLAlchemyError

from natsbroker.spark.tables.icebergcatalog import IcebergLocation, nameOf, placeIn
from natsbroker.spark.tables.manifests import File, Log, Manifest, TableError, fileOf, tiled
from natsbroker.spark.tables.table import ArchiveTable, Vacuumed, deleted

__all__ = ["IcebergTable"]

_PAIR = StructType(NestedField(8, "key", StringType()), NestedField(9, "value", StringType()))

#: The columns of archives in Iceberg's words.
_SCHEMA = Schema(
    NestedField(1, "seq", LongType()),
    NestedField(2, "subject", StringType()),
    NestedField(3, "data", BinaryType()),
    NestedField(4, "time", TimestamptzType()),
    NestedField(5, "headers", ListType(7, _PAIR, element_required=False)),
    NestedField(6, "time_ns", LongType()),
)

#: How the table is to behave. A commit that lost a race must not be tried again behind our back:
#: it would be taken then, with files that are there already.
_BEHAVIOUR = {
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}

#: What this library raises, from its own errors to those of the catalog and the disk.
_ERRORS = (
    CommitFailedException,
    NoSuchTableError,
    RESTError,
    SQLAlchemyError,
    TableAlreadyExistsError,
    ValidationException,
    OSError,
    ValueError,
)


class IcebergTable(ArchiveTable):
    """
    An archive whose manifest is the metadata of an Iceberg table.
    """

    form = "iceberg"

    def __init__(self, root: Path, catalog: str = "") -> None:
        """
        @param catalog: C{CATALOG:NAMESPACE.TABLE}, of a catalog that PyIceberg is configured for;
            empty: that of the archive that is there, or a catalog of its own in the directory.
        @raise OptionError: if the archive is in another one.
        """
        super().__init__(root)
        self._place: IcebergLocation = placeIn(root, catalog)

    def make(self) -> None:
        super().make()
        try:
            self._place.make()
        except _ERRORS as error:
            raise self._failed(error) from None

    def latest(self) -> Manifest | None:
        table = self._open()
        return None if table is None else self._read(table)

    def commit(self, manifest: Manifest) -> bool:
        """
        Add the files that are new and remove those that are gone, in one snapshot, with the
        properties.
        """
        manifest.check()
        table = self._open()
        if table is None:
            return self._create(manifest)
        base = self._read(table)
        if base.version != manifest.version - 1:
            return False
        # Also if somebody has told the table otherwise.
        table.metadata.properties.update(_BEHAVIOUR)
        token = uuid.uuid4().hex
        summary = {"natsbroker.commit": token, "natsbroker.stop": str(manifest.stop)}
        new = sorted(manifest.paths - base.paths)
        gone = base.paths - manifest.paths
        try:
            with table.transaction() as transaction:
                transaction.set_properties(_said(manifest))
                if gone:
                    self._replace(table, transaction, summary, new, gone)
                else:
                    paths = [f"{self._place.location}/{each}" for each in new]
                    # That none is there already was checked, and holds for the same snapshot.
                    transaction.add_files(paths, summary, check_duplicate_files=False)
        except _ERRORS as error:
            return self._settled(base, token, error)
        return True

    def vacuum(self, age: float, now: Callable[[], float], isDryRun: bool) -> Vacuumed:
        """
        Expire snapshots that have not been the current one for a while, and delete the files that
        none names that is left.
        """
        self.require()
        oldest = now() - age
        try:
            table = self._open()
            branches = {each.snapshot_id for each in table.refs().values()}
            pairs = pairwise(sorted(table.snapshots(), key=lambda x: x.sequence_number))
            expired = [
                each.snapshot_id
                for each, following in pairs
                if following.timestamp_ms < oldest * 1000 and each.snapshot_id not in branches
            ]
            if expired and not isDryRun:
                table.maintenance.expire_snapshots().by_ids(expired).commit()
                table = self._open()
            named = set(_named(table, set(expired)))
            files = [
                each
                for folder, ends in (("data", (".parquet",)), ("metadata", (".avro", ".json")))
                for each in (self.root / folder).rglob("*")
                if each.name.endswith(ends) and f"file://{each}" not in named
            ]
            return replace(deleted(files, oldest, isDryRun), versions=len(expired))
        except _ERRORS as error:
            raise self._failed(error) from None

    def _open(self) -> Any:
        try:
            catalog = self._place.catalog()
            return None if catalog is None else catalog.load_table(self._place.identifier)
        except NoSuchTableError:
            return None
        except _ERRORS as error:
            raise self._failed(error) from None

    def _read(self, table: Any) -> Manifest:
        said = table.properties
        if "natsbroker.log" not in said:
            raise TableError(f"{self.root}: is an Iceberg table, and no archive")
        try:
            start, stop = int(said["natsbroker.start"]), int(said["natsbroker.stop"])
            manifest = Manifest(
                table.metadata.last_sequence_number,
                said["natsbroker.table"],
                Log(**json.loads(said["natsbroker.log"])),
                start,
                tiled(self._files(table), start, stop),
                tuple((int(a), int(b)) for a, b in json.loads(said["natsbroker.lost"])),
                table.metadata.last_updated_ms / 1000,
                "date" if table.spec().fields else "",
            )
        except (*_ERRORS, KeyError, TypeError) as error:
            raise self._failed(error) from None
        manifest.check()
        return manifest

    def _files(self, table: Any) -> Iterator[File]:
        fields = [table.schema().find_field(each).field_id for each in ("seq", "time_ns")]
        for task in table.scan().plan_files():
            if task.delete_files:
                raise TableError(
                    f"{self.root}: another program has deleted rows of files that are still there"
                )
            file = task.file
            path = nameOf(file.file_path, self._place)
            bounds = (file.lower_bounds, file.upper_bounds)
            (least, most), (first, last) = (
                [from_bytes(LongType(), ends[x]) if x in ends else None for ends in bounds]
                for x in fields
            )
            seqs, times = (least, most), (first, last)
            yield fileOf(path, file.record_count, file.file_size_in_bytes, seqs, times)

    def _create(self, manifest: Manifest) -> bool:
        if manifest.files:
            raise TableError(f"{self.root}: there is no archive")
        properties = {**_BEHAVIOUR, **_said(manifest)}
        properties["natsbroker.table"] = manifest.table
        properties["natsbroker.log"] = json.dumps(asdict(manifest.log))
        properties["natsbroker.start"] = str(manifest.start)
        try:
            self._place.make()
            self._place.catalog().create_table(
                self._place.identifier,
                _SCHEMA,
                self._place.location,
                _spec(manifest),
                properties=properties,
            )
        except _ERRORS as error:
            found = self.latest()
            if found is None:
                raise self._failed(error) from None
            return found.table == manifest.table
        return True

    def _replace(
        self, table: Any, transaction: Any, summary: dict[str, str], new: list[str], gone: set[str]
    ) -> None:
        files = {nameOf(x.file.file_path, self._place): x.file for x in table.scan().plan_files()}
        with transaction.update_snapshot(snapshot_properties=summary).overwrite() as change:
            for each in gone:
                change.delete_data_file(files[each])
            for each in new:
                path = f"{self._place.location}/{each}"
                metadata = transaction.table_metadata
                change.append_data_file(parquet_file_to_data_file(table.io, metadata, path))

    def _settled(self, base: Manifest, token: str, error: Exception) -> bool:
        table = self._open()
        if table is not None and table.metadata.last_sequence_number != base.version:
            summaries = [each.summary for each in table.snapshots() if each.summary is not None]
            return any(each.get("natsbroker.commit") == token for each in summaries)
        raise self._failed(error) from None

    def _failed(self, error: Exception) -> TableError:
        if isinstance(error, TableError):
            return error
        text = str(error.args[0]) if isinstance(error, SQLAlchemyError) and error.args else ""
        text = " ".join((text or str(error)).split()) or type(error).__name__
        return TableError(f"{self.root}: {text}")


def _spec(manifest: Manifest) -> PartitionSpec:
    if not manifest.partition:
        return UNPARTITIONED_PARTITION_SPEC
    source = _SCHEMA.find_field("time").field_id
    return PartitionSpec(PartitionField(source, 1000, DayTransform(), "date"))


def _said(manifest: Manifest) -> dict[str, str]:
    lost = json.dumps([list(each) for each in manifest.lost])
    return {"natsbroker.stop": str(manifest.stop), "natsbroker.lost": lost}


def _named(table: Any, expired: set[int]) -> Iterator[str]:
    """
    Every file that somebody may still look for who reads the table.

    @param expired: snapshots that do not count.
    """
    yield table.metadata_location
    for entry in table.metadata.metadata_log:
        yield entry.metadata_file
    for each in (*table.metadata.statistics, *table.metadata.partition_statistics):
        yield each.statistics_path
    for snapshot in table.snapshots():
        if snapshot.snapshot_id not in expired:
            yield snapshot.manifest_list
            for manifest in snapshot.manifests(table.io):
                yield manifest.manifest_path
                for entry in manifest.fetch_manifest_entry(table.io):
                    yield entry.data_file.file_path
