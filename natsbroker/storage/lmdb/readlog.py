"""
Reading the blocks of a log, in the reactor's thread: what is at hand is decoded at once, the rest
when a thread has fetched it.

What is read is verified, record by record; a damaged one is reported and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed

from natsbroker.interfaces.records import Columns, Record
from natsbroker.storage.blocks import Block
from natsbroker.storage.gathering import canGather
from natsbroker.storage.lmdb.cache import BlockCache
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.lmdb.reading import (
    RawBlock,
    fetchBefore,
    fetchBlocks,
    fetchColumns,
    findTime,
)
from natsbroker.storage.ownedlogs import ILogOwner, OwnedLog
from natsbroker.storage.policy import Policy
from natsbroker.storage.records import Damaged, sequenceOf, timestampOf
from natsbroker.storage.walking import readBlock

T = TypeVar("T")

AHEAD = 1 << 18
"""How many bytes of blocks are fetched at a time."""


class ILMDBOwner(ILogOwner, Protocol):
    cache: BlockCache

    def fetch(self, call: Callable[..., T], *args: Any) -> Deferred[T]:
        """
        Call something with the database in a thread that reads.
        """


class ReadableLog(OwnedLog):
    """
    @ivar version: how often blocks of it were replaced.
    """

    _owner: ILMDBOwner

    def __init__(self, owner: ILMDBOwner, row: LogRow, policy: Policy) -> None:
        super().__init__(row.identity, row.name, row.bounds(), policy)
        self._owner = owner
        self.version = 0
        self._ahead: list[bytes] = []

    # What the store tells it

    def journalled(self, blobs: Sequence[bytes]) -> None:
        self._ahead += blobs

    def databaseCaughtUp(self) -> None:
        self._ahead = []

    @property
    def _lastInDatabase(self) -> int:
        return sequenceOf(self._ahead[0], 0) - 1 if self._ahead else self._bounds.last

    def _blockAhead(self, sequence: int, enough: int) -> list[Block]:
        """
        The records from a sequence on that are not in the database yet, as a block.

        @param enough: stop at this number of bytes.
        """
        first = self._lastInDatabase + 1
        start = max(sequence - first, 0)
        starts = [0]
        for blob in islice(self._ahead, start, None):
            if starts[-1] >= enough:
                break
            starts.append(starts[-1] + len(blob))
        count = len(starts) - 1
        if not count:
            return []
        raw = b"".join(self._ahead[start : start + count])
        return [Block(raw, self.identity, range(first + start, first + start + count), starts)]

    # Reading

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        found: list[Record] = []
        if self.closed is not None:
            return fail(self.closed)
        sequence, maxBytes = self._readCached(found, sequence, limit, maxBytes)
        if len(found) >= limit or maxBytes <= 0 or sequence > self._bounds.last:
            return succeed(found)
        return self._readOn(found, sequence, limit, maxBytes)

    def _readCached(
        self, found: list[Record], sequence: int, limit: int, maxBytes: int
    ) -> tuple[int, int]:
        """
        @return: where to go on, and how many bytes are still wanted.
        """
        last = self._bounds.last
        sequence = max(sequence, self._bounds.first)
        while len(found) < limit and maxBytes > 0 and sequence <= last:
            block = self._owner.cache.find(self.identity, sequence)
            if block is None:
                break
            sequence, maxBytes = self._decode(found, block, sequence, limit, maxBytes)
        return sequence, maxBytes

    def _decode(
        self, found: list[Record], block: Block, sequence: int, limit: int, maxBytes: int
    ) -> tuple[int, int]:
        """
        @return: where to go on, and how many bytes are still wanted.
        """
        first, last = self._bounds.first, self._bounds.last
        sequences = block.sequences
        index = block.indexOf(max(sequence, first))
        stop = min(block.indexOf(last + 1), index + limit - len(found))
        if index < stop:
            together = block.records(index, stop, maxBytes)
            found += together
            maxBytes -= block.lengthOf(index, index + len(together))
            index += len(together)
        while index < len(sequences) and sequences[index] <= last:
            number = sequences[index]
            if len(found) >= limit or maxBytes <= 0:
                return number, maxBytes
            if number not in block.dead:
                try:
                    found.append(block.record(index))
                    maxBytes -= block.length(index)
                except Damaged as failure:
                    self._damaged(number, number + 1, str(failure))
            index += 1
        return max(block.last + 1, sequence), maxBytes

    @inlineCallbacks
    def _readOn(
        self, found: list[Record], sequence: int, limit: int, maxBytes: int
    ) -> Generator[Deferred[Any], Any, list[Record]]:
        while len(found) < limit and maxBytes > 0 and sequence <= self._bounds.last:
            blocks = yield self._fetchBlocks(sequence, min(maxBytes * 2, AHEAD))
            if not blocks:
                break
            for block in blocks:
                if len(found) < limit and maxBytes > 0:
                    after, maxBytes = self._decode(found, block, sequence, limit, maxBytes)
                    sequence = max(sequence, after)
            if blocks[-1].last < sequence and len(found) < limit and maxBytes > 0:
                sequence = max(sequence, blocks[-1].last + 1)
        return found

    @inlineCallbacks
    def exportRange(
        self, start: int, stop: int, maxBytes: int = 16777216
    ) -> Generator[Deferred[Any], Any, Columns]:
        """
        What is whole is put into columns by a thread that reads, where that is compiled.
        """
        first = max(start, self._bounds.first)
        last = min(stop, self._lastInDatabase + 1)
        if canGather() and first < last and maxBytes > 0:
            if self.closed is not None:
                raise self.closed
            found: Columns | None = yield self._owner.fetch(
                fetchColumns, self.identity, first, last, maxBytes
            )
            if self.closed is not None:
                raise self.closed
            if found is not None and found.next > start:
                lost = self._owner.troubles.damagedIn(self.name, start, found.next)
                return replace(found, damaged=tuple(lost))
        columns: Columns = yield super().exportRange(start, stop, maxBytes)
        return columns

    @inlineCallbacks
    def _fetchBlocks(
        self, sequence: int, enough: int
    ) -> Generator[Deferred[Any], Any, list[Block]]:
        """
        Fetch the blocks from the one on that holds a sequence. If none of those fetched reaches
        it, further ones are.
        """
        while True:
            if self.closed is not None:
                raise self.closed
            if sequence > self._lastInDatabase:
                return self._blockAhead(sequence, enough)
            version = self.version
            raws = yield self._owner.fetch(fetchBlocks, self.identity, sequence, enough)
            blocks = [self._keep(raw, version) for raw in raws]
            useful = [each for each in blocks if each is not None and each.last >= sequence]
            if useful:
                return useful
            if not raws or not raws[-1].following:
                return self._blockAhead(sequence, enough)
            sequence = raws[-1].following

    def _keep(self, raw: RawBlock, version: int) -> Block | None:
        """
        @param version: the log's when it was fetched; if that is not the log's now, the block
            may have been replaced and is not kept.
        """
        block = readBlock(raw.raw, self.identity, raw.first, raw.dead)
        if block is None:
            stop = raw.following or self._lastInDatabase + 1
            self._damaged(raw.first, stop, "a block has no whole record in it")
            return None
        for sequence in block.missing:
            self._damaged(sequence, sequence + 1, "a record does not match its checksum")
        if version == self.version:
            self._owner.cache.add(self.identity, raw.first, block)
        return block

    def _damaged(self, start: int, stop: int, reason: str) -> None:
        """
        Tell of records that cannot be served, as far as they still should be there.
        """
        start, stop = max(start, self._bounds.first), min(stop, self._bounds.last + 1)
        if start < stop:
            self._owner.troubles.recordsDamaged(self.name, start, stop, reason)

    @inlineCallbacks
    def sequenceAt(self, timestamp: int) -> Generator[Deferred[Any], Any, int]:
        if self.closed is not None:
            raise self.closed
        first, last = self._bounds.first, self._lastInDatabase
        version = self.version
        raws = yield self._owner.fetch(findTime, self.identity, first, last, timestamp)
        for raw in raws:
            block = self._keep(raw, version)
            if block is None:
                continue
            for index in block.living():
                sequence = block.sequences[index]
                if (
                    first <= sequence <= last
                    and timestampOf(block.raw, block.starts[index]) >= timestamp
                ):
                    return sequence
        for blob in self._ahead:
            if timestampOf(blob, 0) >= timestamp:
                return sequenceOf(blob, 0)
        return self._bounds.last + 1

    @inlineCallbacks
    def _newest(self) -> Generator[Deferred[Any], Any, int]:
        """
        The newest sequence that is there, damaged or not; 0 if there is none.
        """
        if self._ahead:
            return self._bounds.last
        sequence = self._bounds.last
        while sequence >= self._bounds.first:
            raw = yield self._owner.fetch(fetchBefore, self.identity, sequence)
            if raw is None:
                break
            block = readBlock(raw.raw, self.identity, raw.first, raw.dead)
            living = [] if block is None else list(block.living())
            found = [block.sequences[each] for each in living] if block is not None else []
            found += [] if block is None else block.missing
            found = [each for each in found if each <= sequence]
            if found:
                newest = max(found)
                return newest if newest >= self._bounds.first else 0
            sequence = raw.first - 1
        return 0
