"""
The messages of a replay, and a Parquet file for it to read.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.support import Station, Stream


def payloads(station: Station, stream: Stream) -> list[int]:
    """The payloads of a stream."""
    state = station.streams.state(stream.name)
    return [
        int(base64.b64decode(stream.api("MSG.GET", {"seq": seq})["message"]["data"]))
        for seq in range(state.first, state.stop)
    ]


def parquet(directory: Path, rows: list[dict[str, Any]], name: str = "a", **types: Any) -> None:
    """Write a file."""
    directory.mkdir(exist_ok=True)
    kinds = {"seq": pa.int64(), "subject": pa.string(), "data": pa.binary(), **types}
    schema = pa.schema([(key, kinds[key]) for key in kinds if kinds[key] is not None])
    pq.write_table(pa.Table.from_pylist(rows, schema), directory / f"{name}.parquet")
