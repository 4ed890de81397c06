"""
What PySpark's data source API has since 4.1 or 4.2, with stand-ins for earlier releases.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "passesStart",
]


class _StreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """
    PySpark 4.0 looks for the first of them in streaming queries too.
    """


class _Nothing:
    pass


class _Limit:
    pass


@dataclass
class _AllAvailable(_Limit):
    pass


@dataclass
class _MaxRows(_Limit):
    max_rows: int


@dataclass
class _MaxBytes(_Limit):
    max_bytes: int


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    DataSourceStreamArrowWriter = _StreamArrowWriter

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ModuleNotFoundError:
    ReadLimit, SupportsTriggerAvailableNow = _Limit, _Nothing
    ReadAllAvailable, ReadMaxRows, ReadMaxBytes = _AllAvailable, _MaxRows, _MaxBytes


def passesStart() -> bool:
    """
    Whether Spark passes the place of a query to C{latestOffset}, which it does since 4.2.
    """
    return hasattr(DataSourceStreamReader, "getDefaultReadLimit")
