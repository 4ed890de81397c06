"""
Numbers for operators.
"""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.metrics import ProgressMetrics, jobMetrics, served


def progress(name: str | None, rows: int, **fields: Any) -> Any:
    """What a listener receives."""
    sources = [SimpleNamespace(latestOffset=text) for text in (json.dumps(fields), None, "7", "x")]
    return SimpleNamespace(name=name, id="1-2", numInputRows=rows, sources=sources)


def test_queries() -> None:
    """Numbers of queries go up, also where a reader began again, and other sources have none."""
    metrics = ProgressMetrics()
    for size, lost in ((100, 2), (150, 2), (30, 1)):
        metrics.take(progress(None, 5, lag={"S": 3, "T": 0}, bytes=size, reconnects=lost))
    with served(metrics, "0") as port, urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    for line in (
        'natsbroker_spark_rows_total{job="1-2"} 15.0',
        'natsbroker_spark_bytes_total{job="1-2"} 180.0',
        'natsbroker_spark_reconnects_total{job="1-2"} 3.0',
        'natsbroker_spark_lag{job="1-2",stream="S"} 3.0',
        'natsbroker_spark_lag{job="1-2",stream="T"} 0.0',
    ):
        assert line in lines


def test_wrongPlace() -> None:
    """What is no port, and a port that is taken, are errors."""
    with pytest.raises(OptionError, match="not a port"), served(ProgressMetrics(), "here"):
        pass
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DataSourceError, match="in use"), served(ProgressMetrics(), where):
            pass


def test_jobs() -> None:
    """What a job has done so far is at its endpoint, and where there is none nothing happens."""
    with jobMetrics("", "archive", "S") as numbers:
        numbers(1, 2, 3)
        numbers.lost()
    with served(ProgressMetrics(), "0") as port:
        pass
    with jobMetrics(f"127.0.0.1:{port}", "archive", "S") as numbers:
        for rows, size, lag in ((10, 100, 7), (15, 140, 0)):
            numbers(rows, size, lag)
            numbers.lost()
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    for line in (
        'natsbroker_spark_rows_total{job="archive"} 15.0',
        'natsbroker_spark_bytes_total{job="archive"} 140.0',
        'natsbroker_spark_reconnects_total{job="archive"} 2.0',
        'natsbroker_spark_lag{job="archive",stream="S"} 0.0',
    ):
        assert line in lines
