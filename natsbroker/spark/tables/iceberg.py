"""
Archives that are Iceberg tables. Log, end and losses are properties of the table, which are set in
the commit that adds the files.
"""

from __future__ import annotations

import io
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyiceberg import exceptions
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO, parquet_file_to_data_file
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.types import ListType, LongType, NestedField, StructType
from sqlalchemy import create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from natsbroker.files import syncDirectory
from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables.locations import (
    SCHEMES,
    Location,
    ObjectOutput,
    filesBelow,
    filesystemOf,
)
from natsbroker.spark.tables.snapshots import File, Log, TableError, TableSnapshot, ordered
from natsbroker.spark.tables.table import MARKS, ArchiveTable, Vacuumed

_PAIR = StructType(NestedField(8, "key", "string"), NestedField(9, "value", "string"))

_SCHEMA = Schema(
    NestedField(1, "seq", "long"),
    NestedField(2, "subject", "string"),
    NestedField(3, "data", "binary"),
    NestedField(4, "time", "timestamptz"),
    NestedField(5, "headers", ListType(7, _PAIR, element_required=False)),
    NestedField(6, "time_ns", "long"),
    NestedField(10, "crc32", "long"),
)

#: The settings of the table. A commit that lost a race must not be tried again behind our back:
#: it would be taken then, with files that are there already.
_BEHAVIOUR = {
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}

#: The snapshots that stay whatever their age.
_NEWEST = 100

_CATALOG, _OTHER = MARKS["iceberg"]
_OWN = "natsbroker"
_TABLE = "natsbroker.archive"

_WRITER = {"py-io-impl": f"{__name__}.SyncedFileIO"}


class _SyncedStream(io.BufferedWriter):
    def close(self) -> None:
        if not self.closed:
            self.flush()
            os.fsync(self.fileno())
            super().close()
            syncDirectory(Path(str(self.name)).parent)


