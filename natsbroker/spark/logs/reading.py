"""
Reading a range of sequences whole.

Any replica may answer a direct get, and one that lags ends its answer early without a word. So an
end is believed only when the leader says that nothing follows, and a gap only when the leader says
that nothing is stored there.
"""

from __future__ import annotations

import json
import logging
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError
from natsbroker.spark.logs.apis import NO_STREAM, StreamApi, StreamState, sensible
from natsbroker.spark.logs.columns import MessageRows
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.subjects.grammar import matches
from natsbroker.wire.headers import Headers

#: Statuses: of the end of an answer, of no message, and of a request that nobody answers.
_END, _NOT_FOUND, _NOBODY = 204, 404, 503

_LINES = (
    rb"\r\nNats-Stream: [^\r\n]*\r\nNats-Subject: (?P<subject>[^\r\n]*)\r\n"
    rb"Nats-Sequence: (?P<seq>\d+)\r\nNats-Time-Stamp: (?P<time>[^\r\n]+)\r\n"
    rb"Nats-Num-Pending: \d+\r\nNats-Last-Sequence: \d+\r\n\r\n"
)
_METADATA = re.compile(rb"NATS/1\.0(?P<own>.*)%b" % _LINES, re.S)

#: The same where its publisher put nothing there: most messages, and found at once.
_BARE = re.compile(rb"NATS/1\.0(?P<own>)%b" % _LINES)


def fetch(
    connection: BlockingConnection,
    subject: str,
    start: int,
    count: int,
    size: int,
    pattern: str = "",
) -> tuple[MessageRows, bool]:
    """
    @param size: how many bytes, roughly: the message that goes beyond it is the last.
    @return: messages, and whether the stream ends behind them.
    """
    rows = MessageRows([], [], [], [], [])
    fields: dict[str, Any] = {"seq": start, "batch": count, "max_bytes": size}
    if pattern:
        fields["next_by_subj"] = pattern
    reply = connection.ask(subject, json.dumps(fields).encode())
    last = start - 1
    while True:
        headerLength, body = connection.answer(reply, subject)
        head = body[:headerLength]
        found = _BARE.fullmatch(head) or _METADATA.fullmatch(head)
        if found is None:
            return rows, _isEnd(head, subject)
        own, name, digits, time = found.groups()
        seq = int(digits)
        if seq <= last:
            raise DataSourceError(f"{subject} gave sequence {seq} after {last}")
        last = seq
        rows.seqs.append(seq)
        rows.subjects.append(name)
        rows.times.append(time)
        rows.heads.append(own)
        rows.payloads.append(body[headerLength:])


def _isEnd(head: bytes, subject: str) -> bool:
    with sensible(f"{subject}: an answer makes no sense"):
        headers = Headers.fromBlock(head)
        status, left = headers.status, int(headers.get("Nats-Num-Pending") or "0")
    if status == _END:
        return left == 0
    if status == _NOT_FOUND:
        return True
    raise ApiError(f"{subject}: {status} {headers.description}", status)


#: The most gaps in one answer that are asked for one by one; more take one question for all.
_FEW = 16

#: Between questions to replicas that lag, in seconds.
_PAUSE = 0.05


class Loss(str):
    ranges: tuple[tuple[int, int], ...] = ()


OnLoss = Callable[[Loss], object]


def lose(text: str, onLoss: OnLoss | None, *ranges: tuple[int, int]) -> None:
    if onLoss is None:
        raise DataLoss(f"{text}; failOnDataLoss=false goes on without them")
    loss = Loss(text)
    loss.ranges = ranges
    onLoss(loss)


def logLoss(loss: Loss) -> None:
    logging.getLogger("natsbroker.spark").warning("%s", loss)


@dataclass(frozen=True)
class SequenceRange:
    """
    @ivar created: which stream of that name; see L{StreamState}.
    """

    stream: str
    created: str
    start: int
    stop: int


@dataclass(frozen=True)
class ReadOptions:
    """
    @ivar patterns: the subjects, as filters that are all different; none for all.
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
            raise DataLoss(f"stream {name} is gone: it was there when the read began") from None
        raise
    if state.created != created:
        raise DataLoss(
            f"stream {name} was deleted and made again ({created}, now {state.created}): its"
            " sequences are others"
        )
    return state


@dataclass
class RangeReader:
    streams: StreamApi
    bounds: SequenceRange
    options: ReadOptions
    onLoss: OnLoss | None
    sleep: Callable[[float], object] = time.sleep
    # What is deleted stays deleted, so this is asked for again only when it does not explain.
    _known: StreamState | None = None

    def read(self) -> Iterator[MessageRows]:
        bounds = self.bounds
        if bounds.start >= bounds.stop:
            return
        start = bounds.start
        gone = min(self._check().first, bounds.stop)
        if gone > start:
            self._lose(start, gone)
            start = gone
        before: list[bytes] = []
        for pattern in self.options.patterns or ("",):
            for rows in self._readFiltered(start, pattern):
                if before:
                    isNew = [not any(matches(x, y) for x in before) for y in rows.subjects]
                    columns: tuple[list[Any], ...] = rows
                    for column in columns:
                        column[:] = compress(column, isNew)
                if rows.seqs:
                    yield rows
            before.append(pattern.encode("utf-8"))
        self._check()

    def _readFiltered(self, cursor: int, pattern: str) -> Iterator[MessageRows]:
        bounds, options = self.bounds, self.options
        deadline = time.monotonic() + options.patience
        while cursor < bounds.stop:
            count = min(bounds.stop - cursor, options.batchRows)
            subject = f"{self.streams.prefix}DIRECT.GET.{bounds.stream}"
            place = subject, cursor, count, options.fetchBytes, pattern
            try:
                rows, isEnd = fetch(self.streams.connection, *place)
            except ApiError as error:
                if error.code == _NOBODY:
                    self._check()  # A stream that was deleted does not answer.
                raise
            reached = rows.seqs[-1] + 1 if rows.seqs else cursor
            good = reached if pattern else self._verified(cursor, rows)
            # What a filter passes over cannot be told from what is not stored any more. So nothing
            # may have gone from where the answer began.
            if pattern and (first := self._check().first) > cursor:
                self._lose(cursor, min(first, bounds.stop))
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
        """
        How far a replica that has no more has read: to the end, if the leader has no more either.
        """
        if cursor >= self.bounds.stop:
            return cursor
        following = self.streams.next(self.bounds.stream, cursor, pattern or ">")
        if following is None or following >= self.bounds.stop:
            if not pattern:
                self._explained([(cursor, self.bounds.stop)])
            return self.bounds.stop
        return cursor

    def _verified(self, cursor: int, rows: MessageRows) -> int:
        """
        @return: up to where the messages are all that are stored.
        """
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
        Nothing is stored in some gaps. Where the stream begins behind one, its messages may have
        been there when the range was planned, and count as lost.
        """
        if not gaps:
            return
        first = self._check().first
        for start, end in gaps:
            stop = min(end, self.bounds.stop)
            if first >= stop:
                self._lose(start, stop)

    def _lose(self, start: int, stop: int) -> None:
        text = (
            f"stream {self.bounds.stream}: sequences {start} to {stop - 1} are not stored any more"
            " (expired, trimmed or purged)"
        )
        lose(text, self.onLoss, (start, stop))
