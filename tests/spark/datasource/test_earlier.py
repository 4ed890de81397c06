"""
The parts of PySpark's API that earlier releases lack.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import datasource
from pyspark.sql.types import LongType, StructField, StructType

from natsbroker.spark.datasource import streaming, writing
from natsbroker.spark.datasource.source import NatsBrokerSource
from natsbroker.spark.datasource.streaming import (
    PASSES_START,
    EarlierStreamReader,
    StreamReader,
)


def test_passesStart() -> None:
    """
    Since Spark 4.2, a reader gets the start of each micro-batch. For earlier releases, another
    reader is used.
    """
    isNew = tuple(int(x) for x in pyspark.__version__.split(".")[:2]) >= (4, 2)
    assert PASSES_START is isNew
    source = NatsBrokerSource({"servers": "nats://127.0.0.1:1", "stream": "S"})
    reader = source.streamReader(StructType([StructField("seq", LongType())]))
    assert type(reader) is (StreamReader if isNew else EarlierStreamReader)


def test_standIns(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the newer parts are missing, the source uses replacements that PySpark 4.0 accepts."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.delattr(datasource, "DataSourceStreamArrowWriter", raising=False)
    names = runpy.run_path(str(Path(streaming.__file__)))
    assert names["SupportsTriggerAvailableNow"] is object
    writer = runpy.run_path(str(Path(writing.__file__)))["StreamWriter"]
    assert issubclass(writer, datasource.DataSourceArrowWriter)
    assert issubclass(writer, datasource.DataSourceStreamWriter)
