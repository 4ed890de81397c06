"""
Blocks that were read lately, so that reading a log page by page fetches each block once.

Never more than a limit of bytes; never a block that was replaced.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable

from natsbroker.interfaces.records import EncodedRecord
from natsbroker.storage.blocks import Block

LARGEST = 32 << 20
"""Bytes of blocks that are kept."""

EXTRA = 200
"""About how many bytes a block takes beside its own, and beside those for each record."""


class BlockCache:
    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._size = 0
        self._blocks: OrderedDict[tuple[int, int], Block] = OrderedDict()
        self._firsts: dict[int, list[int]] = {}

    def find(self, identity: int, sequence: int) -> Block | None:
        firsts = self._firsts.get(identity)
        if not firsts:
            return None
        index = bisect_right(firsts, sequence) - 1
        if index < 0:
            return None
        key = (identity, firsts[index])
        block = self._blocks[key]
        if block.last < sequence:
            return None
        self._blocks.move_to_end(key)
        return block

    def recall(self, identity: int, sequence: int) -> EncodedRecord | None:
        """
        The bytes of a record, unverified, if they are in a block here.
        """
        block = self.find(identity, sequence)
        if block is None or sequence in block.dead:
            return None
        index, starts = block.indexOf(sequence), block.starts
        if block.sequences[index] != sequence:
            return None
        return block.raw, starts[index], starts[index + 1]

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
        self._size -= self._weight(self._blocks.pop(key))
        firsts = self._firsts[key[0]]
        firsts.remove(key[1])
        if not firsts:
            del self._firsts[key[0]]

    def _weight(self, block: Block) -> int:
        return len(block.raw) + 40 * len(block.starts) + EXTRA
