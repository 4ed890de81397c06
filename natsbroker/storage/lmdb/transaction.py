"""
One write transaction. Everything is applied to copies of the rows, which the commit thread keeps if
the commit succeeds and forgets if it does not.
"""

from __future__ import annotations

from collections.abc import Mapping

import lmdb

from natsbroker.storage.blocks import Block
from natsbroker.storage.lmdb.blocklog import ValueTransaction
from natsbroker.storage.lmdb.layout import (
    FORMAT_KEY,
    LogRow,
    blockKey,
    deadKey,
    holdsKey,
    lostKey,
    packFormat,
    rowKey,
    stateKey,
    tallyPrefix,
)
from natsbroker.storage.lmdb.writing import LMDBLogWriter
from natsbroker.storage.policy import Policy

KEYS_A_SLICE = 1000
"""How many values of a dropped log are deleted in one commit."""


class LMDBTransaction(ValueTransaction):
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
        super().__init__(txn, mark, generation, heads, now)
        self._rows = rows
        self._policies = policies
        self.writers: dict[int, LMDBLogWriter] = {}

    def log(self, identity: int) -> LMDBLogWriter:
        writer = self.writers.get(identity)
        if writer is None:
            policy = self._policies.get(identity) or Policy()
            writer = LMDBLogWriter(self, self._rows[identity].copy(), policy)
            self.writers[identity] = writer
        return writer

    def create(self, row: LogRow) -> None:
        policy = self._policies.get(row.identity) or Policy()
        self.writers[row.identity] = LMDBLogWriter(self, row.copy(), policy)

    def change(self, space: str, changes: Mapping[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self.txn.delete(stateKey(space, key))
            else:
                self.put(stateKey(space, key), value)

    def putFormat(self, base: int) -> None:
        self.put(FORMAT_KEY, packFormat(base))

    def finish(self) -> None:
        for writer in self.writers.values():
            writer.finish()

    def dropSlice(self, row: LogRow) -> bool:
        """
        Delete some more of a log that was dropped.
        """
        left = KEYS_A_SLICE
        for prefix in (blockKey(row.identity, 0)[:9], deadKey(row.identity, 0)[:9]):
            left -= self.deleteSome(prefix, left)
        left -= self.deleteSome(tallyPrefix(row.identity), left)
        if left <= 0:
            return False
        for key in (holdsKey, lostKey, rowKey):
            self.txn.delete(key(row.identity))
        return True
