"""
LMDB's file, read without LMDB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

import lmdb
import pytest

from natsbroker.storage.lmdb.pages import BRANCH, HEAD, PageFile
from natsbroker.storage.records import Damaged

PAGE = 4096
KEYS = [b"key %06d" % (2 * number) for number in range(200) if number % 3]
PAGE_HEAD = Struct("<QHHHH")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a tree of several pages."""
    path = tmp_path_factory.mktemp("pages") / "data.mdb"
    with lmdb.open(str(path), subdir=False) as environment, environment.begin(write=True) as txn:
        for number in range(200):
            txn.put(b"key %06d" % (2 * number), b"value".ljust(number % 90))
        for number in range(0, 200, 3):
            txn.delete(b"key %06d" % (2 * number))
    return path


def entriesOf(path: Path) -> dict[bytes, bytes]:
    """
    All values, by key.

    @raise Damaged: where the tree cannot be followed.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        file = PageFile(descriptor)
        [newest, _] = file.metas()
        return {entry.key: entry.value for entry in file.entries(newest, newest.mainRoot)}
    finally:
        os.close(descriptor)


def nodesOf(path: Path) -> Iterator[tuple[bool, int]]:
    """Whether each node of the tree is in a branch, and where in the file it begins."""
    data = path.read_bytes()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        file = PageFile(descriptor)
        pages = file.reach(file.metas()[0]).pages
    finally:
        os.close(descriptor)
    for page in pages:
        start = page * PAGE
        _, _, flags, lower, _ = PAGE_HEAD.unpack_from(data, start)
        pointers = Struct(f"<{(lower - HEAD) // 2}H").unpack_from(data, start + HEAD)
        yield from ((flags == BRANCH, start + pointer) for pointer in pointers)


def flipped(path: Path, to: Path, position: int, bit: int) -> Path:
    """A copy with one bit flipped."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    to.write_bytes(data)
    return to


def test_whole(database: Path) -> None:
    """A page that LMDB has written is read, also where nodes were deleted."""
    assert list(entriesOf(database)) == [
        b"key %06d" % (2 * number) for number in range(200) if number % 3
    ]


@pytest.mark.parametrize("offset", [0, 6])
def test_lengths(database: Path, tmp_path: Path, offset: int) -> None:
    """A wrong length of a value or a key is seen: LMDB would move what is beside it wrongly."""
    nodes = [node for isBranch, node in nodesOf(database) if not isBranch]
    assert len(nodes) == 133
    for node in nodes[::5]:
        for bit in range(1, 8):
            with pytest.raises(Damaged):
                entriesOf(flipped(database, tmp_path / "copy", node + offset, bit))


def test_separators(database: Path, tmp_path: Path) -> None:
    """A branch that leads to another page for a key is detected."""
    branches = [node for isBranch, node in nodesOf(database) if isBranch]
    assert len(branches) > 2
    for node in branches[1:]:
        last = node + 8 + len(b"key 000000") - 1
        for bit in (1, 2):
            damaged = flipped(database, tmp_path / "copy", last, bit)
            with lmdb.open(str(damaged), subdir=False) as environment, environment.begin() as txn:
                if all(txn.get(key) for key in KEYS):
                    continue
            with pytest.raises(Damaged):
                entriesOf(damaged)
