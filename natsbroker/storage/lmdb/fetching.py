"""
Reads of the threads: raw blocks and values from the database. The reactor's thread decodes them in
Python, a block at a time, so that neither waits for the other. With the compiled step, threads also
decode columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import lmdb

from natsbroker import hot
from natsbroker.interfaces.records import Columns
from natsbroker.storage.blocks import NONE, parseHead, placeIn, unpackDead
from natsbroker.storage.envelopes import unwrap, unwrapEither
from natsbroker.storage.exports import beginning, gather, sizeIn
from natsbroker.storage.lmdb.encryption.codec import PLAIN, PlainCodec
from natsbroker.storage.lmdb.environment import Environment
from natsbroker.storage.lmdb.layout import (
    LONGEST_SUBJECT_KEY,
    LogRow,
    Tally,
    blockKey,
    deadKey,
    lastOfTally,
    rowKey,
    sequenceOf,
    subjectIn,
    tallyKey,
    tallyPrefix,
)
from natsbroker.storage.records import Damaged
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.searching import NEAR, PatternSearch

MARGIN = 1 << 20
"""The bytes of blocks that are fetched beyond the need, where records are tiny."""


WHOLE_KEY = 400
"""The length of subjects' beginnings by which those of a pattern are found."""


class RawBlock(NamedTuple):
    """
    @ivar following: the beginning of the next block; 0 if there is none.
    """

    first: int
    raw: bytes
    dead: frozenset[int]
    following: int


def fetchBlocks(
    environment: Environment, identity: int, sequence: int, enough: int
) -> list[RawBlock]:
    """The blocks from the one on that may hold a sequence, about C{enough} bytes of them."""
    with environment.reading() as txn, txn.cursor() as cursor:
        blocks: list[RawBlock] = []
        more = _seek(cursor, identity, sequence)
        prefix = blockKey(identity, 0)[:9]
        while more:
            first, stored = sequenceOf(cursor.key()), cursor.value()
            raw = environment.codec.openBlock(stored, identity)
            more = cursor.next() and cursor.key().startswith(prefix)
            following = sequenceOf(cursor.key()) if more else 0
            blocks.append(RawBlock(first, raw, _dead(txn, identity, first), following))
            enough -= len(raw)
            if enough <= 0:
                break
        return blocks


def fetchColumns(
    environment: Environment, identity: int, start: int, stop: int, maxBytes: int
) -> Columns | None:
    """
    The records from one sequence to before another, as columns. C{None} leaves them to the readable
    path, because something is damaged or was deleted.

    @param maxBytes: stop after the record with which their sizes reach it.
    """
    raws: list[bytes] = []
    following = stop
    enough, most = maxBytes, 2 * maxBytes + MARGIN
    with environment.reading() as txn, txn.cursor() as cursor:
        prefix = blockKey(identity, 0)[:9]
        more = _seek(cursor, identity, start)
        while more and (first := sequenceOf(cursor.key())) < stop:
            if enough <= 0 or most <= 0:
                following = first
                break
            if txn.get(deadKey(identity, first)) is not None:
                return None
            raw = environment.codec.openBlock(cursor.value(), identity)
            raws.append(raw)
            most -= len(raw)
            if first >= start:
                enough -= sizeIn(raw)
            more = cursor.next() and cursor.key().startswith(prefix)
    return gather(raws, identity, start, stop, maxBytes, following)


def fetchLast(
    environment: Environment, identity: int, subject: bytes
) -> tuple[int, list[RawBlock]]:
    """
    The sequence of the last record of a literal subject, 0 for none, and the block that may hold
    it.
    """
    with environment.reading() as txn:
        tallies = tallyIn(txn, environment.codec, identity, subject).tallies
    last = tallies[0].last if tallies else 0
    return last, fetchBlocks(environment, identity, last, 1) if last else []


