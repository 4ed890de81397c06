"""
Reading a whole range of sequences.

Any replica may answer a direct get. One that lags silently ends its answer early. So an end is
accepted only when the leader confirms that nothing follows, and a gap only when the leader confirms
that nothing is stored there. Mirrors (C{mirror_direct}) may keep less. Their answers are requested
again, until the stream itself answers.
"""

from __future__ import annotations

import json
import logging
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, LogGone
from natsbroker.spark.logs.apis import NO_STREAM, StreamApi, StreamState, sensible
from natsbroker.spark.logs.columns import MessageRows
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.wire.headers import Headers

#: Statuses: of the end of an answer, of no message, and of a request that nobody answers.
_END, _NOT_FOUND, _NOBODY = 204, 404, 503

_HEAD = (
    rb"NATS/1\.0(?P<own>%b)\r\nNats-Stream: %b\r\nNats-Subject: (?P<subject>[^\r\n]*)\r\n"
    rb"Nats-Sequence: (?P<seq>\d+)\r\nNats-Time-Stamp: (?P<time>[^\r\n]+)\r\n"
    rb"Nats-Num-Pending: \d+\r\nNats-Last-Sequence: \d+\r\n\r\n"
)

#: The headers of a message of any stream.
_METADATA = re.compile(_HEAD % (b".*", b"[^\r\n]*"), re.S)


