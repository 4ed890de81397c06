"""
What PySpark's data source API has since 4.1 or 4.2, with stand-ins for earlier releases.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

__all__ = ["DataSourceStreamArrowWriter", "SupportsTriggerAvailableNow", "passesStart"]


class _StreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """
    PySpark 4.0 looks for the first of them in streaming queries too.
    """


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    DataSourceStreamArrowWriter = _StreamArrowWriter

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ModuleNotFoundError:
    SupportsTriggerAvailableNow = object


def passesStart() -> bool:
    """
    Whether Spark passes the place of a query to C{latestOffset}, which it does since 4.2.
    """
    return hasattr(DataSourceStreamReader, "getDefaultReadLimit")
