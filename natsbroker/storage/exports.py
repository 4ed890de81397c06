"""Ranges of a log for jobs: columns and digests, the same from every log with the same records."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import accumulate
from struct import Struct
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker import hot
from natsbroker.interfaces.records import Columns, LogBounds, RangeDigest, Record, StoreError
from natsbroker.storage.policy import Policy
from natsbroker.subjects.grammar import hasWildcard

_ROW = Struct("<QqIII")
_SIZE = slice(68, 76)


class Page(NamedTuple):
    """
    @ivar damaged: sequences that should have been among the records, and are damaged.
    """

    records: list[Record]
    next: int
    damaged: list[int]


def beginning(pattern: bytes) -> bytes:
    """The prefix that all subjects have that a pattern matches."""
    tokens: list[bytes] = []
    for token in pattern.split(b"."):
        if hasWildcard(token):
            # The literal tokens, and the full stop after the last of them.
            tokens.append(b"")
            break
        tokens.append(token)
    return b".".join(tokens)


ReadPage = Callable[[int, int, int], "Deferred[Page]"]
"""Reads from a sequence to before another, up to a number of bytes."""


def columnsOf(records: Sequence[Record], following: int, damaged: Sequence[int]) -> Columns:
    sequences, timestamps, subjects, headers, payloads = (
        zip(*records, strict=True) if records else ((), (), (), (), ())
    )
    return Columns(
        array("Q", sequences),
        array("q", timestamps),
        _ends(subjects),
        b"".join(subjects),
        _ends(headers),
        b"".join(headers),
        _ends(payloads),
        b"".join(payloads),
        following,
        tuple(damaged),
    )


def _ends(values: Sequence[bytes]) -> array[int]:
    return array("q", accumulate(map(len, values), initial=0))


@inlineCallbacks
def exportRange(
    readPage: ReadPage, start: int, stop: int, maxBytes: int
) -> Generator[Deferred[Page], Any, Columns]:
    records: list[Record] = []
    damaged: list[int] = []
    while start < stop and maxBytes > 0:
        page: Page = yield readPage(start, stop, maxBytes)
        records += page.records
        damaged += page.damaged
        start = page.next
        maxBytes -= sum(len(record[2]) + len(record[3]) + len(record[4]) for record in page.records)
    return columnsOf(records, start, damaged)


class StoredLog:
    """
    @ivar policy: the retention, which the writing thread reads.
    @ivar closed: the error of all calls, once the log is closed or no longer ours.
    """

    def __init__(self, name: str, identity: int, policy: Policy) -> None:
        self.name = name
        self.identity = identity
        self.policy = policy
        self.closed: StoreError | None = None

    def bounds(self) -> LogBounds:
        raise NotImplementedError

    def holds(self) -> Mapping[str, int]:
        return dict(self.policy.holds)

    def exportRange(self, start: int, stop: int, maxBytes: int = 16777216) -> Deferred[Columns]:
        return exportRange(self._page, start, min(stop, self.bounds().last + 1), maxBytes)

    def digest(self, start: int, stop: int) -> Deferred[RangeDigest]:
        return digestRange(self._page, start, min(stop, self.bounds().last + 1))

    def _page(self, start: int, stop: int, maxBytes: int) -> Deferred[Page]:
        raise NotImplementedError


def addToDigest(sha256: hashlib._Hash, records: Sequence[Record]) -> None:
    pieces: list[bytes] = []
    for sequence, timestamp, subject, headers, payload in records:
        head = _ROW.pack(sequence, timestamp, len(subject), len(headers), len(payload))
        pieces += (head, subject, headers, payload)
    sha256.update(b"".join(pieces))


@inlineCallbacks
def digestRange(
    readPage: ReadPage, start: int, stop: int
) -> Generator[Deferred[Page], Any, RangeDigest]:
    sha256 = hashlib.sha256()
    count = 0
    damaged: list[int] = []
    while start < stop:
        page: Page = yield readPage(start, stop, 1048576)
        addToDigest(sha256, page.records)
        count += len(page.records)
        damaged += page.damaged
        start = page.next
    return RangeDigest(sha256.digest(), count, tuple(damaged))


def canGather() -> bool:
    return hot.gatherBlocks is not None


def sizeIn(raw: bytes) -> int:
    """The bytes of subjects, headers and payloads in a block, according to its head, unverified."""
    return int.from_bytes(raw[_SIZE], "little")


def gather(
    raws: Sequence[bytes], identity: int, start: int, stop: int, maxBytes: int, following: int
) -> Columns | None:
    """
    Turn successive blocks into the columns that L{columnsOf} makes of the same records, verified,
    while other threads run. C{None} if a block or a record is damaged.

    @param maxBytes: stop after the record with which the sizes reach this.
    @param following: the sequence with which the log continues behind the blocks.
    """
    gathered = hot.gatherBlocks(raws, identity, start, stop, maxBytes)
    if gathered is None:
        return None
    columns, reached, isAll = gathered
    sequences, times, subjectEnds, subjects, headerEnds, headers, payloadEnds, payloads = columns
    return Columns(
        array("Q", sequences),
        array("q", times),
        array("q", subjectEnds),
        subjects,
        array("q", headerEnds),
        headers,
        array("q", payloadEnds),
        payloads,
        max(following, reached) if isAll else reached,
    )
