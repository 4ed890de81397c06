"""
LMDB's file, read without LMDB.

Reading a value through LMDB touches all of it, but opening a store needs only the heads of blocks.
A damaged file must not be given to LMDB at all, because it would follow any pointer.

The layout is that of LMDB 0.9 on a 64-bit machine: a page begins with its number (8 bytes), 2 bytes
of padding, flags (2) and either the bounds of its free space (2 and 2) or, on the first page of a
large value, the number of pages (4). Offsets of nodes follow, 2 bytes each. A node is 8 bytes (the
low and high half of a size, flags, and the key's length), the key, and the value.
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
    One of the two pages that locate the trees: that of free pages, and that of values.

    @ivar lastPage: the highest page in use, or once in use.
    """

    pageSize: int
    freeRoot: int
    mainRoot: int
    values: int
    lastPage: int
    transaction: int


class Entry(NamedTuple):
    """A value and its place. C{value} is empty if it is not in the tree."""

    key: bytes
    offset: int
    length: int
    value: bytes = b""


class TreePage(NamedTuple):
    """
    @ivar children: of a branch: the pages below it, each with the least key that may be in it.
    @ivar start: the beginning of its first node, according to the page.
    @ivar isWhole: whether its nodes fill it up to its end without gaps. If not, LMDB would move
        them wrongly with each change.
    """

    children: list[tuple[bytes, int]]
    entries: list[Entry]
    start: int
    isWhole: bool


class Tree(NamedTuple):
    """
    The reachable part of a tree that may be damaged.

    @ivar pages: all valid pages that were reached, including those of large values.
    @ivar torn: leaves with a missing or wrong node, and the beginnings of their nodes.
    """

    entries: list[Entry]
    pages: set[int]
    torn: dict[int, int]
    complete: bool


class PageFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, offset)
        if len(data) != length:
            raise Damaged(f"the file ends before {offset + length}")
        return data

    def metas(self) -> list[Meta]:
        """The valid ones of the two meta pages, the newer one first."""
        metas = []
        for offset in (0, self._pageSize()):
            try:
                metas.append(self._meta(offset))
            except (Damaged, error):
                continue
        return sorted(metas, key=lambda meta: -meta.transaction)

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
            raise Damaged("a meta page is invalid")
        return Meta(pageSize, free[-1], main[-1], main[-2], lastPage, transaction)

    def entries(self, meta: Meta, root: int) -> Iterator[Entry]:
        """The entries of a tree. L{Damaged} where the tree cannot be followed."""
        if root == NOWHERE:
            return
        seen: set[int] = set()
        waiting = [(root, b"", b"")]
        while waiting:
            number, least, following = waiting.pop()
            if number in seen:
                raise Damaged(f"the tree leads to page {number} twice")
            seen.add(number)
            page = self._page(meta, number)
            if not page.isWhole:
                raise Damaged(f"the nodes of page {number} do not fill it")
            bounds = [least, *(key for key, _ in page.children[1:]), following]
            for index in reversed(range(len(page.children))):
                waiting.append((page.children[index][1], bounds[index], bounds[index + 1]))
            if page.entries and root == meta.mainRoot:
                isBeyond = following and page.entries[-1].key >= following
                if isBeyond or page.entries[0].key < least:
                    raise Damaged(f"the tree leads to page {number} for other keys than it has")
            yield from page.entries

    def _page(self, meta: Meta, page: int) -> TreePage:
        if not 2 <= page <= meta.lastPage:
            raise Damaged(f"the tree leads to page {page}")
        data = self.read(page * meta.pageSize, meta.pageSize)
        number, _, flags, lower, upper = _PAGE.unpack_from(data)
        if number != page or not HEAD <= lower <= meta.pageSize or flags not in (BRANCH, LEAF):
            raise Damaged(f"page {page} is not what it should be")
        pointers = Struct(f"<{(lower - HEAD) // 2}H").unpack_from(data, HEAD)
        treePage = TreePage([], [], upper, _areInRow(data, pointers, upper, flags == LEAF))
        for pointer in pointers:
            try:
                if flags == BRANCH:
                    treePage.children.append(_child(data, pointer))
                else:
                    treePage.entries.append(_entry(data, pointer, page * meta.pageSize, meta))
            except Damaged:
                treePage = treePage._replace(isWhole=False)
        return treePage

    def reach(self, meta: Meta) -> Tree:
        entries: list[Entry] = []
        pages: set[int] = set()
        torn: dict[int, int] = {}
        complete = True
        waiting = [meta.mainRoot] if meta.mainRoot != NOWHERE else []
        while waiting:
            number = waiting.pop()
            try:
                if number in pages or number in torn:
                    raise Damaged(f"the tree leads to page {number} twice")
                page = self._page(meta, number)
            except Damaged:
                complete = False
                continue
            if page.isWhole:
                pages.add(number)
            else:
                torn[number] = page.start
            waiting += [child for _, child in reversed(page.children)]
            for entry in page.entries:
                entries.append(entry)
                if entry.offset // meta.pageSize != number:
                    end = entry.offset + entry.length - 1
                    pages.update(range(entry.offset // meta.pageSize, end // meta.pageSize + 1))
        complete = complete and not torn and len(entries) == meta.values
        return Tree(entries, pages, torn, complete)

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


def _areInRow(data: bytes, pointers: tuple[int, ...], upper: int, isLeaf: bool) -> bool:
    position = upper
    for pointer in sorted(pointers):
        if pointer != position or pointer + _NODE.size > len(data):
            return False
        low, high, flags, keyLength = _NODE.unpack_from(data, pointer)
        position += _NODE.size + keyLength
        if isLeaf:
            position += _NUMBER.size if flags & LARGE else low | high << 16
        position += position % 2
    return position == len(data)


def _child(data: bytes, pointer: int) -> tuple[bytes, int]:
    try:
        low, high, flags, keyLength = _NODE.unpack_from(data, pointer)
    except error as failure:
        raise Damaged(f"a branch of the tree is broken: {failure}") from failure
    start = pointer + _NODE.size
    return data[start : start + keyLength], low | high << 16 | flags << 32


def _entry(data: bytes, pointer: int, offset: int, meta: Meta) -> Entry:
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
