"""
Reading everything in the database from time to time, so that damage is found before somebody needs
what is damaged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from natsbroker.interfaces.records import StoreError
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
    @ivar after: the last key in it; empty if the database ended.
    @ivar records: ranges of records that cannot be read: a log's identity, the first sequence, and
        the one behind the last; 0 for all that follow.
    @ivar values: keys of values of state that cannot be read.
    """

    after: bytes
    records: list[tuple[int, int, int]]
    values: list[tuple[bytes, str]]


def scrub(environment: Environment, after: bytes, enough: int) -> ScrubResult:
    """
    @param after: a key; begin behind it.
    @param enough: stop at this number of bytes.
    """
    records: list[tuple[int, int, int]] = []
    values: list[tuple[bytes, str]] = []
    with environment.reading() as txn, txn.cursor() as cursor:
        more = cursor.set_range(after + b"\0")
        key = b""
        while more and enough > 0:
            key, raw = cursor.item()
            enough -= len(raw) + len(key)
            if key[:1] == b"B":
                dead = txn.get(deadKey(identityOf(key), sequenceOf(key)))
                records += _damagedIn(raw, key, dead)
            elif key[:1] == b"S":
                try:
                    unwrap(raw, key)
                except Damaged as failure:
                    values.append((key, str(failure)))
            more = cursor.next()
            if records and not records[-1][2] and more and cursor.key()[:9] == key[:9]:
                records[-1] = (*records[-1][:2], sequenceOf(cursor.key()))
    return ScrubResult(key if more else b"", records, values)


def _damagedIn(raw: bytes, key: bytes, dead: bytes | None) -> Iterator[tuple[int, int, int]]:
    """
    @param dead: the value that says which records are deleted, if there is one.
    """
    identity, first = identityOf(key), sequenceOf(key)
    gone = NONE
    if dead is not None:
        try:
            gone = unpackDead(first, unwrapEither(dead, deadKey(identity, first))[0].value)
        except Damaged:
            pass  # then all of them are taken for living
    block = readBlock(raw, identity, first, gone)
    if block is None:
        yield identity, first, 0
        return
    for sequence in block.missing:
        yield identity, sequence, sequence + 1
    count = len(block.sequences)
    index = 0
    while index < count:
        _, index, _ = block.select(index, count, None, count, sys.maxsize)
        if index < count:
            sequence = block.sequences[index]
            yield identity, sequence, sequence + 1
            index += 1


class Scrubber:
    def __init__(
        self,
        reactor: Any,
        fetch: Callable[..., Deferred[ScrubResult]],
        found: Callable[[ScrubResult], object],
    ) -> None:
        self._reactor = reactor
        self._fetch = fetch
        self._found = found
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
        self._found(findings)
        self._after = findings.after
        self._goOn(INTERVAL if self._after else PAUSE)

    def _failed(self, failure: Failure) -> None:
        """
        The database cannot be read now, which its other readers learn as well: try again later.
        """
        failure.trap(StoreError)
        self._goOn(PAUSE)

    def _goOn(self, seconds: float) -> None:
        if not self._isStopped:
            self._call = self._reactor.callLater(seconds, self._next)
