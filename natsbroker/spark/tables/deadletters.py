"""
The table of rows that a stream did not take: a Delta table with the columns that were written, the
number of the error and its text.

Tasks write data files, which nobody sees. The driver names them in one commit together with which
write they are of, so that a micro-batch that is written again has them once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.transaction import Transaction

from natsbroker.spark.codecs.datatypes import nullable
from natsbroker.spark.tables.delta import DeltaLakeTable, added
from natsbroker.spark.tables.filing import FileWriter
from natsbroker.spark.tables.locations import Location
from natsbroker.spark.tables.snapshots import File, TableError

#: What stands beside the columns that were written.
REASONS = (pa.field("code", pa.int32()), pa.field("error", pa.string()))

#: How many rows are collected.
_ROWS = 1024


class DeadLetterTable(DeltaLakeTable):
    def __init__(self, root: Location, columns: Any) -> None:
        super().__init__(root)
        written = (pa.field(each.name, nullable(each.type)) for each in columns)
        self.schema = pa.schema([*written, *REASONS])
        found = self.columns()
        if found is not None and not found.equals(self.schema):
            raise TableError(f"{root}: it is no table of these dead letters: its columns differ")

    # Files that are not named stay until a vacuum. They may be named all the same: by a commit that
    # ended with an error.

    def record(self, files: Sequence[File], write: str, number: int) -> bool:
        """
        @param write: which write, or streaming query, the files are of.
        @param number: of the micro-batch.
        @return: C{False} if the files of this micro-batch, or a later one, are there.
        """
        try:
            table = deltalake.DeltaTable.create(str(self.root), self.schema, mode="ignore")
            known = table.transaction_version(write)
            if known is not None and known >= number:
                return False
            mark = Transaction(write, number, int(time.time() * 1000))
            table.create_write_transaction(
                [added(self.root, each) for each in files],
                "append",
                self.schema,
                commit_properties=deltalake.CommitProperties(app_transactions=[mark]),
            )
        except self.errors as error:
            raise self._failed(error) from None
        self._sync(table.version())
        return True


class DeadLetters:
    def __init__(self, table: DeadLetterTable, task: int) -> None:
        self._table = table
        self._writer = FileWriter(table.root, task, seq="")
        self._kept: list[dict[str, Any]] = []
        self.rows = 0

    def add(self, row: dict[str, Any], code: int, error: str) -> None:
        self._kept.append({**row, "code": code, "error": error})
        self.rows += 1
        if len(self._kept) >= _ROWS:
            self._write()

    def finish(self) -> tuple[File, ...]:
        if self._kept:
            self._write()
        return tuple(self._writer.finish())

    def abandon(self) -> None:
        self._writer.abandon()

    def _write(self) -> None:
        self._table.make()
        self._writer.add(pa.RecordBatch.from_pylist(self._kept, self._table.schema))
        self._kept = []
