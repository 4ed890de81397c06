"""Numbers for operators, at a Prometheus endpoint: of streaming queries, and of jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from natsbroker.spark.errors import DataSourceError, OptionError


class ProgressMetrics:
    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge
        except ImportError:
            raise OptionError("metrics need: pip install 'natsbroker[metrics]'") from None
        self.registry = CollectorRegistry()
        labels, registry = ["job"], self.registry
        texts = {"rows": "Rows.", "bytes": "Bytes.", "reconnects": "Connections lost."}
        self._counters = {
            name: Counter(f"natsbroker_spark_{name}", text, labels, registry=registry)
            for name, text in texts.items()
        }
        self._lag = Gauge(
            "natsbroker_spark_lag", "Sequences behind.", [*labels, "stream"], registry=registry
        )
        self._seen: dict[tuple[str, str, str], int] = {}

    def lag(self, job: str, stream: str, lag: int) -> None:
        self._lag.labels(job, stream).set(lag)

    def count(self, job: str, name: str, total: int, source: str = "") -> None:
        """
        @param total: since a job, or a reader of a query, began; a smaller one than last time is of
            a reader that began again.
        """
        before = self._seen.get((job, name, source), 0)
        self._seen[job, name, source] = total
        self._counters[name].labels(job).inc(total - before if total >= before else total)

    def take(self, progress: Any) -> None:
        job = progress.name or str(progress.id)
        self._counters["rows"].labels(job).inc(progress.numInputRows or 0)
        for place, source in enumerate(progress.sources):
            try:
                fields = json.loads(source.latestOffset or "{}")
            except ValueError:
                continue  # Offsets of other sources have any form.
            if not isinstance(fields, dict) or not isinstance(fields.get("lag"), dict):
                continue
            for stream, lag in fields["lag"].items():
                self.lag(job, stream, lag)
            for name in ("bytes", "reconnects"):
                self.count(job, name, fields[name], str(place))


@contextmanager
def served(metrics: ProgressMetrics, where: str) -> Iterator[int]:
    """C{where} is a port, or a host and a port with a colon between them; 0 is any port."""
    from prometheus_client import start_http_server

    host, _, port = where.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise OptionError(f"metrics: not a port, or HOST:PORT: {where!r}")
    try:
        server, thread = start_http_server(
            int(port), host.strip("[]") or "127.0.0.1", registry=metrics.registry
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
    """Serve the numbers of all streaming queries of a session."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    metrics = ProgressMetrics()

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...

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


@contextmanager
def jobMetrics(
    where: str, job: str, stream: str, out: TextIO | None = None
) -> Iterator[Callable[..., None]]:
    """
    Serve what a job reports by names: its C{lag}, and totals since it began.

    @param where: the endpoint, as for L{served}; none if empty.
    @param out: receives a line with the port.
    """
    if not where:
        yield lambda **values: None
        return
    metrics = ProgressMetrics()

    def tell(**values: int) -> None:
        for name, value in values.items():
            if name == "lag":
                metrics.lag(job, stream, value)
            else:
                metrics.count(job, name, value)

    with served(metrics, where) as port:
        if out is not None:
            print(f"natsbroker spark {job}: metrics at port {port}", file=out, flush=True)
        yield tell