@lru_cache
def _patternsOf(stream: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """
    The headers of a message of one stream, first without headers of its publisher: most messages
    have none, and are found at once.
    """
    name = re.escape(stream)
    return re.compile(_HEAD % (b"", name)), re.compile(_HEAD % (b".*", name), re.S)


def fetch(
    connection: BlockingConnection,
    subject: str,
    start: int,
    count: int,
    size: int,
    pattern: str = "",
) -> tuple[MessageRows, bool] | None:
    """
    @param subject: of direct gets of a stream, whose name is its last token.
    @param size: the approximate number of bytes: the message that exceeds it is the last.
    @return: messages, and whether the stream ends behind them; C{None} for messages of a mirror.
    """
    rows = MessageRows([], [], [], [], [])
    bare, own = _patternsOf(subject.rpartition(".")[2].encode("utf-8"))
    isMirror = False
    fields: dict[str, Any] = {"seq": start, "batch": count, "max_bytes": size}
    if pattern:
        fields["next_by_subj"] = pattern
    reply = connection.ask(subject, json.dumps(fields).encode())
    last = start - 1
    while True:
        headerLength, body = connection.answer(reply, subject)
        head = body[:headerLength]
        match = bare.fullmatch(head) or own.fullmatch(head)
        if match is None:
            match = _METADATA.fullmatch(head)
            if match is None:
                isEnd = _isEnd(head, subject)
                return None if isMirror else (rows, isEnd)
            isMirror = True
        ofPublisher, name, digits, time = match.groups()
        seq = int(digits)
        if seq <= last:
            raise DataSourceError(f"{subject} gave sequence {seq} after {last}")
        last = seq
        rows.seqs.append(seq)
        rows.subjects.append(name)
        rows.times.append(time)
        rows.heads.append(ofPublisher)
        rows.payloads.append(body[headerLength:])


def _isEnd(head: bytes, subject: str) -> bool:
    with sensible(f"{subject}: an answer is malformed"):
        headers = Headers.fromBlock(head)
        status, left = headers.status, int(headers.get("Nats-Num-Pending") or "0")
    if status == _END:
        return left == 0
    if status == _NOT_FOUND:
        return True
    raise ApiError(f"{subject}: {status} {headers.description}", status)


#: The most gaps in one answer that are asked for one by one; more take one question for all.
_FEW = 16

#: Between questions to replicas that lag, and before another question where a mirror answered, in
#: seconds.
_PAUSE, _AGAIN = 0.05, 0.005

#: The least that is asked for at a time of one of several filters.
_LEAST_BYTES = 64 << 10


class Loss(str):
    ranges: tuple[tuple[int, int], ...] = ()


OnLoss = Callable[[Loss], object]


def lose(text: str, onLoss: OnLoss | None, *ranges: tuple[int, int]) -> None:
    if onLoss is None:
        raise DataLoss(f"{text}; failOnDataLoss=false continues without them")
    loss = Loss(text)
    loss.ranges = ranges
    onLoss(loss)


def logLoss(loss: Loss) -> None:
    logging.getLogger("natsbroker.spark").warning("%s", loss)


@dataclass(frozen=True)
class SequenceRange:
    """
    @ivar created: which stream of that name; see L{StreamState}.
    @ivar planned: the end of the stream when the read was planned, and the number of gaps between
        its messages; C{None} unless a message that vanishes has to be noticed.
    """

    stream: str
    created: str
    start: int
    stop: int
    planned: tuple[int, int] | None = None


def planned(state: StreamState, start: int, stop: int) -> SequenceRange:
    known = None if state.replaces else (state.stop, state.gaps)
    return SequenceRange(state.name, state.created, start, stop, known)


def isDeletion(state: StreamState, start: int, stop: int) -> bool:
    """Whether only the first message is missing, because it was deleted."""
    return stop - start == 1 and not state.trims


def checkGaps(streams: StreamApi, bounds: SequenceRange, onLoss: OnLoss | None) -> None:
    """
    Look whether messages between others have vanished since the read was planned. Servers give no
    reason. A single missing message counts as deleted, several as purged or expired.
    """
    if bounds.planned is None:
        return
    end, before = bounds.planned
    state = checkStream(streams, bounds.stream, bounds.created)
    if state.gaps - before <= 1:
        return
    state = streams.state(bounds.stream, withDeleted=True)
    gone = sum(sequence < end for sequence in state.deleted) - before
    ours = [
        sequence for sequence in sorted(state.deleted) if bounds.start <= sequence < bounds.stop
    ]
    if gone > 1 and ours:
        text = (
            f"stream {bounds.stream}: {gone} messages have been removed from among others since the"
            f" read was planned (expired or purged), sequences {ours[0]} to {ours[-1]} among them"
        )
        lose(text, onLoss, *((sequence, sequence + 1) for sequence in ours))


@dataclass(frozen=True)
class ReadOptions:
    """
    @ivar patterns: different filters of subjects; none for all.
    @ivar patience: how long replicas may lag, in seconds.
    """

    patterns: tuple[str, ...] = ()
    fetchBytes: int = 4 << 20
    batchRows: int = 32_768
    patience: float = 10.0


def checkStream(streams: StreamApi, name: str, created: str) -> StreamState:
    try:
        state = streams.state(name)
    except ApiError as error:
        if error.code == NO_STREAM:
            raise LogGone(f"stream {name} is gone: it was there when the read began") from None
        raise
    if state.created != created:
        raise LogGone(
            f"stream {name} was deleted and made again ({created}, now {state.created}): its"
            " sequences belong to other messages now"
        )
    return state


def merged(readers: Sequence[Iterator[MessageRows]]) -> Iterator[MessageRows]:
    """Messages of several readings in the stream's order, each once."""
    if len(readers) == 1:
        yield from readers[0]
        return
    waiting: dict[int, MessageRows] = {}
    unread = dict(enumerate(readers))
    while True:
        for place in [number for number in unread if number not in waiting]:
            rows = next(unread[place], None)
            if rows is None:
                del unread[place]
            else:
                waiting[place] = rows
        if not waiting:
            return
        # Nothing before this can come from any reader any more.
        horizon = min(rows.seqs[-1] for rows in waiting.values())
        merging: dict[int, tuple[Any, ...]] = {}
        for place, rows in list(waiting.items()):
            count = bisect_right(rows.seqs, horizon)
            merging.update(
                zip(rows.seqs[:count], zip(*rows.part(0, count), strict=True), strict=True)
            )
            left = rows.part(count, len(rows.seqs))
            if left.seqs:
                waiting[place] = left
            else:
                del waiting[place]
        columns = zip(*(merging[seq] for seq in sorted(merging)), strict=True)
        yield MessageRows(*map(list, columns))


@dataclass
class RangeReader:
    streams: StreamApi
    bounds: SequenceRange
    options: ReadOptions
    onLoss: OnLoss | None
    sleep: Callable[[float], object] = time.sleep
    # Deleted messages stay deleted, so the state is requested again only for unexplained gaps.
    _known: StreamState | None = None

    def read(self) -> Iterator[MessageRows]:
        bounds = self.bounds
        if bounds.start >= bounds.stop:
            return
        start = bounds.start
        state = self._check()
        gone = min(state.first, bounds.stop)
        if gone > start:
            self._lose(state, start, gone)
            start = gone
        patterns = self.options.patterns or ("",)
        # All messages that wait to be merged are in memory.
        size = max(self.options.fetchBytes // len(patterns), _LEAST_BYTES)
        yield from merged([self._readFiltered(start, pattern, size) for pattern in patterns])
        self._check()
        if not self.options.patterns:
            checkGaps(self.streams, bounds, self.onLoss)

    def _readFiltered(self, cursor: int, pattern: str, size: int) -> Iterator[MessageRows]:
        bounds, options = self.bounds, self.options
        deadline = time.monotonic() + options.patience
        while cursor < bounds.stop:
            count = min(bounds.stop - cursor, options.batchRows)
            subject = f"{self.streams.prefix}DIRECT.GET.{bounds.stream}"
            place = subject, cursor, count, size, pattern
            try:
                fetched = fetch(self.streams.connection, *place)
            except ApiError as error:
                if error.code == _NOBODY:
                    self._check()  # A stream that was deleted does not answer.
                raise
            if fetched is None:
                if time.monotonic() > deadline:
                    raise DataSourceError(
                        f"stream {bounds.stream}: only a mirror of it gave sequence {cursor} within"
                        f" {options.patience:g}s: set allow_direct of the stream, or remove"
                        " mirror_direct of the mirror"
                    )
                self.sleep(_AGAIN)
                continue
            rows, isEnd = fetched
            reached = rows.seqs[-1] + 1 if rows.seqs else cursor
            good = reached if pattern else self._verified(cursor, rows)
            # Messages that a filter passes over look like deleted ones. So no message may have been
            # deleted since the answer began.
            if pattern and (state := self._check()).first > cursor:
                self._lose(state, cursor, min(state.first, bounds.stop))
            if good == reached and isEnd:
                good = self._end(reached, pattern)
            isLagging = good < (bounds.stop if isEnd else reached)
            stop = min(good, bounds.stop)
            count = bisect_left(rows.seqs, stop)
            for column in rows:
                del column[count:]
            if count:
                yield rows
                deadline = time.monotonic() + options.patience
            cursor = max(cursor, stop)
            if isLagging and cursor < bounds.stop:
                if time.monotonic() > deadline:
                    raise DataSourceError(
                        f"stream {bounds.stream}: sequence {cursor} or one behind it is stored, and"
                        f" no replica gave it within {options.patience:g}s"
                    )
                self.sleep(_PAUSE)

    def _check(self) -> StreamState:
        return checkStream(self.streams, self.bounds.stream, self.bounds.created)

    def _end(self, cursor: int, pattern: str) -> int:
        """The end of a replica's reading: that of the range, if the leader has no more either."""
        if cursor >= self.bounds.stop:
            return cursor
        following = self.streams.next(self.bounds.stream, cursor, pattern or ">")
        if following is None or following >= self.bounds.stop:
            if not pattern:
                self._explained([(cursor, self.bounds.stop)])
            return self.bounds.stop
        return cursor

    def _verified(self, cursor: int, rows: MessageRows) -> int:
        """The sequence up to which the messages are all that are stored."""
        gaps = []
        for seq in rows.seqs:
            if seq != cursor:
                gaps.append((cursor, seq))
                if seq >= self.bounds.stop:
                    break
            cursor = seq + 1
        false = next((start for start, stop in gaps if self._isFalse(start, stop, len(gaps))), None)
        self._explained([gap for gap in gaps if false is None or gap[0] < false])
        if false is not None:
            return false
        return rows.seqs[-1] + 1 if rows.seqs else cursor

    def _isFalse(self, start: int, stop: int, count: int) -> bool:
        stop = min(stop, self.bounds.stop)
        name = self.bounds.stream
        if count <= _FEW:
            following = self.streams.next(name, start)
            return following is not None and following < stop
        if self._known is None or self._known.stores(start, stop):
            self._known = self.streams.state(name, withDeleted=True)
        return self._known.stores(start, stop)

    def _explained(self, gaps: Sequence[tuple[int, int]]) -> None:
        """
        Accept gaps in which nothing is stored. Messages at the stream's beginning may have existed
        when the range was planned. If they are missing, they count as lost.
        """
        if not gaps:
            return
        state = self._check()
        for start, end in gaps:
            stop = min(end, self.bounds.stop)
            if state.first >= stop:
                self._lose(state, start, stop)

    def _lose(self, state: StreamState, start: int, stop: int) -> None:
        if isDeletion(state, start, stop):
            return
        text = (
            f"stream {self.bounds.stream}: sequences {start} to {stop - 1} are not stored any more"
            " (expired, trimmed or purged)"
        )
        lose(text, self.onLoss, (start, stop))
