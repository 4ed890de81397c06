"""
The values of a write transaction, and the blocks of one log in it.

Each commit writes the new records of a log as blocks of up to 64 KiB. If the last block lies inside
a page of the tree, a block with its records and the new ones replaces it. L{MERGE} final blocks
under half the full size become one. A log that grows by single records is thus written about three
times, and its index stays small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import lmdb

from natsbroker.storage.blocks import (
    LARGEST_BLOCK,
    NONE,
    Block,
    chunks,
    readBlock,
    unpackDead,
)
from natsbroker.storage.lmdb.encryption.codec import PlainCodec
from natsbroker.storage.lmdb.layout import LogRow, blockKey, deadKey, sequenceOf

INLINE = 1800
"""A last block shorter than this is replaced when more records come."""

SEALED = LARGEST_BLOCK // 2
"""A block at least this long is never merged with others."""

MERGE = 16
"""The number of short blocks at the end of a log that are merged."""


class ValueTransaction:
    """
    @ivar generation: the mark of the values written in it.
    @ivar heads: the first blocks of logs, as far as they are known.
    @ivar touched: blocks that were replaced, deleted or had records deleted.
    @ivar unfinished: logs with more deletions than one commit should do.
    """

    def __init__(
        self,
        txn: lmdb.Transaction[bytes],
        mark: bytes,
        generation: int,
        heads: dict[int, Block],
        now: int,
        codec: PlainCodec,
    ) -> None:
        self.txn = txn
        self.codec = codec
        self.mark = mark
        self.generation = generation
        self.heads = heads
        self.now = now
        self.touched: set[tuple[int, int]] = set()
        self.unfinished: set[int] = set()
        self._lengths: dict[bytes, int] = {}

    def put(self, key: bytes, value: bytes) -> None:
        self.putRaw(key, self.codec.fold(self.mark, self.generation, key, value))

    def putRaw(self, key: bytes, raw: bytes) -> None:
        # LMDB leaves a value that was put in the same transaction all of its pages, and its
        # verification takes those that a shorter one does not need for damage.
        if len(raw) < self._lengths.get(key, 0):
            self.txn.delete(key)
        if len(raw) > INLINE or key in self._lengths:
            self._lengths[key] = len(raw)
        self.txn.put(key, raw)

    def putBlocks(
        self, identity: int, sequences: Sequence[int], blobs: Sequence[bytes]
    ) -> Iterator[tuple[int, int]]:
        """Store records as blocks; gives the first sequence and the length of each."""
        for contents in chunks(sequences, blobs):
            raw = self.codec.block(self.mark, identity, self.generation, contents)
            first = contents.sequences[0]
            self.putRaw(blockKey(identity, first), raw)
            yield first, len(raw)

    def get(self, key: bytes) -> bytes | None:
        """A value. C{Damaged} if it is not whole."""
        raw = self.txn.get(key)
        if raw is None:
            return None
        return self.codec.unfold(raw, key)

    def deleteSome(self, prefix: bytes, most: int) -> int:
        deleted = 0
        with self.txn.cursor() as cursor:
            isAhead = cursor.set_range(prefix)
            while isAhead and deleted < most and cursor.key().startswith(prefix):
                isAhead = cursor.delete() and cursor.key() != b""
                deleted += 1
        return deleted


class LogBlocks:
    def __init__(self, transaction: ValueTransaction, row: LogRow) -> None:
        self.row = row
        self._transaction = transaction
        self._blobs: list[bytes] = []
        self._runs: list[range] = []
        self._written = 0

    def flush(self) -> None:
        if not self._blobs:
            return
        blobs, runs = self._blobs, self._runs
        self._blobs, self._runs = [], []
        sequences: Sequence[int] = range(runs[0].start, runs[-1].stop)
        if len(sequences) != len(blobs):
            sequences = list(chain.from_iterable(runs))
        tail = self.row.tail
        if tail and tail[-1][1] < INLINE:
            before = self._take(tail[-1][0])
            if before is not None:
                tail.pop()
                sequences = [*before[0], *sequences]
                blobs = [*before[1], *blobs]
        self._write(sequences, blobs)
        if len(tail) >= MERGE:
            self._merge()

    def _write(self, sequences: Sequence[int], blobs: Sequence[bytes]) -> None:
        row = self.row
        for first, length in self._transaction.putBlocks(row.identity, sequences, blobs):
            self._written += 1
            if length < SEALED:
                row.tail.append((first, length))
            else:
                row.tail.clear()

    def _take(self, first: int) -> tuple[Sequence[int], list[bytes]] | None:
        block = self._blockAt(first)
        if block is None or block.missing:
            return None
        self._remove(block)
        return block.blobs(list(block.living()))

    def _merge(self) -> None:
        short, self.row.tail = self.row.tail, []
        sequences: list[int] = []
        blobs: list[bytes] = []
        for first, _ in short:
            taken = self._take(first)
            if taken is None:
                self._write(sequences, blobs)
                sequences, blobs = [], []
                self.row.tail.clear()
            else:
                sequences += taken[0]
                blobs += taken[1]
        self._write(sequences, blobs)

    def _blockAt(self, first: int) -> Block | None:
        txn, identity = self._transaction.txn, self.row.identity
        raw = txn.get(blockKey(identity, first))
        if raw is None:
            return None
        plain = self._transaction.codec.openBlock(raw, identity)
        return readBlock(plain, identity, first, self._dead(first))

    def _dead(self, first: int) -> frozenset[int]:
        value = self._transaction.get(deadKey(self.row.identity, first))
        return NONE if value is None else unpackDead(first, value)

    def blocksFrom(self, sequence: int) -> Iterator[Block]:
        """The blocks with a whole record, from the one that holds a sequence on."""
        identity = self.row.identity
        prefix = blockKey(identity, 0)[:9]
        following = sequence
        first = self._floor(sequence)
        while first is not None:
            block = self._blockAt(first)
            if block is not None:
                yield block
            following = first + 1
            with self._transaction.txn.cursor() as cursor:
                isThere = cursor.set_range(blockKey(identity, following))
                key = cursor.key() if isThere else b""
            first = sequenceOf(key) if key.startswith(prefix) else None

    def _floor(self, sequence: int) -> int | None:
        """The beginning of the block that holds a sequence, or else of the next block."""
        identity = self.row.identity
        prefix = blockKey(identity, 0)[:9]
        wanted = blockKey(identity, sequence)
        with self._transaction.txn.cursor() as cursor:
            isThere = cursor.set_range(wanted)
            key = cursor.key() if isThere else b""
            if key != wanted:
                before = cursor.prev() if isThere else cursor.last()
                if before and cursor.key().startswith(prefix):
                    key = cursor.key()
        return sequenceOf(key) if key.startswith(prefix) else None

    def _head(self) -> tuple[Block, int] | None:
        row, heads = self.row, self._transaction.heads
        block = heads.get(row.identity)
        known = block is not None and (row.identity, block.first) not in self._transaction.touched
        if block is not None and known and block.first <= row.first <= block.last:
            index = block.indexOf(row.first)
            if block.sequences[index] == row.first:
                return block, index
        for block in self.blocksFrom(row.first):
            for index in block.living(row.first):
                heads[row.identity] = block
                return block, index
        return None

    def _sequencesOf(self, subject: bytes, start: int) -> Iterator[int]:
        start = max(start, self.row.first)
        for block in self.blocksFrom(start):
            for index in block.living(start):
                if block.subject(index) == subject:
                    yield block.sequences[index]

    def _newest(self, count: int) -> list[int]:
        newest: list[int] = []
        sequence = self.row.last
        while len(newest) < count and sequence >= self.row.first:
            first = self._floor(sequence)
            block = None if first is None else self._blockAt(first)
            if first is None or first > sequence:
                break
            if block is not None:
                newest = [block.sequences[index] for index in block.living(self.row.first)] + newest
            sequence = first - 1
        return newest[-count:]

    def _sequenceFromEnd(self, count: int) -> int:
        self.flush()
        drop = self.row.count - count
        for block in self.blocksFrom(self.row.first):
            living = list(block.living(self.row.first))
            if len(living) > drop:
                return block.sequences[living[drop]]
            drop -= len(living)
        return self.row.first

    def _rewrite(self, block: Block, living: Sequence[int]) -> None:
        tail = self.row.tail
        self._remove(block)
        for written in self._transaction.putBlocks(self.row.identity, *block.blobs(living)):
            for index, (first, _) in enumerate(tail):
                if first == block.first:
                    tail[index] = written

    def _forget(self, block: Block) -> None:
        self.row.count = max(self.row.count - len(block.missing), 0)
        self.row.size = max(self.row.size - block.missingSize, 0) if self.row.count else 0
        self._remove(block)
        self.row.tail = [part for part in self.row.tail if part[0] != block.first]

    def _remove(self, block: Block) -> None:
        txn, identity = self._transaction.txn, self.row.identity
        first = self._keyOf(block)
        txn.delete(blockKey(identity, first))
        if block.dead:
            txn.delete(deadKey(identity, first))
        self._touch(first)

    def _touch(self, first: int) -> None:
        self._transaction.touched.add((self.row.identity, first))
        self._transaction.heads.pop(self.row.identity, None)

    def _keyOf(self, block: Block) -> int:
        """The sequence in the key of a block: its first one, unless that record is damaged."""
        if not block.missing:
            return block.first
        first = self._floor(block.first)
        return block.first if first is None else first

    def _findFirst(self) -> None:
        row = self.row
        if not row.count:
            row.first = row.last + 1
            return
        head = self._head()
        if head is None:
            row.first, row.count, row.size = row.last + 1, 0, 0
        else:
            row.first = head[0].sequences[head[1]]
