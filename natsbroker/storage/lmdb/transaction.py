"""
One write transaction: what the requests of a group do to the database.

Everything is applied to copies of the rows, which the commit thread keeps if the commit succeeds
and forgets if it does not.

Nothing here commits, and nothing waits.
"""

from __future__ import annotations

import lmdb

from natsbroker.storage.blocks import Block
from natsbroker.storage.envelopes import unwrap, unwrapEither, wrap, wrapTwice
from natsbroker.storage.lmdb.layout import (
    FORMAT_KEY,
    LogRow,
    blockKey,
    deadKey,
    holdsKey,
    isTwice,
    lostKey,
    packFormat,
    rowKey,
    tallyPrefix,
)
from natsbroker.storage.lmdb.writing import LogWriter
from natsbroker.storage.policy import Policy

__all__ = ["Transaction"]

KEYS_A_SLICE = 1000
"""How many values of a dropped log are deleted in one commit."""


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
