"""
Limits of micro-batches, as Spark has them since 4.2, with stand-ins for earlier releases.
"""

from __future__ import annotations

from typing import Any

__all__ = ["ReadAllAvailable", "ReadMaxBytes", "ReadMaxRows"]

ReadAllAvailable: Any
ReadMaxBytes: Any
ReadMaxRows: Any

try:
    from pyspark.sql.streaming import datasource
except ImportError:
    ReadAllAvailable, ReadMaxBytes, ReadMaxRows = (
        type(name, (), {}) for name in ("ReadAllAvailable", "ReadMaxBytes", "ReadMaxRows")
    )
else:
    ReadAllAvailable = datasource.ReadAllAvailable
    ReadMaxBytes, ReadMaxRows = datasource.ReadMaxBytes, datasource.ReadMaxRows
