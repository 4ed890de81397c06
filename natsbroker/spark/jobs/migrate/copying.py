"""
Copying a log into a JetStream stream, in order, each message once: the jobs C{migrate} and
C{restore}.

Every message has its origin in its headers, and is published with the sequence that the target must
end with. So the end of the target shows where to continue after any interruption, and one of two
simultaneous copiers is refused.

A channel of a server without requests for ranges, such as nats-streaming-server, is read by a
subscription. The protocol has no request for its size. So the end is the message that a
subscription to the last one brings. If none comes for a while, the channel counts as empty.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from natsbroker.spark.datasource.tasks import batchesOf, connected
from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, OptionError, TimedOut
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin, StoredRange, logOf
from natsbroker.spark.jobs.common import JobRun, command, sourceOptions, targetTexts
from natsbroker.spark.jobs.pacing import Pacer
from natsbroker.spark.logs.apis import StreamApi
from natsbroker.spark.logs.planning import checkedNames, logsOf, oneName
from natsbroker.spark.logs.wholeranges import OnLoss, SequenceRange, lose
from natsbroker.spark.nats.originheaders import IDENTITY, LOG, SEQUENCE, TIME, ownHeaders
from natsbroker.spark.nats.publishing import Publisher
from natsbroker.spark.nats.stan import StanClient
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.parquet import COLUMNS, SCHEMA
from natsbroker.spark.tables.snapshots import Log
from natsbroker.streaming.protocol import (
    LAST_RECEIVED,
    SEQUENCE_START,
    Ack,
    Malformed,
    MsgProto,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)
from natsbroker.wire.headers import Headers
from natsbroker.wire.serverside import publishLine

#: The messages that a subscription reads at once, and at a slow rate the seconds that they span.
_AT_ONCE, _LIVELY = 1024, 5.0

#: After so long the server sends again what was not acknowledged, in seconds.
_PATIENCE = 60


class CopyTarget:
    """
    The stream that is copied to.

    @ivar next: the next sequence of the source.
    @ivar known: when the message before it was stored in the source, in nanoseconds since 1970; 0
        without.
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
            raise DataSourceError(f"stream {self._name}: its last message is malformed") from None
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


