"""
The values of a write transaction, whatever they mean: stored with mark, generation and checksum.
"""

from __future__ import annotations

import lmdb

from natsbroker.storage.blocks import Block
from natsbroker.storage.envelopes import unwrap, unwrapEither, wrap, wrapTwice
from natsbroker.storage.lmdb.layout import isTwice


class ValueTransaction:
    """
    A write transaction, as the writers of logs use it.

    @ivar generation: what the values written in it are marked with.
    @ivar heads: the first blocks of logs, as far as they are known.
    @ivar now: the wall clock, in nanoseconds.
    @ivar touched: blocks that were replaced, deleted or had records deleted.
    @ivar unfinished: logs of which there is more to delete than one commit should.
    """

    def __init__(
        self,
        txn: lmdb.Transaction[bytes],
        mark: bytes,
        generation: int,
        heads: dict[int, Block],
        now: int,
    ) -> None:
        self.txn = txn
        self.mark = mark
        self.generation = generation
        self.heads = heads
        self.now = now
        self.touched: set[tuple[int, int]] = set()
        self.unfinished: set[int] = set()

    def put(self, key: bytes, value: bytes) -> None:
        fold = wrapTwice if isTwice(key) else wrap
        self.txn.put(key, fold(self.mark, key[:1], self.generation, key, value))

    def get(self, key: bytes) -> bytes | None:
        """
        @raise Damaged: if it is not whole.
        """
        raw = self.txn.get(key)
        if raw is None:
            return None
        return unwrapEither(raw, key)[0].value if isTwice(key) else unwrap(raw, key).value

    def delete(self, key: bytes) -> bool:
        return self.txn.delete(key)

    def deleteSome(self, prefix: bytes, most: int) -> int:
        """
        @return: how many were deleted.
        """
        deleted = 0
        with self.txn.cursor() as cursor:
            found = cursor.set_range(prefix)
            while found and deleted < most and cursor.key().startswith(prefix):
                found = cursor.delete() and cursor.key() != b""
                deleted += 1
        return deleted
