"""
One write transaction: what the requests of a group do to the database.

L{Transaction} is a transaction with the values it knows how to wrap; L{LogWriter} is one log in
it. Everything is applied to copies of the rows, which the commit thread keeps if the commit
succeeds and forgets if it does not.

How records become blocks: each commit writes what is new of a log as blocks of up to 64 KiB. A
last block so small that it lies inside a page of the tree is replaced by one that holds its
records too; when a log ends with L{MERGE} blocks under half the full size, they become one. So a
log that grows by single records is written about three times over, and its index stays small.

Promises: nothing here commits, and nothing waits.
Must never know: threads, Deferreds, the reactor.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

import lmdb

from natsbroker.store.blocks import (
    LARGEST_BLOCK,
    NONE,
    Block,
    build,
    chunks,
    packDead,
    readBlock,
    unpackDead,
)
from natsbroker.store.envelopes import unwrap, unwrapEither, wrap, wrapTwice
from natsbroker.store.lmdb.layout import (
    FORMAT_KEY,
    LISTED,
    LogRow,
    Tally,
    blockKey,
    deadKey,
    holdsKey,
    identityOf,
    isTwice,
    lostKey,
    packFormat,
    packHolds,
    rowKey,
    sequenceOf,
    tallyKey,
    tallyPrefix,
)
from natsbroker.store.policy import Policy
from natsbroker.store.records import Damaged, subjectOf, timestampOf

__all__ = ["LogWriter", "Transaction"]

INLINE = 1800
"""A last block shorter than this is replaced when more records come."""

SEALED = LARGEST_BLOCK // 2
"""A block at least this long is never merged with others."""

MERGE = 16
"""So many short blocks at the end of a log are merged."""

MOST_LISTED = 1024
"""How many sequences a tally lists at most."""

BLOCKS_A_SLICE = 64
SUBJECTS_A_SLICE = 200
KEYS_A_SLICE = 1000
"""How much is deleted in one commit, beyond what was written in it."""


class Transaction:
    """
    A write transaction.

    @ivar generation: what the values written in it are marked with.
    @ivar touched: blocks that were replaced, deleted or had records deleted.
    @ivar unfinished: logs of which there is more to delete than one commit should.
    """

    def __init__(
        self,
        txn: lmdb.Transaction[bytes],
        mark: bytes,
        generation: int,
        rows: dict[int, LogRow],
        policies: dict[int, Policy],
        heads: dict[int, Block],
        now: int,
    ) -> None:
        """
        @param rows: the logs as they are committed.
        @param heads: the first blocks of logs, as far as they are known.
        @param now: the wall clock, in nanoseconds.
        """
        self.txn = txn
        self.mark = mark
        self.generation = generation
        self.now = now
        self.heads = heads
        self.touched: set[tuple[int, int]] = set()
        self.unfinished: set[int] = set()
        self._rows = rows
        self._policies = policies
        self.writers: dict[int, LogWriter] = {}

    def log(self, identity: int) -> LogWriter:
        """
        A log, to be changed.

        @raise KeyError: if there is none.
        """
        writer = self.writers.get(identity)
        if writer is None:
            policy = self._policies.get(identity) or Policy()
            writer = LogWriter(self, self._rows[identity].copy(), policy)
            self.writers[identity] = writer
        return writer

    def create(self, row: LogRow) -> None:
        """
        Add a log.
        """
        policy = self._policies.get(row.identity) or Policy()
        self.writers[row.identity] = LogWriter(self, row.copy(), policy)

    def put(self, key: bytes, value: bytes) -> None:
        """
        Store a value that is no block.
        """
        fold = wrapTwice if isTwice(key) else wrap
        self.txn.put(key, fold(self.mark, key[:1], self.generation, key, value))

    def get(self, key: bytes) -> bytes | None:
        """
        Read what L{put} stored.

        @raise Damaged: if it is not whole.
        """
        raw = self.txn.get(key)
        if raw is None:
            return None
        return unwrapEither(raw, key)[0].value if isTwice(key) else unwrap(raw, key).value

    def delete(self, key: bytes) -> bool:
        """
        Delete what lies under a key.

        @return: whether there was something.
        """
        return self.txn.delete(key)

    def putFormat(self, base: int) -> None:
        """
        Store what the file is.
        """
        self.put(FORMAT_KEY, packFormat(base))

    def finish(self) -> None:
        """
        Write all that is still in memory.
        """
        for writer in self.writers.values():
            writer.finish()

    def dropSlice(self, row: LogRow) -> bool:
        """
        Delete some more of a log that was dropped.

        @return: whether nothing is left of it.
        """
        left = KEYS_A_SLICE
        for prefix in (blockKey(row.identity, 0)[:9], deadKey(row.identity, 0)[:9]):
            left -= self.deleteSome(prefix, left)
        left -= self.deleteSome(tallyPrefix(row.identity), left)
        if left <= 0:
            return False
        for key in (holdsKey, lostKey, rowKey):
            self.delete(key(row.identity))
        return True

    def deleteSome(self, prefix: bytes, most: int) -> int:
        """
        Delete values whose keys begin so.

        @return: how many.
        """
        deleted = 0
        with self.txn.cursor() as cursor:
            found = cursor.set_range(prefix)
            while found and deleted < most and cursor.key().startswith(prefix):
                found = cursor.delete() and cursor.key() != b""
                deleted += 1
        return deleted


class LogWriter:
    """
    A log in a transaction.

    @ivar row: as it will be committed.
    @ivar discardTo: what is below goes, unless it is held.
    @ivar trimmed: whether everything has gone that should.
    @ivar oldest: the timestamp of the oldest record, if that matters and there is one.
    """

    def __init__(self, transaction: Transaction, row: LogRow, policy: Policy) -> None:
        self._transaction = transaction
        self.row = row
        self._policy = policy
        self.discardTo = 0
        self.trimmed = True
        self.oldest: int | None = None
        self._blobs: list[bytes] = []
        self._runs: list[range] = []
        self._tallies: dict[bytes, Tally] = {}
        self._counted: list[bytes] = []
        self._written = 0

    # Appending

    def append(
        self,
        first: int,
        blobs: Sequence[bytes],
        size: int,
        lastTime: int,
        sole: bytes,
        subjects: Sequence[bytes] | None,
    ) -> None:
        """
        Add records.

        @param first: the sequence of the first.
        @param size: bytes of subjects, headers and payloads.
        @param sole: the subject of all of them, if C{subjects} is L{None}.
        """
        row = self.row
        sequences = range(first, first + len(blobs))
        if subjects is not None:
            self._beginIndex()
            self._count(subjects, sequences)
        elif not row.indexed:
            row.sole = sole
        else:
            self._count([sole] * len(blobs), sequences)
        if not row.count:
            row.first = first
        row.count += len(blobs)
        row.size += size
        row.last = sequences[-1]
        row.lastTime = lastTime
        self._runs.append(sequences)
        self._blobs.extend(blobs)

    def skipTo(self, sequence: int) -> None:
        """
        Leave out what is below a sequence.
        """
        if sequence > self.row.last + 1:
            self.row.last = sequence - 1
            if not self.row.count:
                self.row.first = sequence

    def flush(self) -> None:
        """
        Make blocks of the records that were added.
        """
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
        """
        Store records as blocks.
        """
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
        Take a block out, to store its records anew.

        @return: L{None}, and the block stays, if it is damaged.
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
        """
        The block that begins with a sequence.
        """
        txn, identity = self._transaction.txn, self.row.identity
        raw = txn.get(blockKey(identity, first))
        return None if raw is None else readBlock(raw, identity, first, self._dead(first))

    def _dead(self, first: int) -> frozenset[int]:
        """
        What was deleted from the block that begins with a sequence.
        """
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

    # Deleting

    def delete(self, sequences: Collection[int]) -> int:
        """
        Delete single records.

        @return: how many were there.
        """
        self.flush()
        wanted = sorted(set(sequences))
        position = bisect_left(wanted, self.row.first)
        deleted = 0
        while position < len(wanted) and wanted[position] <= self.row.last:
            block = next(self.blocksFrom(wanted[position]), None)
            if block is None:
                break
            indexes = []
            if block.last < wanted[position]:
                position += 1
                continue
            while position < len(wanted) and wanted[position] <= block.last:
                index = block.indexOf(wanted[position])
                sequence = block.sequences[index]
                if sequence == wanted[position] and sequence not in block.dead:
                    indexes.append(index)
                position += 1
            if indexes:
                deleted += len(indexes)
                self._kill(block, indexes)
        if deleted:
            self._findFirst()
        return deleted

    def _kill(self, block: Block, indexes: Sequence[int]) -> None:
        """
        Delete records of one block.
        """
        row, transaction = self.row, self._transaction
        row.count -= len(indexes)
        row.size -= sum(map(block.length, indexes))
        self._uncount(block, indexes)
        block.dead = block.dead.union(block.sequences[each] for each in indexes)
        first = self._keyOf(block)
        self._touch(first)
        living = list(block.living())
        if not living:
            self._forget(block)
        elif len(living) * 2 < len(block.sequences) and not block.missing:
            self._rewrite(block, living)
        else:
            transaction.put(deadKey(row.identity, first), packDead(first, block.dead))

    def _rewrite(self, block: Block, living: Sequence[int]) -> None:
        """
        Store a block anew, without what was deleted.
        """
        transaction, row = self._transaction, self.row
        self._remove(block)
        pieces = [block.raw[block.starts[each] : block.starts[each + 1]] for each in living]
        sequences = [block.sequences[each] for each in living]
        for contents in chunks(sequences, pieces):
            raw = build(transaction.mark, row.identity, transaction.generation, contents)
            transaction.txn.put(blockKey(row.identity, contents.sequences[0]), raw)
            self._retail(block.first, contents.sequences[0], len(raw))

    def _retail(self, before: int, after: int, length: int) -> None:
        """
        Note that one of the short blocks at the end was replaced.
        """
        tail = self.row.tail
        for index, (first, _) in enumerate(tail):
            if first == before:
                tail[index] = (after, length)

    def _forget(self, block: Block) -> None:
        """
        Delete a block for good.
        """
        self.row.count = max(self.row.count - len(block.missing), 0)
        self.row.size = max(self.row.size - block.missingSize, 0) if self.row.count else 0
        self._remove(block)
        self.row.tail = [each for each in self.row.tail if each[0] != block.first]

    def _remove(self, block: Block) -> None:
        """
        Delete the values of a block, to forget it or to store its records anew.
        """
        transaction, identity = self._transaction, self.row.identity
        first = self._keyOf(block)
        transaction.delete(blockKey(identity, first))
        if block.dead:
            transaction.delete(deadKey(identity, first))
        self._touch(first)

    def _touch(self, first: int) -> None:
        """
        Note that the block under a sequence is not what it was.
        """
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
        """
        Make C{row.first} the oldest record, after some were deleted.
        """
        row = self.row
        if not row.count:
            row.first = row.last + 1
            return
        head = self._head()
        if head is None:
            row.first, row.count, row.size = row.last + 1, 0, 0
        else:
            row.first = head[0].sequences[head[1]]

    # Retention

    def trim(self) -> bool:
        """
        Let the oldest records go that the limits, or L{discardTo}, do not allow.

        @return: whether that is done; if not, enough was done for one commit.
        """
        budget = max(BLOCKS_A_SLICE, 4 * self._written)
        while self._mayTrim():
            if budget <= 0:
                return False
            budget -= 1
            head = self._head()
            if head is None:
                self._findFirst()
                return True
            if not self._trimBlock(*head):
                return True
        return True

    def _mayTrim(self) -> bool:
        """
        Whether something may have to go, as far as the row says.
        """
        row, retention = self.row, self._policy.retention
        if not row.count:
            return False
        return bool(
            row.first < self.discardTo
            or (retention.count and row.count > retention.count)
            or (retention.size and row.size > retention.size and row.count > 1)
            or retention.age
        )

    def _trimBlock(self, block: Block, index: int) -> bool:
        """
        Let records go from the first block.

        @param index: of its oldest one.
        @return: whether all went.
        """
        row, retention, floor = self.row, self._policy.retention, self._policy.floor
        cutoff = self._transaction.now - retention.age if retention.age else 0
        gone = []
        kept = -1
        for each in block.living():
            if each < index:
                continue
            sequence = block.sequences[each]
            must = sequence < self.discardTo or (retention.count and row.count > retention.count)
            must = must or (retention.size and row.size > retention.size and row.count > 1)
            must = must or timestampOf(block.raw, block.starts[each]) < cutoff
            if not must or (floor is not None and sequence >= floor):
                kept = each
                break
            row.count -= 1
            row.size -= block.length(each)
            gone.append(each)
        self._uncount(block, gone)
        if kept >= 0:
            row.first = block.sequences[kept]
            return False
        self._transaction.heads.pop(row.identity, None)
        self._forget(block)
        row.first = block.last + 1
        self._findFirst()
        return True

    def trimSubjects(self) -> bool:
        """
        Let the oldest records go of subjects that have too many.

        @return: whether that is done.
        """
        limit = self._policy.retention.perSubject
        if not limit:
            return True
        if not self.row.indexed:
            if self.row.sole and self.row.count > limit:
                self.discardTo = max(self.discardTo, self._sequenceFromEnd(limit))
            return True
        counted, self._counted = self._counted, []
        if self._policy.sweep is not None:
            counted += self._sweepOn(self._policy.sweep, limit)
        self.delete(self._excess(counted, limit))
        return self._policy.sweep is None

    def _sweepOn(self, after: bytes, limit: int) -> list[bytes]:
        """
        Find some of the subjects that have too many records, and note how far that went.
        """
        prefix = tallyPrefix(self.row.identity)
        found: list[bytes] = []
        seen = 0
        self._writeTallies()
        with self._transaction.txn.cursor() as cursor:
            more = cursor.set_range(max(prefix, after + b"\0"))
            while more and cursor.key().startswith(prefix):
                tally = self._unwrapTally(cursor.key(), cursor.value())
                if tally is not None and tally.count > limit:
                    found.append(tally.subject)
                seen += 1
                if len(found) >= SUBJECTS_A_SLICE or seen >= KEYS_A_SLICE:
                    self._policy.sweep = cursor.key()
                    return found
                more = cursor.next()
        self._policy.sweep = None
        return found

    def _unwrapTally(self, key: bytes, raw: bytes) -> Tally | None:
        """
        A tally, or L{None} if it is damaged.
        """
        try:
            return Tally.unpack(unwrap(raw, key).value)
        except Damaged:
            return None

    def _excess(self, subjects: Iterable[bytes], limit: int) -> list[int]:
        """
        The sequences that are too many of some subjects.
        """
        floor = self._policy.floor
        found: list[int] = []
        for subject in set(subjects):
            tally = self._tally(subject)
            excess = tally.count - limit if tally is not None else 0
            if tally is None or excess <= 0:
                continue
            if tally.complete:
                found += tally.listed[:excess]
            else:
                self.flush()
                found += islice(self._sequencesOf(subject, tally.first), excess)
        return [each for each in found if floor is None or each < floor]

    def _sequenceFromEnd(self, count: int) -> int:
        """
        The sequence from which on there are so many records.
        """
        self.flush()
        drop = self.row.count - count
        for block in self.blocksFrom(self.row.first):
            living = [each for each in block.living() if block.sequences[each] >= self.row.first]
            if len(living) > drop:
                return block.sequences[living[drop]]
            drop -= len(living)
        return self.row.first

    # Tallies

    def _beginIndex(self) -> None:
        """
        From now on there is more than one subject: make the tally of the one that there was.
        """
        row = self.row
        if row.indexed:
            return
        row.indexed = True
        if row.count:
            self.flush()
            tally = Tally(row.sole, row.count, row.first)
            tally.listed.extend(self._newest(LISTED))
            tally.last = tally.listed[-1] if tally.listed else row.last
            self._tallies[row.sole] = tally
        row.sole = b""

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

    def _tally(self, subject: bytes) -> Tally | None:
        """
        A subject's tally, if there is one.
        """
        tally = self._tallies.get(subject)
        if tally is None:
            key = tallyKey(self.row.identity, subject)
            raw = self._transaction.txn.get(key)
            if raw is None:
                return None
            tally = self._unwrapTally(key, raw) or self._recount(subject)
            self._tallies[subject] = tally
        return tally

    def _count(self, subjects: Sequence[bytes], sequences: Sequence[int]) -> None:
        """
        Count new records.
        """
        keep = max(LISTED, min(self._policy.retention.perSubject, MOST_LISTED))
        found: dict[bytes, list[int]] = {}
        for subject, sequence in zip(subjects, sequences, strict=True):
            found.setdefault(subject, []).append(sequence)
        for subject, new in found.items():
            tally = self._tally(subject)
            if tally is None:
                tally = self._tallies[subject] = Tally(subject)
            tally.add(new, keep)
        self._counted += found

    def _uncount(self, block: Block, indexes: Sequence[int]) -> None:
        """
        Stop counting records that go.
        """
        if not self.row.indexed:
            return
        emptied = set()
        for index in indexes:
            subject = subjectOf(block.raw, block.starts[index])
            tally = self._tally(subject)
            if tally is not None and tally.count:
                tally.remove(block.sequences[index])
                if tally.count and not tally.listed:
                    emptied.add(subject)
        for subject in emptied:
            tally = self._tallies[subject]
            gone = {block.sequences[index] for index in indexes}
            self._tallies[subject] = self._recount(subject, tally.first, gone)

    def _recount(self, subject: bytes, start: int = 0, without: Collection[int] = ()) -> Tally:
        """
        Count the records of a subject by looking at all.
        """
        self.flush()
        tally = Tally(subject)
        found = [each for each in self._sequencesOf(subject, start) if each not in without]
        if found:
            tally.add(found, MOST_LISTED)
        return tally

    def recountAll(self) -> None:
        """
        Make all tallies anew.
        """
        transaction, row = self._transaction, self.row
        while transaction.deleteSome(tallyPrefix(row.identity), KEYS_A_SLICE):
            pass
        self._tallies = {}
        for block in self.blocksFrom(row.first):
            for index in block.living():
                if block.sequences[index] >= row.first:
                    subject = subjectOf(block.raw, block.starts[index])
                    tally = self._tallies.get(subject)
                    if tally is None:
                        tally = self._tallies[subject] = Tally(subject)
                    tally.add((block.sequences[index],), MOST_LISTED)

    def _sequencesOf(self, subject: bytes, start: int) -> Iterator[int]:
        """
        The sequences of all records of a subject, from one on.
        """
        start = max(start, self.row.first)
        for block in self.blocksFrom(start):
            for index in block.living():
                sequence = block.sequences[index]
                if sequence >= start and subjectOf(block.raw, block.starts[index]) == subject:
                    yield sequence

    def _writeTallies(self) -> None:
        """
        Store the tallies that changed.
        """
        transaction = self._transaction
        for subject, tally in self._tallies.items():
            key = tallyKey(self.row.identity, subject)
            if tally.count:
                transaction.put(key, tally.pack())
            else:
                transaction.delete(key)
        self._tallies = {}

    # The end

    def sweep(self) -> None:
        """
        Look at all subjects, because what may be kept of each has changed.
        """
        if self._policy.retention.perSubject:
            self._policy.sweep = b""

    def putHolds(self) -> None:
        """
        Store the holds.
        """
        self._transaction.put(holdsKey(self.row.identity), packHolds(self._policy.holds))

    def finish(self) -> None:
        """
        Store all that is still in memory.
        """
        self.flush()
        transaction, row = self._transaction, self.row
        if not (row.dropped or row.quarantined):
            swept = self.trimSubjects()
            self.trimmed = self.trim()
            if not (swept and self.trimmed):
                transaction.unfinished.add(row.identity)
            self._noteOldest()
        self._writeTallies()
        transaction.put(rowKey(row.identity), row.pack())

    def _noteOldest(self) -> None:
        """
        Look when the oldest record came, if the age is limited.
        """
        if self._policy.retention.age and self.row.count:
            head = self._head()
            if head is not None:
                block, index = head
                self.oldest = timestampOf(block.raw, block.starts[index])


def tailOf(txn: lmdb.Transaction[bytes], identity: int) -> list[tuple[int, int]]:
    """
    The short blocks at the end of a log, as L{LogRow.tail} has them.
    """
    prefix = blockKey(identity, 0)[:9]
    found: list[tuple[int, int]] = []
    with txn.cursor() as cursor:
        more = cursor.set_range(blockKey(identity, (1 << 64) - 1))
        more = cursor.prev() if more else cursor.last()
        while more and cursor.key().startswith(prefix) and len(found) < MERGE:
            length = len(cursor.value())
            if length >= SEALED or identityOf(cursor.key()) != identity:
                break
            found.append((sequenceOf(cursor.key()), length))
            more = cursor.prev()
    return found[::-1]
