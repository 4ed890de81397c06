"""
Reads a store that no broker has open, completely and without a change. If its structure is damaged,
a copy is opened as a broker would open it. This shows what a start would save and lose.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import lmdb

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.blocks import readBlock
from natsbroker.storage.changes import Changes, unpackChanges
from natsbroker.storage.lmdb.encryption.codec import PLAIN, PlainCodec
from natsbroker.storage.lmdb.encryption.keyring import Encryption, readKeyring
from natsbroker.storage.lmdb.fetching import fetchBlocks, fetchState
from natsbroker.storage.lmdb.files import Commits, Lock, Marks, readFormat
from natsbroker.storage.lmdb.journal import framesBeyond, readFrames, runsIn
from natsbroker.storage.lmdb.layout import LogRow, spaceAndKey
from natsbroker.storage.lmdb.opening import (
    BEHIND,
    COMMITS,
    DATABASE,
    GAPS,
    JOURNAL,
    STORE,
    inspectDatabase,
    markOf,
    openDirectory,
)
from natsbroker.storage.lmdb.reports import unacknowledged
from natsbroker.storage.lmdb.scrubbing import scrub
from natsbroker.storage.lmdb.store import LOCK, refuseForeign
from natsbroker.storage.lmdb.survey import Survey, gapsBefore
from natsbroker.storage.records import sequenceOf

_PIECE = 16 << 20
"""The bytes that are read in one transaction."""


@dataclass
class CheckedLog:
    row: LogRow
    damaged: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class CheckedStore:
    """
    @ivar problems: sentences about damage other than that of single records.
    @ivar states: the values of state that are whole: the space, the key and the value.
    """

    logs: dict[int, CheckedLog] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    states: list[tuple[str, bytes, bytes]] = field(default_factory=list)


class _Ahead(NamedTuple):
    """
    The content of the journal that the database does not have.

    @ivar sequences: of its records, by log.
    """

    changes: Changes
    sequences: dict[int, list[int]]


class _ReadOnly:
    def __init__(self, path: Path, codec: PlainCodec) -> None:
        self.codec = codec
        size = max(path.stat().st_size, 1 << 20)
        self._environment = lmdb.Environment(
            str(path), map_size=size, subdir=False, readonly=True, lock=False
        )

    @contextmanager
    def reading(self) -> Iterator[lmdb.Transaction[bytes]]:
        with self._environment.begin() as txn:
            yield txn

    def close(self) -> None:
        self._environment.close()


def checkDirectory(directory: Path, encryption: Encryption | None = None) -> CheckedStore:
    """
    @raise natsbroker.interfaces.records.StoreEncrypted: if the key is missing or wrong.
    @raise natsbroker.interfaces.records.StoreLocked: if a broker has the store.
    @raise natsbroker.interfaces.records.UnknownFormat: for another version, or
        nats-streaming-server.
    @raise StoreFailed: if there is no store.
    """
    if not (directory / STORE).exists() and not (directory / DATABASE).exists():
        refuseForeign(directory)
        raise StoreFailed(f"there is no store in {directory}")
    lock = Lock(directory / LOCK, isShared=True) if (directory / LOCK).exists() else None
    try:
        return _checked(directory, encryption)
    except lmdb.Error as failure:
        raise StoreFailed(f"the store cannot be read: {failure}") from failure
    finally:
        if lock is not None:
            lock.release()


def _checked(directory: Path, encryption: Encryption | None) -> CheckedStore:
    checked = CheckedStore()
    marks = Marks.read(directory)
    said = readFormat(directory / STORE)
    ring = readKeyring(directory, encryption, said is not None and said.isSealed)
    codec = PLAIN if ring is None else ring.codec()
    if said is None:
        checked.problems.append(f"the file {STORE} is missing or damaged")
    mark = markOf(directory, marks) if said is None else said.mark
    if marks.mark != mark:
        checked.problems.append("the files marks-0 and marks-1 are missing or damaged")
        marks = Marks(directory)
    survey, problem = inspectDatabase(directory / DATABASE, mark, codec)
    if survey is None:
        return _rehearsed(directory, encryption, [*checked.problems, problem])
    ahead = _addJournal(directory, mark, marks, survey, checked)
    checked.logs = {key: CheckedLog(row) for key, row in survey.rows.items() if not row.dropped}
    _addSurvey(survey, checked)
    checked.problems += _quarantines(checked)
    for report in unacknowledged(directory):
        checked.problems.append(f"losses that nobody has acknowledged: {report}")
    _readAll(directory / DATABASE, codec, checked, ahead)
    return checked


def _rehearsed(directory: Path, encryption: Encryption | None, problems: list[str]) -> CheckedStore:
    with TemporaryDirectory(prefix="natsbroker-check-") as folder:
        copy = Path(folder) / "store"
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("damaged-*"))
        opened = openDirectory(copy, encryption=encryption)
        opened.close()
        checked = _checked(copy, encryption)
    # Other problems are those of the copy, which was just repaired.
    saved = "the start of a broker saves what is listed here"
    checked.problems = [*problems, saved, *_quarantines(checked)]
    return checked


def _addJournal(
    directory: Path, mark: bytes, marks: Marks, survey: Survey, checked: CheckedStore
) -> _Ahead:
    """
    Add the records that only the journal has, and subtract those that only the journal deletes.
    Each frame was verified by its checksum.

    @return: the content of the journal.
    """
    ahead: defaultdict[int, list[int]] = defaultdict(list)
    frames, _, isBehind = framesBeyond(
        survey.generation,
        _noted(directory / COMMITS, mark),
        readFrames(directory / JOURNAL, mark, survey.codec),
    )
    gaps = gapsBefore(frames, survey, marks)
    if isBehind:
        checked.problems.append(BEHIND)
    elif gaps:
        checked.problems.append(GAPS)
    for identity, ranges in gaps.items():
        survey.lost.setdefault(identity, []).extend(ranges)
    for identity, blobs in runsIn(frames):
        row = survey.rows.get(identity)
        if row is None:
            continue
        new = [sequence for blob in blobs if (sequence := sequenceOf(blob, 0)) > row.last]
        if new:
            row.first = row.first if row.count else new[0]
            row.last = new[-1]
            row.count += len(new)
            ahead[identity] += new
    changes = unpackChanges(entry for frame in frames for entry in frame.changes)
    for identity, sequences in changes.deleted.items():
        if identity in survey.rows:
            # A record is there when its deletion is written, unless it was lost later.
            lost = survey.lost.get(identity, ())
            survey.rows[identity].count -= sum(
                not any(start <= sequence < stop for start, stop in lost)
                for sequence in set(sequences)
            )
    return _Ahead(changes, ahead)


def _noted(path: Path, mark: bytes) -> int:
    if not path.exists():
        return 0
    commits = Commits(path, mark, os.O_RDONLY)
    try:
        return commits.read()
    finally:
        commits.close()


def _quarantines(checked: CheckedStore) -> Iterator[str]:
    for log in checked.logs.values():
        if log.row.quarantined:
            yield f"{log.row.name} is in quarantine: its description was lost"


def _addSurvey(survey: Survey, checked: CheckedStore) -> None:
    for log in checked.logs.values():
        log.damaged += survey.lost.get(log.row.identity, [])
    for key in survey.halved:
        checked.problems.append(f"one of two copies of the value under {key!r} is damaged")
    for key in survey.broken:
        if key[:1] == b"T":
            checked.problems.append(f"an index of subjects under {key!r} is damaged")


def _readAll(database: Path, codec: PlainCodec, checked: CheckedStore, ahead: _Ahead) -> None:
    environment: Any = _ReadOnly(database, codec)
    try:
        after = b""
        while True:
            result = scrub(environment, after, _PIECE)
            for identity, start, stop in result.records:
                _addDamage(checked.logs.get(identity), start, stop)
            after = result.after
            if not after:
                break
        values, broken = fetchState(environment, b"S")
        for identity in ahead.changes.deleted.keys() & checked.logs.keys():
            row = checked.logs[identity].row
            row.first = _firstLeft(environment, row, ahead)
    finally:
        environment.close()
    states = {**{spaceAndKey(key): value for key, value in values}, **ahead.changes.states}
    checked.states = [(*key, value) for key, value in states.items() if value is not None]
    for key, reason in broken:
        space, name = codec.nameIn(key)
        if (space, name) not in ahead.changes.states:
            checked.problems.append(f"the value {name!r} of {space} is damaged: {reason}")


def _firstLeft(environment: Any, row: LogRow, ahead: _Ahead) -> int:
    """The first record that the journal does not delete."""
    deleted = frozenset(ahead.changes.deleted[row.identity])
    start = row.first
    while start:
        raws = fetchBlocks(environment, row.identity, start, _PIECE)
        for raw in raws:
            block = readBlock(raw.raw, row.identity, raw.first, raw.dead)
            if block is None:
                continue
            for index in block.living(start):
                if block.sequences[index] not in deleted:
                    return block.sequences[index]
        start = raws[-1].following if raws else 0
    return next(
        (sequence for sequence in ahead.sequences[row.identity] if sequence not in deleted),
        row.last + 1,
    )


def _addDamage(log: CheckedLog | None, start: int, stop: int) -> None:
    if log is None:
        return
    start, end = max(start, log.row.first), log.row.last + 1
    stop = min(stop or end, end)
    if start < stop:
        log.damaged.append((start, stop))
