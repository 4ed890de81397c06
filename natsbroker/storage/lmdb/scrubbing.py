"""Regular reads of the whole database, to find damage before somebody needs the data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from natsbroker.interfaces.records import Record, ScrubFigures, StoreError
from natsbroker.storage.blocks import NONE, readBlock, unpackDead
from natsbroker.storage.envelopes import unwrap, unwrapEither
from natsbroker.storage.lmdb.environment import Environment
from natsbroker.storage.lmdb.layout import deadKey, identityOf, sequenceOf
from natsbroker.storage.records import Damaged

FIRST = 10.0
"""Seconds after opening when the first pass begins."""

PAUSE = 3600.0
"""Seconds between two passes."""

INTERVAL = 0.25
PIECE = 1 << 20
"""Seconds between two pieces of a pass, and how many bytes a piece has: 4 MiB a second."""


class ScrubResult(NamedTuple):
    """
    @ivar after: the last key that was read; empty at the end of the database.
    @ivar records: unreadable ranges: a log's identity, the first sequence, and the one behind the
        last; 0 for all that follow.
    @ivar values: keys of unreadable values of state.
    @ivar checked: the number of records that were read, damaged ones included.
    @ivar entries: the number of entries of the database that were read.
    @ivar every: the number of all entries.
    """

    after: bytes
    records: list[tuple[int, int, int]]
    values: list[tuple[bytes, str]]
    checked: int
    entries: int
    every: int


def scrub(environment: Environment, after: bytes, enough: int) -> ScrubResult:
    """Read about C{enough} bytes behind a key."""
    records: list[tuple[int, int, int]] = []
    values: list[tuple[bytes, str]] = []
    checked = entries = 0
    with environment.reading() as txn, txn.cursor() as cursor:
        more = cursor.set_range(after + b"\0")
        key = b""
        while more and enough > 0:
            key, raw = cursor.item()
            enough -= len(raw) + len(key)
            entries += 1
            if key[:1] == b"B":
                dead = txn.get(deadKey(identityOf(key), sequenceOf(key)))
                count, damaged = _checked(raw, key, dead)
                checked += count
                records += damaged
            elif key[:1] == b"S":
                try:
                    unwrap(raw, key)
                except Damaged as failure:
                    values.append((key, str(failure)))
            more = cursor.next()
            if records and not records[-1][2] and more and cursor.key()[:9] == key[:9]:
                records[-1] = (*records[-1][:2], sequenceOf(cursor.key()))
        every = txn.stat()["entries"]
    return ScrubResult(key if more else b"", records, values, checked, entries, every)


def _checked(raw: bytes, key: bytes, dead: bytes | None) -> tuple[int, list[tuple[int, int, int]]]:
    """The number of records, and damaged ranges; C{dead} is the value for deleted records."""
    identity, first = identityOf(key), sequenceOf(key)
    gone = NONE
    if dead is not None:
        try:
            gone = unpackDead(first, unwrapEither(dead, deadKey(identity, first))[0].value)
        except Damaged:
            pass  # then all records count as existing
    block = readBlock(raw, identity, first, gone)
    if block is None:
        return 0, [(identity, first, 0)]
    damaged = [(identity, sequence, sequence + 1) for sequence in block.missing]
    records: list[Record] = []
    count = len(block.sequences)
    index = 0
    while index < count:
        index, _ = block.select(records, index, count, None, count, sys.maxsize)
        if index < count:
            sequence = block.sequences[index]
            damaged.append((identity, sequence, sequence + 1))
            index += 1
    return count + len(block.missing), damaged


class Scrubber:
    def __init__(
        self,
        reactor: Any,
        now: Callable[[], int],
        fetch: Callable[..., Deferred[ScrubResult]],
        notify: Callable[[ScrubResult], object],
    ) -> None:
        self.figures = ScrubFigures()
        self._entries = 0
        self._now = now
        self._reactor = reactor
        self._fetch = fetch
        self._notify = notify
        self._after = b""
        self._isStopped = False
        self._call: Any = None

    def start(self) -> None:
        self._call = self._reactor.callLater(FIRST, self._next)

    def stop(self) -> None:
        self._isStopped = True
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _next(self) -> None:
        reading = self._fetch(scrub, self._after, PIECE)
        reading.addCallbacks(self._read, self._failed)

    def _read(self, findings: ScrubResult) -> None:
        self._notify(findings)
        self._after = findings.after
        self._note(findings)
        self._goOn(INTERVAL if self._after else PAUSE)

    def _note(self, findings: ScrubResult) -> None:
        before = self.figures
        records = before.records + findings.checked
        self._entries += findings.entries
        if findings.after:
            # Entries that came or went since the pass began are no reason to be beyond the end.
            position = min(self._entries / max(findings.every, 1), 1.0)
            self.figures = before._replace(records=records, position=position)
        else:
            self._entries = 0
            self.figures = ScrubFigures(records, before.passes + 1, 0.0, self._now() / 1e9)

    def _failed(self, failure: Failure) -> None:
        """
        Note that the database cannot be read now. Its other readers notice that too. Try again
        later.
        """
        failure.trap(StoreError)
        self._goOn(PAUSE)

    def _goOn(self, seconds: float) -> None:
        if not self._isStopped:
            self._call = self._reactor.callLater(seconds, self._next)
