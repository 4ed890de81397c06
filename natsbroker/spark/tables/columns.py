"""
The columns of a table, which only ever become more.

They are files beside the manifest, C{_nb/columns-<number>.ddl}, in Spark's language; the highest
number holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from natsbroker.spark.codecs.datatypes import ddlText, merged, nullable, readSchema
from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables.manifests import File, TableError
from natsbroker.spark.tables.parquet import ParquetTable
from natsbroker.spark.tables.table import failed

__all__ = ["columnsOf", "rowsOf", "settled"]

_NUMBER = re.compile(r"columns-(\d{10})\.ddl")


def columnsOf(table: ParquetTable) -> Any:
    """
    The columns of a table.

    @return: an Arrow schema; C{None} if there are none, as an archive has none of its own.
    """
    numbers = _numbers(table)
    return _read(table, numbers[-1]) if numbers else None


def rowsOf(root: Path, files: Iterable[File], columns: Any) -> Iterator[Any]:
    """
    The rows of some files of a table, as batches with all its columns.
    """
    for each in files:
        path = root / each.path
        try:
            for batch in pq.ParquetFile(path).iter_batches() if each.path else ():
                yield _shaped(batch, columns)
        except OSError as error:
            raise failed(path, error) from None
        except pa.ArrowException as error:
            raise TableError(f"{path}: {error}") from None


def _shaped(batch: Any, columns: Any) -> Any:
    """
    A batch with the columns that a table has now; those that it has not are null.
    """
    there = set(batch.schema.names)
    arrays = [
        batch.column(each.name).cast(each.type)
        if each.name in there
        else pa.nulls(batch.num_rows, each.type)
        for each in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def settled(table: ParquetTable, wanted: Any) -> Any:
    """
    Have columns in a table.

    @param wanted: an Arrow schema. Those that the table has not are added, and those that it has
        beside them stay.
    @return: the columns of the table then.
    @raise natsbroker.spark.codecs.datatypes.Clash: if one is there with another type.
    """
    wanted = pa.schema([pa.field(each.name, nullable(each.type)) for each in wanted])
    while True:
        numbers = _numbers(table)
        last = numbers[-1] if numbers else -1
        found = _read(table, last) if numbers else pa.schema([])
        both = pa.schema(merged(list(found), list(wanted)))
        if numbers and both == found:
            return found
        if table.put(_name(last + 1), f"{ddlText(both)}\n".encode()):
            return both


def _name(number: int) -> str:
    return f"columns-{number:010}.ddl"


def _numbers(table: ParquetTable) -> list[int]:
    try:
        names = os.listdir(table.versionsAt)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise failed(table.versionsAt, error) from None
    found = (_NUMBER.fullmatch(each) for each in names)
    return sorted(int(each[1]) for each in found if each is not None)


def _read(table: ParquetTable, number: int) -> Any:
    path = table.versionsAt / _name(number)
    try:
        return readSchema(path.read_text("utf-8"))
    except OSError as error:
        raise failed(path, error) from None
    except (OptionError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: {error}") from None
