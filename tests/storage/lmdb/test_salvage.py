"""
Damaged databases, of which everything that is whole is put into a new one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from natsbroker.storage.blocks import parseHead
from natsbroker.storage.lmdb.pages import Entry, PageFile
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.storage.records import Damaged
from natsbroker.testing.pumped import PumpedReactor

LOG = "orders"
STATE = {b"key %d" % number: b"value %d" % number for number in range(20)}


class Store:
    """A store that is damaged while it is closed."""

    def __init__(self, directory: Path) -> None:
        self.reactor = PumpedReactor()
        self.database = directory / "data.mdb"
        self._directory = directory

    def __enter__(self) -> Any:
        self._opened = self.reactor.wait(openLMDB(self.reactor, self._directory))
        return self._opened

    def __exit__(self, *raised: object) -> None:
        self.reactor.wait(self._opened.close())

    def append(self, *payloads: bytes) -> None:
        """Append records with a commit of their own."""
        with self as store:
            log = self.reactor.wait(store.open(LOG))
            self.reactor.wait(log.append([(b"s", b"", payload, 0) for payload in payloads]))

    @property
    def payloads(self) -> list[bytes]:
        """All records of the log."""
        with self as store:
            log = self.reactor.wait(store.open(LOG))
            return [record.payload for record in self.reactor.wait(log.read(1))]

    @property
    def state(self) -> dict[bytes, bytes]:
        """All state of a space."""
        with self as store:
            values: dict[bytes, bytes] = self.reactor.wait(store.states("space").load())
            return values

    def entries(self) -> list[Entry]:
        """The values in the tree of the database."""
        descriptor = os.open(self.database, os.O_RDONLY)
        try:
            file = PageFile(descriptor)
            return file.reach(file.metas()[0]).entries
        finally:
            os.close(descriptor)

    def flip(self, *places: int, bit: int = 0) -> None:
        """Flip bits."""
        data = bytearray(self.database.read_bytes())
        for place in places:
            data[place] ^= 1 << bit
        self.database.write_bytes(data)

    def copiesOf(self, block: Entry) -> list[int]:
        """Where older copies of a block end, in pages that are free."""
        data = self.database.read_bytes()
        [mark, head] = data[block.offset : block.offset + 8], parseHead(data, block.offset)
        problems = []
        place = data.find(mark)
        while place >= 0:
            try:
                older = parseHead(data, place)
            except Damaged:
                pass
            else:
                if place != block.offset and older[7:9] == head[7:9]:
                    problems.append(place + older.length)
            place = data.find(mark, place + 1)
        return problems


def test_headOfBlock(tmp_path: Path) -> None:
    """A block is read although its head is damaged, and without records of its older copies."""
    store = Store(tmp_path)
    payloads = [b"payload %d" % number for number in range(6)]
    for payload in payloads:
        store.append(payload)
    [block] = [entry for entry in store.entries() if entry.key[:1] == b"B"]
    ends = store.copiesOf(block)
    assert ends
    # The page of each older one was used again in part: its last record is another's.
    store.flip(block.offset + 40, *(end - 1 for end in ends))
    assert store.payloads == payloads


@pytest.mark.parametrize("bit", range(8))
def test_keyLength(tmp_path: Path, bit: int) -> None:
    """A value is found again behind a key whose length is wrong, as are its neighbours."""
    store = Store(tmp_path)
    with store as opened:
        store.reactor.wait(opened.states("space").change(STATE))
    place = next(entry for entry in store.entries() if entry.key.endswith(b"key 7"))
    store.flip(place.offset - len(place.key) - 2, bit=bit)
    assert store.state == STATE


@pytest.mark.parametrize("bit", range(12))
def test_pointer(tmp_path: Path, bit: int) -> None:
    """
    A value is found again although its page has lost the pointer to it, as are its neighbours.
    """
    store = Store(tmp_path)
    with store as opened:
        store.reactor.wait(opened.states("space").change(STATE))
    place = next(entry for entry in store.entries() if entry.key.endswith(b"key 7"))
    pointer, page = divmod(place.offset - len(place.key) - 8, 4096)[::-1]
    start = store.database.read_bytes().index(pointer.to_bytes(2, "little"), page * 4096 + 16)
    store.flip(start + bit // 8, bit=bit % 8)
    assert store.state == STATE
