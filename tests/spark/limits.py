"""
Limits of micro-batches, as Spark has them since 4.2, with stand-ins for earlier releases.
"""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

__all__ = ["ReadAllAvailable", "ReadMaxBytes", "ReadMaxRows"]

ReadAllAvailable: Any
ReadMaxBytes: Any
ReadMaxRows: Any

try:
    from pyspark.sql.streaming import datasource
except ImportError:
    ReadAllAvailable = make_dataclass("ReadAllAvailable", ())
    ReadMaxBytes = make_dataclass("ReadMaxBytes", ("max_bytes",))
    ReadMaxRows = make_dataclass("ReadMaxRows", ("max_rows",))
else:
    ReadAllAvailable = datasource.ReadAllAvailable
    ReadMaxBytes, ReadMaxRows = datasource.ReadMaxBytes, datasource.ReadMaxRows
