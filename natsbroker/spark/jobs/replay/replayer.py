"""
Publishing the rows of one task to a stream, each once, even if the task is killed and started again
long afterwards.

A task records its progress in a L{ReplayLedger}, a little late. A repeated task first ensures that
the former connection is gone, and that the stream has handled its messages. Then it searches the
end of the stream for the rows after the entry.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, OptionError, TimedOut
from natsbroker.spark.jobs.pacing import Pacer
from natsbroker.spark.jobs.replay.ledgers import BUCKET, LedgerEntry, ReplayLedger
from natsbroker.spark.logs.apis import StreamApi, StreamState
from natsbroker.spark.logs.wholeranges import RangeReader, ReadOptions, SequenceRange
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.spark.nats.originheaders import REPLAY, SEQUENCE, STREAM, TIME, ownHeaders
from natsbroker.spark.nats.publishing import Pipeline, Publisher
from natsbroker.subjects.functions import InvalidMapping
from natsbroker.subjects.renaming import numbered
from natsbroker.subjects.transforms import SubjectTransform
from natsbroker.wire.headers import Headers


def renamer(texts: Sequence[str]) -> Callable[[str], str]:
    """Mappings such as C{orders.>=replay.orders.>}; the first match counts, other subjects stay."""
    transforms = [_read(text) for text in texts]

    @lru_cache(4096)
    def rename(subject: str) -> str:
        for transform in transforms:
            made = transform.apply(subject.encode("utf-8"), lambda below: 0)
            if made:
                return made.decode("utf-8")
            if made is not None:
                shown = transform.destination.decode("utf-8", "replace")
                raise DataSourceError(f"{shown} does not turn {subject} into a subject")
        return subject

    return rename


def _read(text: str) -> SubjectTransform:
    source, equals, destination = text.partition("=")
    if not equals:
        raise OptionError(f"map: OLD=NEW expected, not {text!r}")
    try:
        transform = SubjectTransform(source.encode("utf-8"), numbered(destination.encode("utf-8")))
    except InvalidMapping as error:
        raise OptionError(f"map: {text}: {error}") from None
    if transform.isRandom:
        raise OptionError(f"map: {text}: a subject must always become the same one")
    return transform


#: Sequence, subject, payload, headers, and time in nanoseconds since 1970 or C{None}.
Row = tuple[int, str, Any, Any, "int | None"]

#: An entry is written after this long, in seconds, or when a window is full.
_EVERY = 1.0

#: While nothing is sent, whether to end is asked this often, in seconds.
_SLICE = 0.5

#: The time that several servers of a stream may take to agree on its last message.
_AGREEING = 1.0

#: In which order, and what rows are divided among tasks by.
ORDERS = {"stream": "", "subject": "subject", "none": "seq"}

_JOB = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class ReplayOptions:
    """
    @ivar where: a condition in SQL; empty for all rows.
    @ivar maps: of subjects, as C{orders.>=replay.orders.>}.
    @ivar order: C{stream}: as the sequences; C{subject}: within each subject; C{none}.
    @ivar rate: messages a second at most, of all tasks; 0 for any number.
    @ivar hasLedger: whether tasks note what they have done.
    @ivar job: its name in the ledger; by default made from all options.
    """

    where: str = ""
    maps: tuple[str, ...] = ()
    order: str = "stream"
    tasks: int = 4
    rate: float = 0.0
    speed: float = 0.0
    window: int = 1000
    hasLedger: bool = True
    job: str = ""

    def task(self, source: Any, stream: str, isOne: bool, patience: float) -> ReplayTask:
        if self.order not in ORDERS:
            raise OptionError(f"order: {', '.join(ORDERS)} expected, not {self.order!r}")
        if self.speed and self.order != "stream":
            raise OptionError("speed: it needs the order stream, which has the gaps")
        if self.job and _JOB.fullmatch(self.job) is None:
            raise OptionError(f"job: letters, digits, - and _ expected, not {self.job!r}")
        if min(self.rate, self.speed) < 0 or not 1 <= self.window <= 100_000 or self.tasks < 1:
            raise OptionError("rate and speed are 0 or more, tasks from 1, window 1 to 100000")
        count = 1 if isOne or self.order == "stream" else self.tasks
        wanted = [source.origin, source.identity, self.where, self.maps, stream, count]
        wanted += [self.order] if count > 1 else []
        plan = hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:16]
        mine = {**vars(self), "job": self.job or f"replay-{plan}", "rate": self.rate / count}
        return ReplayTask(**mine, plan=plan, origin=source.origin, stream=stream, patience=patience)


@dataclass(frozen=True)
class ReplayTask(ReplayOptions):
    """The work of one task; passes to workers as it is."""

    plan: str = ""
    origin: str = ""
    stream: str = ""
    partition: int = 0
    patience: float = 10.0


class Replayer:
    """Does one task over one connection; C{next} is the first row that may not be published."""

    def __init__(self, connection: BlockingConnection, domain: str, task: ReplayTask) -> None:
        self.rows = self.found = 0
        self._task = task
        self._connection = connection
        self._streams = StreamApi(connection, domain)
        self._rename = renamer(task.maps)
        self._pace = Pacer(task.rate, task.speed)
        self._pipeline = Pipeline(connection, task.window)
        self._publisher = Publisher(connection, task.stream, task.window, self._pipeline)
        self._ledger = ReplayLedger(self._streams, task.job, task.partition, self._pipeline)
        self._mark = f"{task.job}.{task.partition}"
        # Rows that are not acknowledged, and those that are, with their sequences in the target.
        self._open: dict[int, None] = {}
        self._acknowledged: deque[tuple[int, int]] = deque()
        self._known: dict[int, int] = {}
        self._last = self._unnoted = 0
        self._noted = 0.0
        state = self._streams.state(task.stream)
        self._replicas = state.replicas
        self._entry = LedgerEntry(task.plan, state.created, 0, state.stop - 1)
        self._isResumed = False
        if task.hasLedger:
            self._claim()
        self._last = self._entry.row
        self.next = self._entry.row + 1

    def _claim(self) -> None:
        self._ledger.make(self._replicas)
        entry = self._ledger.read()
        if entry is not None:
            self._check(entry)
            self._isResumed = True
            if entry.inbox:
                self._waitUntilGone(entry.inbox)
            self._entry = entry
        self._write(self._connection.inbox("task").decode("utf-8"))
        self._pipeline.finish()

    def _check(self, entry: LedgerEntry) -> None:
        where = f"{BUCKET} has {self._mark}"
        if entry.plan != self._task.plan:
            raise OptionError(
                f"{where} for something else that was replayed: give this job another name"
            )
        if entry.created != self._entry.created:
            raise DataLoss(
                f"{where}, and stream {self._task.stream} was deleted and made again since: give"
                " this job another name"
            )

    def _waitUntilGone(self, inbox: str) -> None:
        """
        Wait until the server has nothing more from a connection, which is when nobody is subscribed
        to its subject.
        """
        deadline = time.monotonic() + self._task.patience
        while time.monotonic() < deadline:
            reply = self._connection.ask(inbox, b"")
            until = min(time.monotonic() + _SLICE, deadline)
            try:
                subject, _, headerLength, body = self._connection.anyMessage(until)
            except TimedOut:
                continue
            isStatus = subject == reply and headerLength == len(body)
            if isStatus and Headers.fromBlock(body).status == 503:
                return
        raise DataSourceError(
            f"replay {self._mark} is being done by another process, or by a task whose connection"
            f" the server has not closed ({inbox})"
        )

    def _findPublished(self, subject: str) -> None:
        refused = Headers({"Nats-Expected-Stream": f"{BUCKET}-asks"}).block()
        reply = self._connection.ask(subject, b"", refused)
        try:
            self._connection.answer(reply, subject)
        except ApiError as error:
            if error.code != 503:
                raise
            raise ApiError(f"stream {self._task.stream} does not take {subject}", 503) from None
        if self._replicas > 1:
            self._pipeline.rest(_AGREEING)
        state = self._streams.state(self._task.stream)
        bounds = self._entry.at + 1, state.stop
        rows = replayed(self._streams, state, bounds, self._mark)
        self._known = {row: seq for row, seq in rows if row > self._entry.row}

    def take(
        self,
        rows: Iterable[Row],
        isOver: Callable[[], bool] = lambda: False,
        onProgress: Callable[[int], object] = lambda row: None,
    ) -> dict[str, int]:
        """
        Publish rows with ascending sequences, from L{next} on.

        @param isOver: whether to end before the next row.
        @param onProgress: called from time to time with the row up to which all are published.
        @return: the numbers of rows that it has published, of those that the stream had already by
            their ids, and of those that it found published; and the sequence at which it began.
        """
        for row in self._ascending(rows):
            if isOver() or not self._waited(row[4] or 0, isOver):
                break
            self._publish(row)
            if self._unnoted >= self._task.window or time.monotonic() > self._noted + _EVERY:
                self._note(onProgress)
        self._pipeline.finish()
        self._entry = self._changed()
        if self._task.hasLedger:
            self._write("")
            self._pipeline.finish()
        onProgress(self._entry.row)
        done = {"rows": self.rows, "duplicates": self._publisher.duplicates, "found": self.found}
        return {**done, "resumed": self.next}

    def _ascending(self, rows: Iterable[Row]) -> Iterator[Row]:
        last = -1
        for row in rows:
            if row[0] <= last:
                raise DataSourceError(
                    f"{self._task.origin}: the sequence {row[0]} comes after {last}: each must be"
                    " there once"
                )
            last = row[0]
            if last < self.next:
                continue
            if self._isResumed:
                self._isResumed = False
                self._findPublished(self._rename(row[1]))
            if last in self._known:
                self.found += 1
                self._last = last
            else:
                yield row

    def _waited(self, when: int, isOver: Callable[[], bool]) -> bool:
        until = time.monotonic() + self._pace.delay(when)
        while (left := until - time.monotonic()) > 0:
            self._pipeline.rest(min(left, _SLICE))
            if isOver():
                return False
        return True

    def _publish(self, row: Row) -> None:
        seq, subject, data, headers, when = row
        origin = self._task.origin
        pairs = [(STREAM, origin), (SEQUENCE, str(seq)), (REPLAY, self._mark)]
        pairs += [] if when is None else [(TIME, str(when))]
        pairs += ownHeaders(headers)

        def stored(sequence: int, isDuplicate: bool) -> None:
            del self._open[seq]
            self._unnoted += 1
            if not isDuplicate:
                self._acknowledged.append((seq, sequence))

        self._open[seq] = None
        self._last = seq
        target, payload = self._rename(subject), _payload(data)
        self._publisher.publish(target, payload, pairs, f"{origin}:{seq}", stored)
        self.rows += 1

    def _note(self, onProgress: Callable[[int], object]) -> None:
        self._noted = time.monotonic()
        self._unnoted = 0
        self._entry = self._changed()
        onProgress(self._entry.row)
        if self._task.hasLedger and not self._ledger.isWriting:
            self._write(self._entry.inbox)

    def _changed(self) -> LedgerEntry:
        before = self._entry
        row = max(next(iter(self._open)) - 1 if self._open else self._last, before.row)
        at = before.at
        while self._acknowledged and self._acknowledged[0][0] <= row:
            at = max(at, self._acknowledged.popleft()[1])
        if any(waiting > row for waiting in self._known):
            # One of these messages may lie before the last acknowledged one.
            at = before.at
        return replace(before, row=row, at=at)

    def _write(self, inbox: str) -> None:
        self._entry = replace(self._entry, inbox=inbox)
        self._ledger.write(self._entry)


def startOf(connection: BlockingConnection, domain: str, task: ReplayTask, count: int) -> int:
    if not task.hasLedger:
        return 0
    pipeline, streams = Pipeline(connection, 1), StreamApi(connection, domain)
    entries = (ReplayLedger(streams, task.job, index, pipeline).read() for index in range(count))
    return min(0 if entry is None else entry.row + 1 for entry in entries)


def _payload(data: Any) -> bytes:
    return data.encode("utf-8") if isinstance(data, str) else bytes(data or b"")


def replayed(
    streams: StreamApi, state: StreamState, bounds: tuple[int, int], mark: str
) -> Iterator[tuple[int, int]]:
    blocks = _direct if state.isDirect else _oneByOne
    for seq, block in blocks(streams, state, bounds):
        row = _rowOf(block, mark)
        if row:
            yield row, seq


def _rowOf(block: bytes, mark: str) -> int:
    if mark.encode() not in block:
        return 0
    try:
        headers = Headers.fromBlock(block)
        return int(headers.get(SEQUENCE) or "0") if headers.get(REPLAY) == mark else 0
    except ValueError:
        return 0  # An answer of another program.


def _direct(
    streams: StreamApi, state: StreamState, bounds: tuple[int, int]
) -> Iterator[tuple[int, bytes]]:
    wanted = SequenceRange(state.name, state.created, *bounds)
    reader = RangeReader(streams, wanted, ReadOptions(), lambda loss: None)
    for rows in reader.read():
        for seq, head in zip(rows.seqs, rows.heads, strict=True):
            yield seq, b"NATS/1.0%b\r\n\r\n" % head


def _oneByOne(
    streams: StreamApi, state: StreamState, bounds: tuple[int, int]
) -> Iterator[tuple[int, bytes]]:
    cursor, stop = bounds
    while cursor < stop:
        message = streams.message(state.name, {"seq": cursor, "next_by_subj": ">"})
        if message is None or message[0] >= stop:
            return
        yield message[0], message[1]
        cursor = message[0] + 1
