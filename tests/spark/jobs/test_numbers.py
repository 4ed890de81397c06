"""
The numbers of jobs.
"""

from __future__ import annotations

from urllib.request import urlopen

from natsbroker.spark.jobs.numbers import jobMetrics
from natsbroker.spark.metrics import ProgressMetrics, served


def test_shown() -> None:
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
