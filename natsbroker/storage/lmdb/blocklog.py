"""
The blocks of one log in a write transaction.

How records become blocks: each commit writes what is new of a log as blocks of up to 64 KiB. A
last block so small that it lies inside a page of the tree is replaced by one that holds its
records too; when a log ends with L{MERGE} blocks under half the full size, they become one. So a
log that grows by single records is written about three times over, and its index stays small.

The row says what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from natsbroker.storage.blocks import LARGEST_BLOCK, NONE, Block, build, chunks, unpackDead
from natsbroker.storage.lmdb.layout import LogRow, blockKey, deadKey, sequenceOf
from natsbroker.storage.lmdb.values import ValueTransaction
from natsbroker.storage.records import subjectOf
from natsbroker.storage.walking import readBlock

INLINE = 1800
"""A last block shorter than this is replaced when more records come."""

SEALED = LARGEST_BLOCK // 2
"""A block at least this long is never merged with others."""

MERGE = 16
"""The number of short blocks at the end of a log that are merged."""


class LogBlocks:
    """
    @ivar row: as it will be committed.
    """

    def __init__(self, transaction: ValueTransaction, row: LogRow) -> None:
        self.row = row
        self._transaction = transaction
        self._blobs: list[bytes] = []
        self._runs: list[range] = []
        self._written = 0

    # Writing

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
        transaction, row = self._transaction, self.row
        for contents in chunks(sequences, blobs):
            raw = build(transaction.mark, row.identity, transaction.generation, contents)
            first = contents.sequences[0]
            transaction.txn.put(blockKey(row.identity, first), raw)
            self._written += 1
            if len(raw) < SEALED:
                row.tail.append((first, len(raw)))
            else:
                row.tail.clear()

    def _take(self, first: int) -> tuple[Sequence[int], list[bytes]] | None:
        """
        Take a block out, to store its records again.

        @return: C{None}, and the block stays, if it is damaged.
        """
        block = self._blockAt(first)
        if block is None or block.missing:
            return None
        starts = block.starts
        indexes = list(block.living())
        self._remove(block)
        return (
            [block.sequences[each] for each in indexes],
            [block.raw[starts[each] : starts[each + 1]] for each in indexes],
        )

    def _merge(self) -> None:
        """
        Make one block of the short ones at the end.
        """
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

    # Finding

    def _blockAt(self, first: int) -> Block | None:
        txn, identity = self._transaction.txn, self.row.identity
        raw = txn.get(blockKey(identity, first))
        return None if raw is None else readBlock(raw, identity, first, self._dead(first))

    def _dead(self, first: int) -> frozenset[int]:
        value = self._transaction.get(deadKey(self.row.identity, first))
        return NONE if value is None else unpackDead(first, value)

    def blocksFrom(self, sequence: int) -> Iterator[Block]:
        """
        The blocks from the one on that holds a sequence, if it is there. Blocks without any whole
        record are left out.
        """
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
                found = cursor.set_range(blockKey(identity, following))
                key = cursor.key() if found else b""
            first = sequenceOf(key) if key.startswith(prefix) else None

    def _floor(self, sequence: int) -> int | None:
        """
        Where the block begins that holds a sequence, or else the one after it.
        """
        identity = self.row.identity
        prefix = blockKey(identity, 0)[:9]
        wanted = blockKey(identity, sequence)
        with self._transaction.txn.cursor() as cursor:
            found = cursor.set_range(wanted)
            key = cursor.key() if found else b""
            if key != wanted:
                before = cursor.prev() if found else cursor.last()
                if before and cursor.key().startswith(prefix):
                    key = cursor.key()
        return sequenceOf(key) if key.startswith(prefix) else None

    def _head(self) -> tuple[Block, int] | None:
        """
        The block with the oldest record, and where in it that is.
        """
        row, heads = self.row, self._transaction.heads
        block = heads.get(row.identity)
        known = block is not None and (row.identity, block.first) not in self._transaction.touched
        if block is not None and known and block.first <= row.first <= block.last:
            index = block.indexOf(row.first)
            if block.sequences[index] == row.first:
                return block, index
        for block in self.blocksFrom(row.first):
            for index in block.living():
                if block.sequences[index] >= row.first:
                    heads[row.identity] = block
                    return block, index
        return None

    def _sequencesOf(self, subject: bytes, start: int) -> Iterator[int]:
        start = max(start, self.row.first)
        for block in self.blocksFrom(start):
            for index in block.living():
                sequence = block.sequences[index]
                if sequence >= start and subjectOf(block.raw, block.starts[index]) == subject:
                    yield sequence

    def _newest(self, count: int) -> list[int]:
        """
        The newest sequences, rising.
        """
        found: list[int] = []
        sequence = self.row.last
        while len(found) < count and sequence >= self.row.first:
            first = self._floor(sequence)
            block = None if first is None else self._blockAt(first)
            if first is None or first > sequence:
                break
            if block is not None:
                living = [block.sequences[each] for each in block.living()]
                found = [each for each in living if each >= self.row.first] + found
            sequence = first - 1
        return found[-count:]

    def _sequenceFromEnd(self, count: int) -> int:
        """
        The sequence from which on there is a given number of records.
        """
        self.flush()
        drop = self.row.count - count
        for block in self.blocksFrom(self.row.first):
            living = [each for each in block.living() if block.sequences[each] >= self.row.first]
            if len(living) > drop:
                return block.sequences[living[drop]]
            drop -= len(living)
        return self.row.first

    # Replacing

    def _rewrite(self, block: Block, living: Sequence[int]) -> None:
        transaction, row = self._transaction, self.row
        self._remove(block)
        pieces = [block.raw[block.starts[each] : block.starts[each + 1]] for each in living]
        sequences = [block.sequences[each] for each in living]
        for contents in chunks(sequences, pieces):
            raw = build(transaction.mark, row.identity, transaction.generation, contents)
            transaction.txn.put(blockKey(row.identity, contents.sequences[0]), raw)
            self._retail(block.first, contents.sequences[0], len(raw))

    def _retail(self, before: int, after: int, length: int) -> None:
        tail = self.row.tail
        for index, (first, _) in enumerate(tail):
            if first == before:
                tail[index] = (after, length)

    def _forget(self, block: Block) -> None:
        self.row.count = max(self.row.count - len(block.missing), 0)
        self.row.size = max(self.row.size - block.missingSize, 0) if self.row.count else 0
        self._remove(block)
        self.row.tail = [each for each in self.row.tail if each[0] != block.first]

    def _remove(self, block: Block) -> None:
        """
        Delete the values of a block, to forget it or to store its records again.
        """
        transaction, identity = self._transaction, self.row.identity
        first = self._keyOf(block)
        transaction.delete(blockKey(identity, first))
        if block.dead:
            transaction.delete(deadKey(identity, first))
        self._touch(first)

    def _touch(self, first: int) -> None:
        self._transaction.touched.add((self.row.identity, first))
        self._transaction.heads.pop(self.row.identity, None)

    def _keyOf(self, block: Block) -> int:
        """
        The sequence under which a block lies: its first, unless that record is damaged.
        """
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
