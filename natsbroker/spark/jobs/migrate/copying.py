"""
Copying a log into a JetStream stream, in order, each message once: the jobs C{migrate} and
C{restore}.

Every message says in its headers which one of which log it was, and is published with the sequence
that the target must end with. So the end of the target says where to go on, after any interruption
and however long ago it was; and of two copiers at once, one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from natsbroker.spark.datasource.tasks import batchesOf, connected
from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, OptionError, TimedOut
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin, logOf
from natsbroker.spark.jobs.common import JobRun, command, sourceOptions, targetTexts
from natsbroker.spark.jobs.migrate.subscribing import ChannelReader
from natsbroker.spark.jobs.pacing import Pacer
from natsbroker.spark.jobs.provenance import IDENTITY, LOG, SEQUENCE, TIME, ownHeaders
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.logs.selection import checkedNames, logsOf, oneName
from natsbroker.spark.logs.streams import StreamApi, StreamState
from natsbroker.spark.nats.publishing import Publisher
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.checking import COLUMNS
from natsbroker.spark.tables.snapshots import Log
from natsbroker.wire.headers import Headers

#: How many messages a subscription reads at once, and at a slow rate those of how many seconds.
_AT_ONCE, _LIVELY = 1024, 5.0


class CopyTarget:
    """
    The stream that is copied to.

    @ivar next: the next sequence of the source.
    @ivar known: when the message before it was stored in the source, in nanoseconds since 1970; 0
        if there was none.
    """

    def __init__(self, streams: StreamApi, name: str, log: Log, start: int) -> None:
        self.copied = self.known = 0
        self.next = start
        self._streams = streams
        self._name = name
        self._origin = f"{log.kind}/{log.name}", log.identity
        state = streams.state(name)
        self._last = state.stop - 1
        if state.messages:
            self._resume(log)
        elif self._last:
            raise OptionError(f"stream {name} is empty and was not always: copy to a new one")

    def _resume(self, log: Log) -> None:
        _, block, _ = self._streams.message(self._name, {"seq": self._last}) or (0, b"", b"")
        try:
            headers = Headers.fromBlock(block) if block else Headers()
            self.next = int(headers.get(SEQUENCE) or "0") + 1
            self.known = int(headers.get(TIME) or "0")
        except ValueError:
            raise DataSourceError(f"stream {self._name}: its last message makes no sense") from None
        if (headers.get(LOG), headers.get(IDENTITY)) != self._origin or self.next == 1:
            raise OptionError(
                f"stream {self._name} has other messages than copies of {log.kind} {log.name}"
            )

    def take(
        self,
        batches: Iterable[Any],
        window: int,
        prefix: str = "",
        rate: float = 0.0,
        onProgress: Callable[[int], object] = lambda seq: None,
    ) -> None:
        publisher = Publisher(self._streams.connection, self._name, window)
        pace = Pacer(rate)
        for batch in batches:
            for row in batch.to_pylist():
                if row["seq"] < self.next:
                    continue
                delay = pace.delay()
                if delay:
                    publisher.pipeline.rest(delay)
                publisher.publish(prefix + row["subject"], row["data"], self._headers(row))
                self._last += 1
                self.copied += 1
            if batch.num_rows:
                onProgress(batch.column("seq")[-1].as_py())
        publisher.finish()

    def _headers(self, row: dict[str, Any]) -> list[tuple[str, str]]:
        return [
            ("Nats-Expected-Last-Sequence", str(self._last)),
            (LOG, self._origin[0]),
            (IDENTITY, self._origin[1]),
            (SEQUENCE, str(row["seq"])),
            (TIME, str(row["time_ns"])),
            *ownHeaders(row["headers"]),
        ]


def _copy(
    job: JobRun,
    given: Any,
    log: Log,
    start: int,
    stop: int,
    read: Callable[[CopyTarget], Iterable[Any]],
) -> None:
    if given.rate < 0 or not 1 <= given.window <= 100_000:
        raise OptionError("--rate is 0 or more, --window 1 to 100000")
    options = readOptions(targetTexts(given))
    with connected(options) as connection:
        target = CopyTarget(StreamApi(connection, options["domain"]), given.to_stream, log, start)
        job.summary["resumed"] = target.next

        def onProgress(seq: int) -> None:
            job.progress(seq, stop - 1)

        try:
            target.take(read(target), given.window, given.prefix, given.rate, onProgress)
        finally:
            job.summary.update(rows=target.copied, stop=stop)


@command("migrate")
def migrateMain(job: JobRun) -> int:
    job.addSource()
    text = "how a channel is read: as our broker gives it, or as clients of NATS Streaming"
    job.option("--protocol", "auto", text, choices=("auto", "export", "stan"))
    job.option("--discover-prefix", "_STAN.discover", "with stan")
    job.addTarget()
    job.option("--prefix", "", "put before each subject")
    given = job.given()
    options = sourceOptions(given)
    oneName(options, " to copy", isWhole=True)
    if not options["channel"] and given.protocol == "stan":
        raise OptionError("protocol: stan is for channels")
    state = None if given.protocol == "stan" else _stateOf(options, given.protocol == "auto")
    if state is None:
        _copyChannel(job, given, options)
        return 0
    found = state

    def read(target: CopyTarget) -> Iterable[Any]:
        bounds = SequenceRange(found.name, found.created, target.next, found.stop)
        return batchesOf(options, COLUMNS, bounds)

    _copy(job, given, logOf(found, options), found.first, found.stop, read)
    return 0


def _stateOf(options: dict[str, Any], mayBeSilent: bool) -> StreamState | None:
    """
    The state of the source; C{None} for a channel of a server that does not know the question.
    """
    mayBeSilent = mayBeSilent and bool(options["channel"])
    with connected(options) as connection:
        try:
            return logsOf(connection, options).state(checkedNames(options)[0])
        except ApiError as error:
            if error.code != 503 or not mayBeSilent:
                raise
        except TimedOut:
            # A server from before NATS 2.2, which has no headers, does not say that nobody answers.
            if connection.info.get("headers") or not mayBeSilent:
                raise
    return None


def _copyChannel(job: JobRun, given: Any, options: dict[str, Any]) -> None:
    name, clusterId = options["channel"][0], options["clusterId"]
    log = Log("channel", name, clusterId, f"stan {clusterId}")
    # While messages wait for their time, the server asks whether we live: so few are taken at once.
    window = max(min(int(given.rate * _LIVELY), _AT_ONCE), 2) if given.rate else _AT_ONCE
    onLoss = None if options["failOnDataLoss"] else lambda loss: None
    with (
        connected(options) as connection,
        ChannelReader(connection, name, clusterId, given.discover_prefix) as reader,
    ):
        stop = reader.last() + 1

        def read(target: CopyTarget) -> Iterable[Any]:
            if target.next > stop:
                raise DataLoss(
                    f"channel {name} ends with {stop - 1}, and {target.next - 1} was copied: it was"
                    " deleted and made again"
                )
            return reader.batches(target.next, stop, target.known, onLoss, window)

        _copy(job, given, log, 1, stop, read)


@command("restore")
def restoreMain(job: JobRun) -> int:
    job.addArchive()
    job.addTarget()
    job.option("--prefix", "", "put before each subject")
    given = job.given()
    archive = ArchiveOrigin.of(given.archive)
    snapshot = archive.snapshot
    job.summary["lost"] = [list(each) for each in snapshot.lost]

    def read(target: CopyTarget) -> Iterable[Any]:
        return archive.batches(SequenceRange(snapshot.log.name, "", target.next, snapshot.stop))

    _copy(job, given, snapshot.log, snapshot.start, snapshot.stop, read)
    return 0
