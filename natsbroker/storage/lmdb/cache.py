"""
A cache of current blocks, limited in bytes. A reader that pages through a log thus fetches each
block once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import lmdb

from natsbroker.interfaces.records import EncodedRecord
from natsbroker.storage.blocks import Block, readBlock
from natsbroker.storage.lmdb.ahead import RecordsAhead
from natsbroker.storage.lmdb.fetching import blockIn, findRecord, lastIn

LARGEST = 32 << 20
"""Bytes of blocks that are kept."""

LATELY = 64
"""The number of remembered blocks that single records were read from."""

EXTRA = 200
"""The approximate overhead, in bytes, of a cached block, and of each record in it."""


class BlockCache:
    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._size = 0
        self._blocks: OrderedDict[tuple[int, int], Block] = OrderedDict()
        self._firsts: dict[int, list[int]] = {}
        self._lately: dict[tuple[int, int], None] = {}
        # The block that was found last, with its log and its first and last sequence.
        self._recent: tuple[int, int, int, Block] | None = None

    def find(self, identity: int, sequence: int) -> Block | None:
        recent = self._recent
        if recent is not None and recent[0] == identity and recent[1] <= sequence <= recent[2]:
            return recent[3]
        firsts = self._firsts.get(identity)
        if not firsts:
            return None
        index = bisect_right(firsts, sequence) - 1
        if index < 0:
            return None
        key = (identity, firsts[index])
        block = self._blocks[key]
        last = block.last
        if last < sequence:
            return None
        self._blocks.move_to_end(key)
        self._recent = identity, firsts[index], last, block
        return block

    def recall(self, identity: int, sequence: int) -> EncodedRecord | None:
        block = self.find(identity, sequence)
        if block is None or sequence in block.dead:
            return None
        index = block.indexOf(sequence)
        if block.sequences[index] != sequence:
            return None
        return block.raw, *block.place(index)

    def isAskedAgain(self, identity: int, first: int) -> bool:
        """
        Whether a record of a block was asked for recently, so that the block is worth keeping.
        """
        key, lately = (identity, first), self._lately
        if key in lately:
            del lately[key]
            return True
        lately[key] = None
        if len(lately) > LATELY:
            del lately[next(iter(lately))]
        return False

    def add(self, identity: int, first: int, block: Block) -> None:
        key = (identity, first)
        if key in self._blocks or self._weight(block) > self._largest // 4:
            return
        self._blocks[key] = block
        insort(self._firsts.setdefault(identity, []), first)
        self._size += self._weight(block)
        while self._size > self._largest:
            self._drop(next(iter(self._blocks)))

    def forget(self, keys: Iterable[tuple[int, int]]) -> None:
        for key in keys:
            if key in self._blocks:
                self._drop(key)

    def forgetLog(self, identity: int) -> None:
        self.forget([(identity, first) for first in self._firsts.get(identity, ())])

    def _drop(self, key: tuple[int, int]) -> None:
        self._recent = None
        self._size -= self._weight(self._blocks.pop(key))
        firsts = self._firsts[key[0]]
        del firsts[bisect_left(firsts, key[1])]
        if not firsts:
            del self._firsts[key[0]]

    def _weight(self, block: Block) -> int:
        return len(block.raw) + 4 * len(block.starts) + EXTRA


class QuickRecords:
    """Reads of a log without waiting; see L{natsbroker.storage.lmdb.environment.QuickReads}."""

    def __init__(self, owner: Any, cache: BlockCache, identity: int) -> None:
        self._owner = owner
        self._cache = cache
        self._identity = identity
        self._read = _NOTHING

    def lastOf(self, subject: bytes, ahead: RecordsAhead, version: int) -> int:
        """
        Read the last record of a literal subject in the database, and return its sequence; 0 if it
        is not known.

        @param version: as in L{find}.
        """
        return self._owner.readQuickly(self._readLast, subject, ahead, version) or 0

    def _readLast(
        self, txn: lmdb.Transaction[bytes], subject: bytes, ahead: RecordsAhead, version: int
    ) -> int:
        last = lastIn(txn, self._identity, subject, self._owner.codec)
        if last and self._cache.find(self._identity, last) is None:
            self._read = last, version, self._readRecord(txn, last, ahead)
        return last

    def find(self, sequence: int, ahead: RecordsAhead, version: int) -> EncodedRecord | None:
        """
        The bytes of a record in the database, unverified. Its block is kept if more records of it
        are wanted.

        @param version: the version of the log. While it stays the same, nothing was removed.
        """
        (known, of, record), self._read = self._read, _NOTHING
        if known == sequence and of == version:
            return record
        encoded: EncodedRecord | None = self._owner.readQuickly(self._readRecord, sequence, ahead)
        return encoded

    def _readRecord(
        self, txn: lmdb.Transaction[bytes], sequence: int, ahead: RecordsAhead
    ) -> EncodedRecord | None:
        located = findRecord(txn, self._identity, sequence, self._owner.codec)
        if located is None:
            return None
        first, record = located
        if self._cache.isAskedAgain(self._identity, first):
            self._keepBlock(txn, first, ahead)
        return record, 0, len(record)

    def _keepBlock(self, txn: lmdb.Transaction[bytes], first: int, ahead: RecordsAhead) -> None:
        located = blockIn(txn, self._identity, first)
        if located is not None:
            _, raw, dead = located
            plain = self._owner.codec.openBlock(bytes(raw), self._identity)
            block = readBlock(plain, self._identity, first, dead)
            if block is not None and not block.missing:
                block.dead = dead.union(ahead.goneIn(block.sequences))
                self._cache.add(self._identity, first, block)


_NOTHING: tuple[int, int, EncodedRecord | None] = (0, 0, None)
