"""
The search of a damaged database for whole values. Nothing is written.

All values carry the store's random mark, their keys and checksums, so they can be found by
searching the file. But the file has old copies too, in free pages and in the free space of others.
So the tree is followed as far as it is whole. In a page that the tree reaches, a value counts only
if the tree leads to the value itself.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import error
from typing import NamedTuple

from natsbroker.storage.blocks import Head, parseHead, readBlock, unpackDead
from natsbroker.storage.envelopes import ENVELOPE_SIZE, unwrapAt
from natsbroker.storage.lmdb.encryption.codec import PlainCodec
from natsbroker.storage.lmdb.layout import (
    FORMAT_KEY,
    FORMAT_TEXT,
    LogRow,
    blockKey,
    identityOf,
    isTwice,
    sequenceOf,
    unpackFormat,
)
from natsbroker.storage.lmdb.pages import Entry, PageFile, Tree
from natsbroker.storage.records import (
    HEAD_SIZE,
    IDENTITY,
    IDENTITY_OFFSET,
    SEQUENCE_OFFSET,
    Damaged,
    decode,
    lengthAt,
)


class RecordPlace(NamedTuple):
    """
    The place of a whole record.

    @ivar offset: the offset in the file; negative for a record that was added from elsewhere.
    @ivar length: with the record's head.
    """

    offset: int
    length: int


@dataclass
class FoundLog:
    """
    The parts of one log that were found.

    @ivar current: whether the tree leads to the row, so that there is no newer one.
    @ivar blocks: the heads of blocks, with their offsets.
    @ivar older: the heads of old copies of blocks that are damaged now, with their offsets.
    @ivar dead: sequences that were deleted for good.
    @ivar journalled: the records of the journal that the database does not have.
    """

    row: LogRow | None = None
    generation: int = -1
    current: bool = False
    blocks: list[tuple[Head, int]] = field(default_factory=list)
    older: list[tuple[Head, int]] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    journalled: Sequence[bytes] = ()

    def covers(self, sequence: int) -> bool:
        """Whether a block that was found has the record, or shows that it was deleted."""
        return any(head.first <= sequence <= head.last for head, _ in self.blocks)


@dataclass
class Trust:
    """
    The trusted parts of a database.

    @ivar tree: the reachable part of the tree; C{None} if its root is not known.
    @ivar free: pages with nothing but old copies.
    """

    tree: Tree | None = None
    free: set[int] = field(default_factory=set)
    pageSize: int = 4096

    def allows(self, position: int) -> bool:
        """Whether a value at a position counts even if the tree does not lead to it."""
        page, offset = divmod(position, self.pageSize)
        if self.tree is None:
            return page not in self.free
        if page in self.tree.torn:
            return offset >= self.tree.torn[page]
        if self.tree.complete:
            return False
        return page not in self.free and page not in self.tree.pages


def trustIn(path: Path) -> Trust:
    """The trusted parts: none unless the two meta pages are of consecutive transactions."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        file = PageFile(descriptor)
        metas = file.metas()
        if len(metas) != 2 or metas[0].transaction != metas[1].transaction + 1:
            return Trust()
        tree = file.reach(metas[0])
        try:
            return Trust(tree, file.freePages(metas[0]), metas[0].pageSize)
        except Damaged:
            return Trust(tree, set(), metas[0].pageSize)
    finally:
        os.close(descriptor)


def findFormat(path: Path) -> tuple[bytes, int] | None:
    """The mark of a database and the version of its format, searched for in the whole file."""
    data = path.read_bytes() if path.exists() else b""
    position = data.find(FORMAT_TEXT)
    while position >= 0:
        start = position - ENVELOPE_SIZE - len(FORMAT_KEY)
        try:
            envelope, _ = unwrapAt(data, start)
            if start >= 0 and envelope.key == FORMAT_KEY:
                return data[start : start + 8], unpackFormat(envelope.value)[0]
        except (Damaged, error):
            pass
        position = data.find(FORMAT_TEXT, position + 1)
    return None


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merging: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merging and first <= merging[-1][1] + 1:
            merging[-1] = (merging[-1][0], max(merging[-1][1], last))
        else:
            merging.append((first, last))
    return merging