def blockIn(
    txn: lmdb.Transaction[bytes], identity: int, sequence: int
) -> tuple[int, bytes, frozenset[int]] | None:
    """The block that may hold a sequence: its first sequence, its content, and its dead records."""
    wanted = blockKey(identity, sequence)
    with txn.cursor() as cursor:
        isThere = cursor.set_range(wanted)
        key = bytes(cursor.key()) if isThere else b""
        if key != wanted:
            if not (cursor.prev() if isThere else cursor.last()):
                return None
            key = bytes(cursor.key())
        if key[:9] != wanted[:9]:
            return None
        first = sequenceOf(key)
        return first, cursor.value(), _dead(txn, identity, first)


def findRecord(
    txn: lmdb.Transaction[bytes], identity: int, sequence: int, codec: PlainCodec = PLAIN
) -> tuple[int, bytes] | None:
    """The first sequence of a record's block, and the bytes of the record, unverified."""
    if hot.findRecord is not None and not codec.isSealed:
        quick: tuple[int, bytes, bytes | None] | None = hot.findRecord(txn, identity, sequence)
        if quick is None or sequence in _deadIn(identity, quick[0], quick[2]):
            return None
        return quick[:2]
    block = blockIn(txn, identity, sequence)
    if block is None or sequence in block[2]:
        return None
    first, raw, _ = block
    place = placeIn(raw, sequence)
    try:
        return None if place is None else (first, codec.openRecord(bytes(raw[slice(*place)])))
    except Damaged:
        return None


def fetchBefore(environment: Environment, identity: int, sequence: int) -> RawBlock | None:
    """The block with the newest records up to a sequence."""
    with environment.reading() as txn, txn.cursor() as cursor:
        if not _seek(cursor, identity, sequence):
            return None
        first = sequenceOf(cursor.key())
        if first > sequence:
            return None
        raw = environment.codec.openBlock(cursor.value(), identity)
        return RawBlock(first, raw, _dead(txn, identity, first), 0)


def _seek(cursor: lmdb.Cursor[bytes], identity: int, sequence: int) -> bool:
    """
    Go to the last block that begins at or before a sequence, or to the first one if there is none.
    """
    prefix = blockKey(identity, 0)[:9]
    wanted = blockKey(identity, sequence)
    isThere = cursor.set_range(wanted)
    if isThere and cursor.key() == wanted:
        return True
    before = cursor.prev() if isThere else cursor.last()
    if before and cursor.key().startswith(prefix):
        return True
    return cursor.set_range(wanted) and cursor.key().startswith(prefix)


def _dead(txn: lmdb.Transaction[bytes], identity: int, first: int) -> frozenset[int]:
    return _deadIn(identity, first, txn.get(deadKey(identity, first)))


def _deadIn(identity: int, first: int, raw: bytes | None) -> frozenset[int]:
    if raw is None:
        return NONE
    return unpackDead(first, unwrapEither(bytes(raw), deadKey(identity, first))[0].value)


def findTime(
    environment: Environment, identity: int, first: int, last: int, timestamp: int
) -> list[RawBlock]:
    """The block with the first record that is not older than a time, if any, and the next."""
    with environment.reading() as txn, txn.cursor() as cursor:
        low, high = first, last + 1
        while low < high:
            middle = (low + high) // 2
            if not _seek(cursor, identity, middle):
                break
            begin, raw = sequenceOf(cursor.key()), cursor.value()
            try:
                head = parseHead(raw)
                end, newest = head.last, head.lastTime
            except Damaged:
                low = begin
                break
            if newest >= timestamp:
                high = min(middle, begin)
            else:
                low = max(middle, end) + 1
    return fetchBlocks(environment, identity, low, 1 << 18)


class TallyPage(NamedTuple):
    tallies: list[Tally]
    following: bytes
    last: int


def fetchTallies(
    environment: Environment,
    identity: int,
    pattern: bytes,
    after: bytes,
    limit: int,
    most: int,
) -> TallyPage:
    """
    Tallies of matching subjects behind C{after}.

    @param most: the most to look at.
    """
    codec = environment.codec
    if codec.isSealed and hasWildcard(pattern):
        return _namedTallies(environment, identity, pattern, after, limit)
    with environment.reading() as txn:
        return talliesIn(txn, codec, identity, pattern, after, limit, most)


