"""
The content of a database, by its tree and the heads of its blocks. A million records are a few
thousand heads, so that opening is quick. Records are verified when they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from natsbroker.interfaces.records import UnknownFormat
from natsbroker.storage.blocks import HEAD_LENGTH, NONE, Head, parseHead, readBlock, unpackDead
from natsbroker.storage.envelopes import unwrap, unwrapEither
from natsbroker.storage.lmdb.blocklog import MERGE, SEALED
from natsbroker.storage.lmdb.encryption.codec import PLAIN, PlainCodec
from natsbroker.storage.lmdb.files import Marks
from natsbroker.storage.lmdb.journal import JournalFrame, runsIn
from natsbroker.storage.lmdb.layout import (
    FORMAT_KEY,
    FORMAT_VERSION,
    SEALED_VERSION,
    LogRow,
    identityOf,
    sequenceOf,
    unpackFormat,
    unpackHolds,
    unpackRanges,
)
from natsbroker.storage.lmdb.pages import Entry, PageFile
from natsbroker.storage.records import Damaged
from natsbroker.storage.records import sequenceOf as sequenceIn


@dataclass
class _Blocks:
    records: int = 0
    size: int = 0
    last: int = 0
    heads: list[tuple[Entry, Head]] = field(default_factory=list)
    tail: list[tuple[int, int]] = field(default_factory=list)

    def add(self, entry: Entry, head: Head) -> None:
        if head.first <= self.last or head.first != sequenceOf(entry.key):
            raise Damaged(f"the block at {head.first} stands in the place of another")
        if head.length != entry.length:
            raise Damaged(f"the block at {head.first} does not have its length")
        self.last = head.last
        self.records += head.records
        self.size += head.size
        if head.length < SEALED:
            self.tail = [*self.tail[1 - MERGE :], (head.first, head.length)]
        else:
            self.tail = []


@dataclass
class Survey:
    """
    @ivar base: what was added to the numbers of transactions to get generations.
    @ivar tallies: the number of tallies, by log.
    @ivar halved: values of which one of two copies is damaged.
    """

    codec: PlainCodec = PLAIN
    mark: bytes = b""
    isSealed: bool = False
    base: int = 0
    generation: int = 0
    rows: dict[int, LogRow] = field(default_factory=dict)
    holds: dict[int, dict[str, int]] = field(default_factory=dict)
    lost: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    dead: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)
    blocks: dict[int, _Blocks] = field(default_factory=dict)
    tallies: Counter[int] = field(default_factory=Counter)
    halved: dict[bytes, bytes] = field(default_factory=dict)
    broken: dict[bytes, bytes] = field(default_factory=dict)


def survey(file: PageFile, codec: PlainCodec) -> Survey:
    """
    Survey a database. L{Damaged} if something is wrong, L{UnknownFormat} if another version wrote
    it.
    """
    metas = file.metas()
    if not metas:
        raise Damaged("the database does not say where anything is")
    if file.size < (metas[0].lastPage + 1) * metas[0].pageSize:
        raise Damaged("the file was cut off")
    surveyed = Survey(codec)
    for entry in file.entries(metas[0], metas[0].mainRoot):
        _look(file, entry, surveyed)
    if not surveyed.mark:
        raise Damaged("the database does not say what it is")
    surveyed.generation = surveyed.base + metas[0].transaction
    for identity, blocks in surveyed.blocks.items():
        row = surveyed.rows.get(identity)
        if row is None:
            raise Damaged(f"there are blocks of a log {identity:016x}, but not the log")
        if blocks.last > row.last:
            raise Damaged(f"log {row.name} has records that its description does not count")
    for identity, row in surveyed.rows.items():
        _complete(file, surveyed, identity, row)
    return surveyed


def _look(file: PageFile, entry: Entry, surveyed: Survey) -> None:
    key = entry.key
    kind = key[:1]
    if kind == b"B" and len(key) == 17:
        head = parseHead(file.read(entry.offset, min(entry.length, HEAD_LENGTH)))
        if head.identity != identityOf(key):
            raise Damaged(f"the block at {head.first} stands in the place of another")
        blocks = surveyed.blocks.setdefault(head.identity, _Blocks())
        blocks.add(entry, head)
        blocks.heads.append((entry, head))
        return
    raw = entry.value or file.read(entry.offset, entry.length)
    if kind in (b"S", b"T"):
        if kind == b"T":
            surveyed.tallies[identityOf(key)] += 1
        if raw[:8] != surveyed.mark:
            raise Damaged(f"the value of {key[:20]!r} does not begin where it should")
        _check(key, raw, surveyed)
        return
    envelope, whole = unwrapEither(raw, key)
    value = surveyed.codec.open(envelope)
    if not whole:
        surveyed.halved[key] = value
    if kind == b"G" and len(key) == 17:
        surveyed.dead[identityOf(key), sequenceOf(key)] = unpackDead(sequenceOf(key), value)
    elif key == FORMAT_KEY:
        surveyed.mark = raw[:8] if whole else b""
        version, surveyed.base = unpackFormat(value)
        surveyed.isSealed = version == SEALED_VERSION
        if version not in (FORMAT_VERSION, SEALED_VERSION):
            raise UnknownFormat(f"the database has format {version}, not {FORMAT_VERSION}")
    elif kind == b"L" and len(key) == 9:
        surveyed.rows[identityOf(key)] = LogRow.unpack(identityOf(key), value)
    elif kind == b"H" and len(key) == 9:
        surveyed.holds[identityOf(key)] = unpackHolds(value)
    elif kind == b"X" and len(key) == 9:
        surveyed.lost[identityOf(key)] = unpackRanges(value)
    else:
        raise UnknownFormat(f"the database holds something under {key[:20]!r} that is not known")


def _check(key: bytes, raw: bytes, surveyed: Survey) -> None:
    """
    Check whether a value is whole. There may be many such values, and each can be lost by itself.
    """
    try:
        unwrap(raw, key)
    except Damaged:
        surveyed.broken[key] = raw


def _living(
    file: PageFile, surveyed: Survey, identity: int, row: LogRow
) -> Iterator[tuple[int, int]]:
    """For each block with deleted records: the number of these, and their size."""
    for entry, head in surveyed.blocks[identity].heads:
        dead = surveyed.dead.get((identity, head.first), NONE)
        if not dead and head.first >= row.first:
            continue
        raw = surveyed.codec.openBlock(file.read(entry.offset, entry.length), identity)
        block = readBlock(raw, identity, head.first, dead)
        if block is None:
            yield head.records, head.size
            continue
        alive = list(block.living(row.first))
        yield head.records - len(alive), head.size - sum(map(block.length, alive))


def _complete(file: PageFile, surveyed: Survey, identity: int, row: LogRow) -> None:
    blocks = surveyed.blocks.get(identity)
    if row.dropped:
        return
    row.tallies = surveyed.tallies[identity]
    if blocks is None:
        row.count, row.size, row.first = 0, 0, row.last + 1
        return
    row.tail = blocks.tail
    row.count, row.size = blocks.records, blocks.size
    for records, size in _living(file, surveyed, identity, row):
        row.count -= records
        row.size -= size
    blocks.heads.clear()


def gapsBefore(
    frames: Sequence[JournalFrame], surveyed: Survey, marks: Marks
) -> dict[int, list[tuple[int, int]]]:
    """
    The sequences between the end of a log in the database and its beginning in the journal, by log.
    Logs that only the journal has are added to C{surveyed}.
    """
    gaps: dict[int, list[tuple[int, int]]] = {}
    reached: dict[int, int] = {}
    for identity, blobs in runsIn(frames):
        if identity not in surveyed.rows and identity in marks.logs:
            surveyed.rows[identity] = LogRow(identity, marks.logs[identity].name)
        row = surveyed.rows.get(identity)
        if row is None or row.dropped:
            continue
        last = reached.get(identity, row.last)
        first = sequenceIn(blobs[0], 0)
        if first > last + 1:
            gaps.setdefault(identity, []).append((last + 1, first))
        reached[identity] = max(last, first + len(blobs) - 1)
    return gaps
