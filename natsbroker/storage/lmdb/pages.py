"""
LMDB's file, read without LMDB.

Reading a value through LMDB touches all of it. When a store is opened, only the heads of its
blocks matter, and they are found here by walking the tree with plain reads. And a file that is
damaged must not be given to LMDB at all, which would follow any pointer.

The layout is that of LMDB 0.9 on a 64-bit machine: a page begins with its number (8 bytes), 2
bytes of padding, flags (2) and either the bounds of its free space (2 and 2) or, on the first
page of a large value, the number of pages (4). Offsets of nodes follow, 2 bytes each. A node is 8
bytes (the low and high half of a size, flags, and the key's length), the key, and the value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct, error
from typing import NamedTuple

from natsbroker.storage.records import Damaged

MAGIC = 0xBEEFC0DE
NOWHERE = (1 << 64) - 1

BRANCH, LEAF = 1, 2
LARGE = 1
HEAD = 16

_META = Struct("<IIQQ")
_TREE = Struct("<IHHQQQQQ")
_TAIL = Struct("<QQ")
_PAGE = Struct("<QHHHH")
_NODE = Struct("<HHHH")
_NUMBER = Struct("<Q")


class Meta(NamedTuple):
    """
    One of the two pages that say where the trees are: of free pages, and of values.

    @ivar values: how many values the tree has.
    @ivar lastPage: the highest page in use, or once in use.
    """

    pageSize: int
    freeRoot: int
    mainRoot: int
    values: int
    lastPage: int
    transaction: int


class Entry(NamedTuple):
    """A value, where it lies; C{value} is empty if that is not in the tree."""

    key: bytes
    offset: int
    length: int
    value: bytes = b""


class Tree(NamedTuple):
    """
    What can be reached of a tree that may be damaged.

    @ivar pages: all pages that were reached and understood, those of large values included.
    """

    entries: list[Entry]
    pages: set[int]
    complete: bool


class PageFile:
    def __init__(self, descriptor: int) -> None:
        """
        @param descriptor: of the file; it is not closed here.
        """
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, offset)
        if len(data) != length:
            raise Damaged(f"the file ends before {offset + length}")
        return data

    def metas(self) -> list[Meta]:
        """Those of the two that look right, the newer one first."""
        found = []
        for offset in (0, self._pageSize()):
            try:
                found.append(self._meta(offset))
            except (Damaged, error):
                continue
        return sorted(found, key=lambda each: -each.transaction)

    def _pageSize(self) -> int:
        try:
            size = self._meta(0).pageSize
        except Damaged:
            return os.sysconf("SC_PAGE_SIZE")
        return size

    def _meta(self, offset: int) -> Meta:
        data = self.read(offset + HEAD, _META.size + 2 * _TREE.size + _TAIL.size)
        magic, version, _, _ = _META.unpack_from(data)
        free = _TREE.unpack_from(data, _META.size)
        main = _TREE.unpack_from(data, _META.size + _TREE.size)
        lastPage, transaction = _TAIL.unpack_from(data, _META.size + 2 * _TREE.size)
        pageSize = free[0]
        if magic != MAGIC or version != 1 or pageSize < 512 or pageSize & (pageSize - 1):
            raise Damaged("a page that should say where everything is does not")
        return Meta(pageSize, free[-1], main[-1], main[-2], lastPage, transaction)

    def entries(self, meta: Meta, root: int) -> Iterator[Entry]:
        """
        @raise Damaged: where the tree cannot be followed.
        """
        if root == NOWHERE:
            return
        seen: set[int] = set()
        waiting = [root]
        while waiting:
            page = waiting.pop()
            if page in seen:
                raise Damaged(f"the tree leads to page {page} twice")
            seen.add(page)
            children, entries = self._page(meta, page)
            waiting += children
            yield from entries

    def _page(self, meta: Meta, page: int) -> tuple[list[int], list[Entry]]:
        if not 2 <= page <= meta.lastPage:
            raise Damaged(f"the tree leads to page {page}")
        data = self.read(page * meta.pageSize, meta.pageSize)
        number, _, flags, lower, _ = _PAGE.unpack_from(data)
        if number != page or not HEAD <= lower <= meta.pageSize or flags not in (BRANCH, LEAF):
            raise Damaged(f"page {page} is not what it should be")
        pointers = Struct(f"<{(lower - HEAD) // 2}H").unpack_from(data, HEAD)
        if flags == BRANCH:
            return self._children(data, pointers), []
        return [], [self._entry(data, each, page * meta.pageSize, meta) for each in pointers]

    def reach(self, meta: Meta) -> Tree:
        found: list[Entry] = []
        pages: set[int] = set()
        complete = True
        waiting = [meta.mainRoot] if meta.mainRoot != NOWHERE else []
        while waiting:
            page = waiting.pop()
            try:
                if page in pages:
                    raise Damaged(f"the tree leads to page {page} twice")
                children, entries = self._page(meta, page)
            except Damaged:
                complete = False
                continue
            pages.add(page)
            waiting += children
            for entry in entries:
                found.append(entry)
                if entry.offset // meta.pageSize != page:
                    end = entry.offset + entry.length - 1
                    pages.update(range(entry.offset // meta.pageSize, end // meta.pageSize + 1))
        return Tree(found, pages, complete and len(found) == meta.values)

    def _children(self, data: bytes, pointers: tuple[int, ...]) -> list[int]:
        """The pages below a branch, the last one first."""
        found = []
        try:
            for pointer in reversed(pointers):
                low, high, flags, _ = _NODE.unpack_from(data, pointer)
                found.append(low | high << 16 | flags << 32)
        except error as failure:
            raise Damaged(f"a branch of the tree is broken: {failure}") from failure
        return found

    def _entry(self, data: bytes, pointer: int, offset: int, meta: Meta) -> Entry:
        try:
            low, high, flags, keyLength = _NODE.unpack_from(data, pointer)
            start = pointer + _NODE.size + keyLength
            length = low | high << 16
            key = data[pointer + _NODE.size : start]
            if flags & LARGE:
                first = int(_NUMBER.unpack_from(data, start)[0])
                return Entry(key, first * meta.pageSize + HEAD, length)
        except error as failure:
            raise Damaged(f"a leaf of the tree is broken: {failure}") from failure
        if start + length > len(data):
            raise Damaged("a value does not fit into its page")
        return Entry(key, offset + start, length, data[start : start + length])

    def freePages(self, meta: Meta) -> set[int]:
        free: set[int] = set()
        for entry in self.entries(meta, meta.freeRoot):
            data = self.read(entry.offset, entry.length)
            if len(data) < 8 or len(data) % 8:
                raise Damaged("a list of free pages is broken")
            count, *numbers = Struct(f"<{len(data) // 8}Q").unpack(data)
            if count > len(numbers):
                raise Damaged("a list of free pages is broken")
            free.update(numbers[:count])
        return free