def talliesIn(
    txn: lmdb.Transaction[bytes],
    codec: PlainCodec,
    identity: int,
    pattern: bytes,
    after: bytes,
    limit: int,
    most: int,
) -> TallyPage:
    """As L{fetchTallies}, within a transaction; not for patterns if subjects are encrypted."""
    if not hasWildcard(pattern):
        return tallyIn(txn, codec, identity, pattern, after)
    last = _lastIn(txn, codec, identity)
    literal = tallyPrefix(identity) + beginning(pattern)[:WHOLE_KEY]
    tallies: list[Tally] = []
    search, step = PatternSearch(pattern), NEAR
    start = max(literal, tallyKey(identity, after) + b"\0") if after else literal
    with txn.cursor() as cursor:
        while start and cursor.set_range(start):
            number = max(min(step, most), 1)
            keys = list(map(bytes, islice(cursor.iternext(keys=True, values=False), number + 1)))
            ahead = keys.pop() if len(keys) > number else b""
            if not (ahead or keys[-1]).startswith(literal):
                keys, ahead = [key for key in keys if key.startswith(literal)], b""
            tallies += _wanted(txn, search, keys)
            if len(tallies) >= limit:
                return TallyPage(tallies[:limit], tallies[limit - 1].subject, last)
            most -= len(keys)
            subject = _subjectAt(txn, keys[-1]) if ahead else b""
            if most <= 0 and subject:
                return TallyPage(tallies, subject, last)
            start = ahead
            # Of longer subjects, the order of the keys is not that of the subjects.
            if 0 < len(subject) <= LONGEST_SUBJECT_KEY:
                place = search.following(subject)
                passed = tallyPrefix(identity) + place[:WHOLE_KEY] if place else b""
                start = max(ahead, passed) if place else b""
            step = NEAR if start > ahead else step * 2
    return TallyPage(tallies, b"", last)


def _namedTallies(
    environment: Environment, identity: int, pattern: bytes, after: bytes, limit: int
) -> TallyPage:
    """As L{fetchTallies}, if the order of the keys is not that of subjects."""
    names, search = environment.names, PatternSearch(pattern)

    def subjects() -> Iterator[bytes]:
        prefix = tallyPrefix(identity)
        with environment.reading() as txn, txn.cursor() as cursor:
            more = cursor.set_range(prefix)
            while more and cursor.key().startswith(prefix):
                tally = environment.codec.tally(*cursor.item())
                if tally is not None:
                    yield tally.subject
                more = cursor.next()

    while True:
        names.learn(identity, subjects)
        # The names are looked at last: they have every subject of the transaction then.
        with environment.reading() as txn:
            last = _lastIn(txn, environment.codec, identity)
            tallies: list[Tally] = []
            place = after + b"\0" if after else beginning(pattern)
            while (some := names.find(identity, search, place)) is not None:
                matching, place = some
                for subject in matching:
                    tally = _tallyOf(txn, environment.codec, identity, subject)
                    if tally is not None:
                        tallies.append(tally)
                    if len(tallies) >= limit:
                        return TallyPage(tallies, subject, last)
                if not place:
                    return TallyPage(tallies, b"", last)


def _wanted(
    txn: lmdb.Transaction[bytes], search: PatternSearch, keys: Sequence[bytes]
) -> Iterator[Tally]:
    subjects = list(filter(None, map(subjectIn, keys)))
    chosen = set(search.select(subjects))
    if not chosen and len(subjects) == len(keys):
        return
    for key in keys:
        subject = subjectIn(key)
        if not subject or subject in chosen:
            tally = PLAIN.tally(key, bytes(txn.get(key) or b""))
            if tally is not None and (subject or search.select((tally.subject,))):
                yield tally


def _subjectAt(txn: lmdb.Transaction[bytes], key: bytes) -> bytes:
    """The subject of a tally; empty if it is not known."""
    subject = subjectIn(key)
    if subject:
        return subject
    tally = PLAIN.tally(key, bytes(txn.get(key) or b""))
    return b"" if tally is None else tally.subject


