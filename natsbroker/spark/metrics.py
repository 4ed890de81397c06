"""
Numbers for operators, at a Prometheus endpoint: of streaming queries, and of jobs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from natsbroker.spark.errors import DataSourceError, OptionError

_HOST = "127.0.0.1"


class ProgressMetrics:
    """
    @ivar registry: what the endpoint shows.
    """

    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge
        except ImportError:
            raise OptionError("metrics need: pip install 'natsbroker[metrics]'") from None
        self.registry = CollectorRegistry()
        labels, registry = ["job"], self.registry
        self._rows = Counter("natsbroker_spark_rows", "Rows.", labels, registry=registry)
        self._bytes = Counter("natsbroker_spark_bytes", "Bytes.", labels, registry=registry)
        self._reconnects = Counter(
            "natsbroker_spark_reconnects", "Connections lost.", labels, registry=registry
        )
        self._lag = Gauge(
            "natsbroker_spark_lag", "Sequences behind.", [*labels, "stream"], registry=registry
        )
        self._seen: dict[tuple[str, str], int] = {}

    def rows(self, job: str, rows: int) -> None:
        self._rows.labels(job).inc(rows)

    def lag(self, job: str, stream: str, lag: int) -> None:
        self._lag.labels(job, stream).set(lag)

    def bytes(self, job: str, total: int, source: str = "") -> None:
        """
        @param total: since a job, or a reader of a query, began.
        """
        self._bytes.labels(job).inc(self._more(job, f"{source} bytes", total))

    def reconnects(self, job: str, total: int, source: str = "") -> None:
        self._reconnects.labels(job).inc(self._more(job, f"{source} reconnects", total))

    def take(self, progress: Any) -> None:
        """
        @param progress: of a streaming query, as listeners receive it.
        """
        job = progress.name or str(progress.id)
        self.rows(job, progress.numInputRows or 0)
        for place, source in enumerate(progress.sources):
            try:
                fields = json.loads(source.latestOffset or "{}")
            except ValueError:
                continue  # Offsets of other sources are what they like.
            if not isinstance(fields, dict) or not isinstance(fields.get("lag"), dict):
                continue
            for stream, lag in fields["lag"].items():
                self.lag(job, stream, lag)
            self.bytes(job, fields["bytes"], str(place))
            self.reconnects(job, fields["reconnects"], str(place))

    def _more(self, job: str, what: str, total: int) -> int:
        """
        How much more than last time; a smaller number is of a reader that began again.
        """
        before = self._seen.get((job, what), 0)
        self._seen[job, what] = total
        return total - before if total >= before else total


@contextmanager
def served(metrics: ProgressMetrics, where: str) -> Iterator[int]:
    """
    Have an endpoint.

    @param where: a port, or a host and a port with a colon between them; 0 is any port.
    @return: the port.
    """
    from prometheus_client import start_http_server

    host, _, port = where.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise OptionError(f"metrics: not a port, or HOST:PORT: {where!r}")
    try:
        server, thread = start_http_server(
            int(port), host.strip("[]") or _HOST, registry=metrics.registry
        )
    except OSError as error:
        raise DataSourceError(f"metrics: {where}: {error.strerror or error}") from None
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def queryMetrics(spark: Any, where: str) -> Iterator[int]:
    """
    Serve the numbers of all streaming queries of a session.

    @param where: as for L{served}.
    @return: the port.
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    metrics = ProgressMetrics()

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            metrics.take(event.progress)

    listener = Listener()
    with served(metrics, where) as port:
        spark.streams.addListener(listener)
        try:
            yield port
        finally:
            spark.streams.removeListener(listener)
