"""
Archives as earlier versions made them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from natsbroker.spark.tables.parquet import SCHEMA
from tests.spark.tablecontract import dated

__all__ = ["former"]

_LOG = {"kind": "stream", "name": "S", "scope": "", "identity": "2026-01-01T00:00:00Z"}


def former(root: Path, *ranges: tuple[int, int], partition: str = "") -> None:
    """An archive as earlier versions made them; each fifth sequence is not there."""
    (root / "_nb").mkdir(parents=True)
    (root / "data").mkdir()
    files = []
    for start, stop in ranges:
        rows = [batch for batch in dated(start, stop, 10) if batch["seq"][0].as_py() % 5]
        entry: dict[str, Any] = {"path": "", "start": start, "stop": stop, "rows": len(rows)}
        if rows:
            entry["path"] = f"data/{start}.parquet"
            pq.write_table(pa.Table.from_batches(rows, SCHEMA), root / entry["path"])
            data = (root / entry["path"]).read_bytes()
            entry.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        files.append({"bytes": 0, "sha256": "", "first_time": 0, "last_time": 0, **entry})
    manifest = {"format": 1, "version": 7, "table": "t", "log": _LOG, "start": ranges[0][0]}
    manifest.update(
        files=files, lost=[[6, 8]], written=1.0, partition=partition, stop=ranges[-1][1]
    )
    (root / "_nb" / "0000000007.json").write_text(json.dumps(manifest))
    (root / "_nb" / "0000000006.json").write_text("an older one")
