"""
Archives that are made without servers, for tests of what reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from natsbroker.spark.tables.filing import SCHEMA, writeFile
from natsbroker.spark.tables.manifests import Log, Manifest, Range
from natsbroker.spark.tables.parquet import ParquetTable

__all__ = ["extended"]

_FIRST = 1_700_000_000_000_000_000


def extended(
    root: Path,
    messages: Iterable[tuple[str, bytes]],
    lost: Iterable[Range] = (),
    identity: str = "one",
) -> int:
    """
    Put messages behind those of an archive, which is made if there is none.

    @param messages: subjects and payloads.
    @return: where it stops.
    """
    table = ParquetTable(root)
    table.make()
    if table.latest() is None:
        table.commit(Manifest.first(Log("stream", "LOG", "", identity), 1))
    manifest = table.require()
    start = manifest.stop
    rows = [
        {
            "seq": seq,
            "subject": subject,
            "data": data,
            "time": (_FIRST + seq * 1001) // 1000,
            "headers": [{"key": "K", "value": str(seq)}],
            "time_ns": _FIRST + seq * 1001,
        }
        for seq, (subject, data) in enumerate(messages, start)
    ]
    stop = max([start + len(rows), *(stop for _, stop in lost)])
    batch = pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(list(SCHEMA))))
    file = writeFile(root, [batch], start, stop)
    table.commit(manifest.extended([file], lost, 0.0))
    return stop
