"""
The numbers of a job for Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from natsbroker.spark.metrics import ProgressMetrics, served


class JobMetrics:
    """
    Takes the numbers of one job, whether or not they are shown.
    """

    def __init__(self, metrics: ProgressMetrics | None, job: str, stream: str) -> None:
        self._metrics = metrics
        self._job = job
        self._stream = stream
        self._rows = self._lost = 0

    def __call__(self, rows: int, size: int, lag: int) -> None:
        """
        @param rows: since the job began, as C{size}, the bytes of the files.
        """
        if self._metrics is None:
            return
        self._metrics.rows(self._job, rows - self._rows)
        self._metrics.bytes(self._job, size)
        self._metrics.lag(self._job, self._stream, lag)
        self._rows = rows

    def lost(self) -> None:
        self._lost += 1
        if self._metrics is not None:
            self._metrics.reconnects(self._job, self._lost)


@contextmanager
def jobMetrics(where: str, job: str, stream: str) -> Iterator[JobMetrics]:
    """
    @param where: the endpoint, as for L{served}; none if empty.
    """
    if not where:
        yield JobMetrics(None, job, stream)
        return
    metrics = ProgressMetrics()
    with served(metrics, where):
        yield JobMetrics(metrics, job, stream)
