"""
Archives that are made without servers, for tests of what reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from natsbroker.spark.tables.delta import DeltaLakeTable
from natsbroker.spark.tables.parquet import SCHEMA, writeFiles
from natsbroker.spark.tables.snapshots import Log, Range, TableSnapshot

__all__ = ["extended"]

_FIRST = 1_700_000_000_000_000_000


def extended(
    root: Path,
    messages: Iterable[tuple[str, bytes]],
    lost: Sequence[Range] = (),
    identity: str = "one",
) -> int:
    """
    Append messages to those of an archive, which is created if there is none.

    @param messages: subjects and payloads.
    @return: where it stops.
    """
    table = DeltaLakeTable(root)
    table.make()
    if table.latest() is None:
        table.create(TableSnapshot.first(Log("stream", "LOG", "", identity), 1))
    base = table.require()
    start = base.stop
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
    if not table.append(base, writeFiles(root, [batch], start), tuple(lost), stop):
        raise RuntimeError("somebody else has gone on")
    return stop