class Finder:
    """
    The search of one file.

    @ivar logs: the logs that were found, by identity.
    @ivar values: state, holds and known losses, by their key in a plain database, each with its
        generation.
    @ivar generation: the newest generation that was found.
    """

    def __init__(
        self, raw: mmap.mmap | bytes, mark: bytes, trust: Trust, codec: PlainCodec
    ) -> None:
        self._raw = raw
        self._codec = codec
        self._mark = mark
        self._trust = trust
        self._broken: dict[bytes, Entry] = {}
        self._added: list[bytes] = []
        self.logs: dict[int, FoundLog] = {}
        self.values: dict[bytes, tuple[int, bytes]] = {}
        self.generation = 0
        self.size = len(raw)

    def search(self) -> None:
        tree = self._trust.tree
        for entry in tree.entries if tree is not None else ():
            if entry.key[:1] == b"T":
                continue
            if not self._follow(entry):
                self._broken[entry.key] = entry
            elif entry.key[:1] == b"L":
                self._log(identityOf(entry.key)).current = True
        position = self._raw.find(self._mark)
        while position >= 0:
            length = self._lookAt(position, self._trust.allows(position))
            position = self._raw.find(self._mark, position + max(length, 1))

    def _follow(self, entry: Entry) -> bool:
        places = [entry.offset]
        if isTwice(entry.key):
            places.append(entry.offset + entry.length // 2)
        # Damage may have changed the length of a key by one while that of its node is right.
        return any(
            [self._lookAt(place + offset, True) for place in places for offset in (0, 1, -1)]
        )

    def _lookAt(self, position: int, counts: bool) -> int:
        """
        Read a block or value, and return its length; 0 if there is none. A value that does not
        count is kept only in place of a broken one.
        """
        try:
            if self._raw[position + 8 : position + 9] == b"B":
                return self._block(position, counts)
            return self._value(position, counts)
        except (Damaged, error):
            return 0

    def _block(self, position: int, counts: bool) -> int:
        head = parseHead(self._raw[position : position + 128])
        if position + head.length > len(self._raw):
            return 0
        if counts:
            self.generation = max(self.generation, head.generation)
            self._log(head.identity).blocks.append((head, position))
        elif blockKey(head.identity, head.first) in self._broken:
            self._log(head.identity).older.append((head, position))
        return head.length

    def _value(self, position: int, counts: bool) -> int:
        head = self._raw[position : position + ENVELOPE_SIZE]
        length = ENVELOPE_SIZE
        length += int.from_bytes(head[10:12], "little") + int.from_bytes(head[12:16], "little")
        envelope, end = unwrapAt(self._raw[position : position + length], 0)
        key, generation = envelope.key, envelope.generation
        if not (counts or key in self._broken):
            return end
        self.generation = max(self.generation, generation)
        if envelope.kind == b"L":
            log = self._log(identityOf(key))
            if generation >= log.generation:
                value = self._codec.open(envelope)
                log.row, log.generation = LogRow.unpack(identityOf(key), value), generation
        elif envelope.kind == b"G":
            dead = unpackDead(sequenceOf(key), envelope.value)
            self._log(identityOf(key)).dead.update(dead)
        elif envelope.kind in (b"S", b"H", b"X"):
            if envelope.kind == b"S":
                name, value = self._codec.state(envelope)
                key = key[: 2 + key[1]] + name
            else:
                value = self._codec.open(envelope)
            if generation >= self.values.get(key, (0, b""))[0]:
                self.values[key] = (generation, value)
        return end

    def _log(self, identity: int) -> FoundLog:
        return self.logs.setdefault(identity, FoundLog())

    def recordsOf(
        self, identity: int, log: FoundLog, blocks: Sequence[tuple[Head, int]]
    ) -> dict[int, RecordPlace]:
        """The undeleted records in blocks of a log, each as a whole copy if there is one."""
        places: dict[int, RecordPlace] = {}
        whole: set[int] = set()
        covered: list[tuple[int, int]] = []
        newer: list[tuple[int, int]] = []
        generation = -1
        for head, offset in sorted(blocks, key=lambda block: -block[0].generation):
            if head.generation != generation:
                covered, newer = merged([*covered, *newer]), []
                generation = head.generation
            newer.append((head.first, head.last))
            for sequence, place in self._inBlock(identity, log, head, offset):
                if sequence in whole or any(a <= sequence <= b for a, b in covered):
                    continue
                if self._wholeAt(place.offset, identity):
                    whole.add(sequence)
                    places[sequence] = place
                else:
                    places.setdefault(sequence, place)
        return places

    def _inBlock(
        self, identity: int, log: FoundLog, head: Head, offset: int
    ) -> Iterator[tuple[int, RecordPlace]]:
        raw = self._raw[offset : offset + head.length]
        dead = frozenset(sequence for sequence in log.dead if head.first <= sequence <= head.last)
        block = readBlock(raw, identity, head.first, dead)
        if block is None:
            return
        if block.raw is raw:
            for index in block.living():
                start, end = block.place(index)
                yield block.sequences[index], RecordPlace(offset + start, end - start)
            return
        alive = {block.sequences[index] for index in block.living()}
        for sequence, place in self._between(identity, offset, offset + head.length):
            if sequence in alive:
                yield sequence, place

    def _between(self, identity: int, start: int, stop: int) -> Iterator[tuple[int, RecordPlace]]:
        """The whole records between two offsets, found by the log's identity."""
        raw, needle = self._raw, IDENTITY.pack(identity)
        at = raw.find(needle, start, stop)
        while at >= 0:
            position = at - IDENTITY_OFFSET
            length = self._wholeAt(position, identity)
            if length:
                number = raw[position + SEQUENCE_OFFSET : position + SEQUENCE_OFFSET + 8]
                yield int.from_bytes(number, "little"), RecordPlace(position, length)
            at = raw.find(needle, at + max(length, 1), stop)

    def _wholeAt(self, position: int, identity: int) -> int:
        """The length of the record that begins at a position; 0 if there is none."""
        raw = self._raw
        length = lengthAt(raw[position : position + HEAD_SIZE], 0) if position >= 0 else 0
        if not length or position + length > len(raw):
            return 0
        try:
            record = raw[position : position + length]
            decode(record, 0, length, identity)
            self._codec.openRecord(record)
        except Damaged:
            return 0
        return length

    def looseRecords(self, identity: int) -> Iterator[tuple[int, RecordPlace]]:
        """Whole records of a log outside of blocks with a whole head, and outside of the tree."""
        for key, entry in self._broken.items():
            if key[:1] == b"B" and identityOf(key) == identity:
                end = entry.offset + entry.length
                yield from self._between(identity, entry.offset, end)
        if self._trust.tree is None or not self._trust.tree.complete:
            for sequence, place in self._between(identity, 0, len(self._raw)):
                if self._trust.allows(place.offset):
                    yield sequence, place

    def add(self, blob: bytes) -> RecordPlace:
        self._added.append(blob)
        return RecordPlace(-len(self._added), len(blob))

    def blob(self, place: RecordPlace) -> bytes:
        if place.offset < 0:
            return self._added[-1 - place.offset]
        raw = self._raw[place.offset : place.offset + place.length]
        try:
            return self._codec.openRecord(raw)
        except Damaged:
            return raw
