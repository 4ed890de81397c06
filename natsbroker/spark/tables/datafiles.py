"""
Reading the messages in the files of an archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from natsbroker.spark.logs.columns import schemaOf
from natsbroker.spark.tables.manifests import File, TableError

__all__ = ["COLUMNS", "SCHEMA", "readFiles"]

#: What files have, in the columns of the data source.
COLUMNS = ("seq", "subject", "data", "time", "headers", "time_ns")

SCHEMA = schemaOf(COLUMNS)

#: How many rows of files that share a range a batch has.
_ROWS = 131_072


def readFiles(root: Path, files: Sequence[File]) -> Iterator[Any]:
    """
    The messages of files that share a range, as batches with L{COLUMNS}. One file of ours is in
    order, and is read piece by piece; others are read whole.

    @raise TableError: if they cannot be read.
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