class ChannelReader(StanClient):
    _inbox = b""
    _ackInbox = ""

    def last(self) -> int:
        self._subscribe(1, startPosition=LAST_RECEIVED)
        try:
            return int(self._message().sequence)
        except TimedOut:
            return 0
        finally:
            inbox = self._ackInbox
            request = UnsubscribeRequest(clientID=self.id, subject=self._channel, inbox=inbox)
            self.ask(self.answer.unsubRequests, request, SubscriptionResponse)

    def batches(
        self,
        start: int,
        stop: int,
        known: int = 0,
        onLoss: OnLoss | None = None,
        window: int = 1024,
    ) -> Iterator[Any]:
        """
        The messages of a range, as Arrow batches with the columns of archives.

        @param known: when the message before C{start} was stored, in nanoseconds since 1970; 0 if
            the channel is read from its beginning.
        @param onLoss: called with ranges that are not stored any more; by default that is an error.
        @param window: how many messages the server may send before they are acknowledged.
        @raise DataLoss: if something is missing, or the channel is another one.
        """
        if start >= stop:
            return
        first = start - 1 if known else start
        self._subscribe(window, startPosition=SEQUENCE_START, startSequence=first)
        cursor, isBegun = start, bool(known)
        rows: list[dict[str, Any]] = []
        acks: list[bytes] = []
        while cursor < stop:
            try:
                message = self._message()
            except TimedOut as error:
                missing = f"{stop - cursor} messages did not come: {error}"
                raise TimedOut(f"channel {self._channel}: {missing}") from None
            seq = message.sequence
            acks.append(self._ack(seq))
            if known and seq == start - 1 and message.timestamp != known:
                raise DataLoss(
                    f"channel {self._channel}: the message {seq} is another one than when it was"
                    " copied: the channel was deleted and made again"
                )
            if cursor <= seq < stop:
                if seq > cursor and isBegun:
                    gone = f"sequences {cursor} to {seq - 1} are not stored any more"
                    lose(f"channel {self._channel}: {gone}", onLoss, (cursor, seq))
                isBegun = True
                rows.append(self._row(message))
            cursor = max(cursor, seq + 1)
            if len(acks) >= max(window // 2, 1) or cursor >= stop:
                self.connection.send(*acks)
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
                acks, rows = [], []

    def _row(self, message: Any) -> dict[str, Any]:
        data, when, reply = message.data, message.timestamp, message.reply
        if message.CRC32 and zlib.crc32(data) != message.CRC32:
            raise DataSourceError(
                f"channel {self._channel}: the message {message.sequence} is damaged"
            )
        return {
            "seq": message.sequence,
            "subject": message.subject,
            "data": data,
            "time": when // 1000,
            "headers": [{"key": "Stan-Reply", "value": reply}] if reply else [],
            "time_ns": when,
        }

    def _subscribe(self, window: int, **position: int) -> None:
        self._inbox = self.connection.inbox(f"channel{secrets.token_hex(4)}")
        request = SubscriptionRequest(
            clientID=self.id,
            subject=self._channel,
            inbox=self._inbox,
            maxInFlight=window,
            ackWaitInSecs=_PATIENCE,
            **position,
        )
        answer = self.ask(self.answer.subRequests, request, SubscriptionResponse)
        if answer.error:
            raise ApiError(f"channel {self._channel}: {answer.error}")
        self._ackInbox = answer.ackInbox

    def _ack(self, seq: int) -> bytes:
        payload: bytes = Ack(subject=self._channel, sequence=seq).SerializeToString()
        return publishLine(self._ackInbox.encode(), b"", 0, len(payload)) + payload + b"\r\n"

    def _message(self) -> Any:
        while True:
            subject, reply, headerLength, body = self.connection.anyMessage()
            if subject == self._inbox:
                try:
                    return MsgProto.FromString(body[headerLength:])
                except Malformed:
                    raise ApiError(f"channel {self._channel}: a message is malformed") from None
            self.heard(subject, reply)


def _copy(
    job: JobRun, given: Any, state: StoredRange, read: Callable[[SequenceRange, int], Iterable[Any]]
) -> None:
    if given.rate < 0 or not 1 <= given.window <= 100_000:
        raise OptionError("--rate is 0 or more, --window 1 to 100000")
    options, log = readOptions(targetTexts(given)), state.log
    with connected(options) as connection:
        streams = StreamApi(connection, options["domain"])
        target = CopyTarget(streams, given.to_stream, log, state.start)
        job.summary["resumed"] = target.next
        bounds = SequenceRange(log.name, log.identity, target.next, state.stop)

        def onProgress(seq: int) -> None:
            job.progress(seq, state.stop - 1)

        try:
            batches = read(bounds, target.known)
            target.take(batches, given.window, given.prefix, given.rate, onProgress)
        finally:
            job.summary.update(rows=target.copied, stop=state.stop)


@command("migrate")
def migrateMain(job: JobRun) -> int:
    job.addSource()
    text = "how a channel is read: as our broker gives it, or as clients of NATS Streaming"
    job.option("--protocol", "auto", text, choices=("auto", "export", "stan"))
    job.option("--discover-prefix", "_STAN.discover", "with stan")
    given = _read(job)
    options = sourceOptions(given)
    oneName(options, " to copy", isWhole=True)
    if not options["channel"] and given.protocol == "stan":
        raise OptionError("protocol: stan is for channels")
    state = None if given.protocol == "stan" else _stateOf(options, given.protocol == "auto")
    if state is None:
        _copyChannel(job, given, options)
    else:
        _copy(job, given, state, lambda bounds, known: batchesOf(options, COLUMNS, bounds))
    return 0


def _read(job: JobRun) -> Any:
    job.addTarget()
    job.option("--prefix", "", "a prefix for each subject")
    return job.given()


def _stateOf(options: dict[str, Any], mayBeSilent: bool) -> StoredRange | None:
    """
    The state of the source; C{None} for a channel of a server that does not know the question.
    """
    with connected(options) as connection:
        try:
            state = logsOf(connection, options).state(checkedNames(options)[0])
            return StoredRange(logOf(state, options), state.first, state.stop)
        except (ApiError, TimedOut) as error:
            # A server from before NATS 2.2, which has no headers, does not say that nobody answers.
            isOld = not connection.info.get("headers")
            isSilent = error.code == 503 if isinstance(error, ApiError) else isOld
            if not (isSilent and mayBeSilent and options["channel"]):
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
        closing(ChannelReader(connection, name, clusterId, given.discover_prefix)) as reader,
    ):

        def read(bounds: SequenceRange, known: int) -> Iterable[Any]:
            if bounds.start > bounds.stop:
                raise DataLoss(
                    f"channel {name} ends with {bounds.stop - 1}, and {bounds.start - 1} was"
                    " copied: it was deleted and made again"
                )
            return reader.batches(bounds.start, bounds.stop, known, onLoss, window)

        _copy(job, given, StoredRange(log, 1, reader.last() + 1), read)


@command("restore")
def restoreMain(job: JobRun) -> int:
    job.addArchive()
    given = _read(job)
    archive = ArchiveOrigin.of(given.archive)
    job.summary["lost"] = [list(stretch) for stretch in archive.snapshot.lost]
    _copy(job, given, archive.state(), lambda bounds, known: archive.batches(bounds))
    return 0