def fetchEdges(environment: Environment, identity: int) -> list[bytes]:
    """The first and the last subject with tallies in byte order. None if keys are hashes."""
    with environment.reading() as txn:
        return edgesIn(txn, environment.codec, identity)


def edgesIn(txn: lmdb.Transaction[bytes], codec: PlainCodec, identity: int) -> list[bytes]:
    """As L{fetchEdges}, within a transaction."""
    prefix = tallyPrefix(identity)
    if codec.isSealed:
        return [b""]
    with txn.cursor() as cursor:
        if not cursor.set_range(prefix) or not bytes(cursor.key()).startswith(prefix):
            return []
        edges = [bytes(cursor.key())]
        behind = cursor.set_range(prefix + b"\xff" * LONGEST_SUBJECT_KEY)
        if cursor.prev() if behind else cursor.last():
            edges.append(bytes(cursor.key()))
        return [edge[len(prefix) :] for edge in edges]


def _lastIn(txn: lmdb.Transaction[bytes], codec: PlainCodec, identity: int) -> int:
    key = rowKey(identity)
    raw = txn.get(key)
    try:
        if raw is None:
            return 0
        return LogRow.unpack(identity, codec.unfold(bytes(raw), key)).last
    except Damaged:
        return 0


def lastIn(
    txn: lmdb.Transaction[bytes], identity: int, subject: bytes, codec: PlainCodec = PLAIN
) -> int:
    """The sequence of the last record of a literal subject; 0 if there is none."""
    key = codec.tallyKey(identity, subject)
    if hot.findLast is not None and not codec.isSealed:
        return int(hot.findLast(txn, key))
    raw = txn.get(key)
    try:
        return 0 if raw is None else lastOfTally(codec.unfold(bytes(raw), key))
    except Damaged:
        return 0


def tallyIn(
    txn: lmdb.Transaction[bytes],
    codec: PlainCodec,
    identity: int,
    subject: bytes,
    after: bytes = b"",
) -> TallyPage:
    """As L{fetchTallies}, for a literal subject."""
    tally = None if subject <= after else _tallyOf(txn, codec, identity, subject)
    return TallyPage([] if tally is None else [tally], b"", _lastIn(txn, codec, identity))


def _tallyOf(
    txn: lmdb.Transaction[bytes], codec: PlainCodec, identity: int, subject: bytes
) -> Tally | None:
    key = codec.tallyKey(identity, subject)
    raw = txn.get(key)
    return None if raw is None else codec.tally(key, bytes(raw))


def fetchAbsent(
    environment: Environment, identity: int, subjects: Sequence[bytes]
) -> tuple[int, int]:
    """The number of subjects without a tally, and the log's last sequence in the database."""
    with environment.reading() as txn:
        codec = environment.codec
        absent = sum(txn.get(codec.tallyKey(identity, subject)) is None for subject in subjects)
        return absent, _lastIn(txn, codec, identity)


def fetchState(
    environment: Environment, prefix: bytes
) -> tuple[list[tuple[bytes, bytes]], list[tuple[bytes, str]]]:
    """Whole values by their plain keys, and the keys of damaged ones with the reason."""
    values: list[tuple[bytes, bytes]] = []
    broken: list[tuple[bytes, str]] = []
    codec = environment.codec
    start = prefix[: 2 + prefix[1]] if codec.isSealed and len(prefix) > 1 else prefix
    with environment.reading() as txn, txn.cursor() as cursor:
        more = cursor.set_range(start)
        while more and cursor.key().startswith(start):
            key = cursor.key()
            try:
                name, value = codec.state(unwrap(cursor.value(), key))
                whole = key[: 2 + key[1]] + name
                if whole.startswith(prefix):
                    values.append((whole, value))
            except Damaged as failure:
                broken.append((key, str(failure)))
            more = cursor.next()
    return sorted(values), broken