class _File(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        if self.location.partition(":")[0] in SCHEMES:
            return ObjectOutput(super().create(overwrite))
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return _SyncedStream(io.FileIO(path, "w" if overwrite else "x"))


class SyncedFileIO(PyArrowFileIO):
    """Syncs what it writes, and reaches object stores as the other tables do."""

    @staticmethod
    def parse_location(location: str, properties: Any = EMPTY_DICT) -> tuple[str, str, str]:
        scheme, host, path = PyArrowFileIO.parse_location(location, properties)
        return scheme, host, path.removeprefix(f"{host}/") if scheme in SCHEMES else path

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> Any:
        if scheme in SCHEMES:
            return filesystemOf(f"{scheme}://{netloc}")
        return super()._initialize_fs(scheme, netloc)

    def new_output(self, location: str) -> PyArrowFile:
        made = super().new_output(location)
        return _File(made.location, made._path, made._filesystem, made._buffer_size)


class IcebergTable(ArchiveTable):
    form = "iceberg"
    errors = (
        exceptions.CommitFailedException,
        exceptions.NoSuchTableError,
        exceptions.RESTError,
        SQLAlchemyError,
        exceptions.TableAlreadyExistsError,
        exceptions.ValidationException,
        OSError,
        ValueError,
    )
    conflicts = (exceptions.CommitFailedException, exceptions.ValidationException)

    def __init__(self, root: Location, catalog: str = "") -> None:
        """
        @param catalog: C{CATALOG:NAMESPACE.TABLE}, a catalog of PyIceberg's configuration. If
            empty, that of an existing archive, or a catalog of its own in the directory.
        """
        super().__init__(root)
        if re.search(r"[#?%]", str(root)):
            raise TableError(f"{root}: Iceberg has no names for files below #, ? and %")
        self.location = f"file://{root}" if isinstance(root, Path) else str(root)
        self._catalog: Any = None
        self._name, self.identifier = "", _TABLE
        try:
            said = json.loads((root / _OTHER).read_text("utf-8"))
            self._name, self.identifier = said["catalog"], said["table"]
            there = f"{self._name}:{self.identifier}"
        except FileNotFoundError:
            there = _OWN if (root / _CATALOG).exists() else ""
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TableError(f"{root / _OTHER}: is malformed: {error}") from None
        if catalog:
            match = re.fullmatch(r"([^:]+):([^:.]+(?:\.[^:.]+)+)", catalog)
            if match is None:
                raise OptionError(f"catalog: CATALOG:NAMESPACE.TABLE expected, not {catalog!r}")
            if there and there != catalog:
                where = "in a catalog of its own" if there == _OWN else f"in the catalog {there}"
                raise OptionError(f"{root} is an archive {where}")
            self._name, self.identifier = match[1], match[2]
        if not self._name and not isinstance(root, Path):
            raise OptionError(
                f"{root}: an Iceberg table in an object store needs a catalog that makes its"
                " commits atomic: name it with --catalog CATALOG:NAMESPACE.TABLE"
            )

    def make(self) -> None:
        super().make()
        with self._failing():
            if self._name:
                said = {"catalog": self._name, "table": self.identifier}
                (self.root / _OTHER).write_text(json.dumps(said), "utf-8")
            namespace = self.identifier.rpartition(".")[0]
            with suppress(IntegrityError):  # Another process makes it too.
                self.catalog().create_namespace_if_not_exists(namespace)

    def catalog(self) -> Any:
        while self._catalog is None:
            try:
                self._catalog = load_catalog(self._name, **_WRITER) if self._name else self._own()
            except (IntegrityError, OperationalError) as error:
                # Another process makes the catalog's own tables at the same moment.
                if "already exists" not in str(error):
                    raise
        return self._catalog

    def _own(self) -> SqlCatalog:
        path = str(self.root / _CATALOG)
        uri = URL.create("sqlite", database=path, query={"timeout": "60"}).render_as_string()
        made = SqlCatalog(_OWN, uri=uri, warehouse=self.location, **_WRITER)
        # So that no file stays open between two questions.
        made.engine.dispose()
        made.engine = create_engine(uri, poolclass=NullPool)
        return made

    def urlOf(self, path: str) -> str:
        return f"{self.location}/{path}"

    def pathOf(self, url: str) -> str:
        return url.removeprefix(f"{self.location}/").removeprefix("file://")

    def _create(self, first: TableSnapshot, columns: Any) -> None:
        properties = {
            **_BEHAVIOUR,
            **_said(first),
            "natsbroker.table": first.table,
            "natsbroker.log": json.dumps(asdict(first.log)),
        }
        spec = UNPARTITIONED_PARTITION_SPEC
        if first.partition:
            source = _SCHEMA.find_field("time").field_id
            spec = PartitionSpec(PartitionField(source, 1000, DayTransform(), "date"))
        # This is not in a transaction, because some catalogs begin no table that does not exist
        # yet.
        self.catalog().create_table(
            self.identifier, _SCHEMA, self.location, spec, properties=properties
        )

    def _commit(self, table: Any, after: TableSnapshot, old: Sequence[File], token: str) -> None:
        # The table may have been configured otherwise.
        table.metadata.properties.update(_BEHAVIOUR)
        urls = [self.urlOf(kept.path) for kept in after.files]
        said = {"natsbroker.commit": token, "natsbroker.stop": str(after.stop)}
        with table.transaction() as transaction:
            transaction.set_properties(_said(after))
            if not old:
                # The absence of such files was checked before, and holds for the same snapshot.
                transaction.add_files(urls, said, check_duplicate_files=False)
                return
            gone = {removed.path for removed in old}
            with transaction.update_snapshot(said).overwrite() as change:
                for task in table.scan().plan_files():
                    if self.pathOf(task.file.file_path) in gone:
                        change.delete_data_file(task.file)
                for url in urls:
                    file = parquet_file_to_data_file(table.io, transaction.table_metadata, url)
                    change.append_data_file(file)

    def _tokens(self, table: Any, version: int) -> list[str | None]:
        summaries = [snapshot.summary for snapshot in table.snapshots()]
        return [summary.get("natsbroker.commit") for summary in summaries if summary is not None]

    def vacuum(self, age: float, isDryRun: bool) -> Vacuumed:
        """
        Expire snapshots that have not been current for a while, and delete the files that no other
        snapshot names; PyIceberg deletes none.

        Each snapshot's metadata lists all snapshots. So a snapshot whose successor only adds files
        is expired as soon as it is not among the newest, because the successor names its files too.
        """
        self.require()
        oldest = time.time() - age
        with self._failing():
            table = self._open()
            branches = {ref.snapshot_id for ref in table.refs().values()}
            pairs = list(pairwise(sorted(table.snapshots(), key=lambda x: x.sequence_number)))
            expired = [
                snapshot.snapshot_id
                for place, (snapshot, following) in enumerate(pairs)
                if snapshot.snapshot_id not in branches
                and (
                    following.timestamp_ms < oldest * 1000
                    or (place < len(pairs) - _NEWEST and _isAppend(following))
                )
            ]
            if expired and not isDryRun:
                table.maintenance.expire_snapshots().by_ids(expired).commit()
                table = self._open()
            named = set(_named(table, set(expired)))
            old = {
                path: size
                for folder, ends in (("data", ".parquet"), ("metadata", (".avro", ".json")))
                for path, written, size in filesBelow(self.root, folder)
                if path.endswith(ends) and self.urlOf(path) not in named
                if written < oldest
            }
            for path in () if isDryRun else old:
                (self.root / path).unlink(missing_ok=True)
            return Vacuumed(len(old), len(expired), sum(old.values()))

    def _open(self) -> Any:
        with self._failing(), suppress(exceptions.NoSuchTableError):
            if self._name or (self.root / _CATALOG).exists():
                return self.catalog().load_table(self.identifier)
        return None

    def _read(self, table: Any, hasFiles: bool) -> TableSnapshot:
        said = table.properties
        if "natsbroker.log" not in said:
            raise TableError(f"{self.root}: is an Iceberg table, but not an archive")
        with self._failing(KeyError, TypeError):
            start, stop = int(said["natsbroker.start"]), int(said["natsbroker.stop"])
            return TableSnapshot(
                table.metadata.last_sequence_number,
                said["natsbroker.table"],
                Log(**json.loads(said["natsbroker.log"])),
                start,
                stop,
                ordered(self._files(table), start, stop) if hasFiles else (),
                tuple((int(a), int(b)) for a, b in json.loads(said["natsbroker.lost"])),
                "date" if table.spec().fields else "",
            )

    def _files(self, table: Any) -> Iterator[File]:
        field = table.schema().find_field("seq").field_id
        for task in table.scan().plan_files():
            if task.delete_files:
                raise TableError(
                    f"{self.root}: another program has deleted rows of files that are still there"
                )
            file = task.file
            path = self.pathOf(file.file_path)
            if field not in file.lower_bounds or field not in file.upper_bounds:
                raise TableError(f"{path}: has no statistics that say which sequences it has")
            bounds = (file.lower_bounds[field], file.upper_bounds[field])
            # PyIceberg's annotation says that these are texts.
            first, last = (int(from_bytes(LongType(), bound)) for bound in bounds)
            yield File(path, first, last, file.record_count, file.file_size_in_bytes)

    def _failed(self, error: Exception) -> TableError:
        # The rest is the statement.
        isSQL = isinstance(error, SQLAlchemyError) and error.args and str(error.args[0])
        return super()._failed(ValueError(error.args[0]) if isSQL else error)


def _said(snapshot: TableSnapshot) -> dict[str, str]:
    return {
        "natsbroker.start": str(snapshot.start),
        "natsbroker.stop": str(snapshot.stop),
        "natsbroker.lost": json.dumps(snapshot.lost),
    }


def _isAppend(snapshot: Any) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND


def _named(table: Any, expired: set[int]) -> Iterator[str]:
    yield table.metadata_location
    for entry in table.metadata.metadata_log:
        yield entry.metadata_file
    for statistics in (*table.metadata.statistics, *table.metadata.partition_statistics):
        yield statistics.statistics_path
    for snapshot in table.snapshots():
        if snapshot.snapshot_id not in expired:
            yield snapshot.manifest_list
            for manifest in snapshot.manifests(table.io):
                yield manifest.manifest_path
                for entry in manifest.fetch_manifest_entry(table.io):
                    yield entry.data_file.file_path
