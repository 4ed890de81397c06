"""
Opens a store: verifies everything before it is served, and repairs damage.

First the file that names the format is read, so that a later version's files are not touched. Then
LMDB's structure is checked, page by page and without LMDB; then the heads of all blocks and the
rows of all logs. If anything is damaged, whole values are salvaged into a new database. The journal
is applied. Last, the database is compared with the notes beside it. If it is older than the last
commit, the logs continue beyond every sequence that may have been used.

An opened store can be read without danger to the process. Opening blocks: call it in a thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from lmdb import verify
from twisted.logger import Logger

from natsbroker.files import syncDirectory
from natsbroker.interfaces.records import StoreEncrypted, StoreFailed
from natsbroker.storage.changes import Changes, unpackChanges
from natsbroker.storage.envelopes import unwrapAt
from natsbroker.storage.lmdb.backlog import LOG_WEIGHT
from natsbroker.storage.lmdb.encryption.codec import PLAIN, PlainCodec
from natsbroker.storage.lmdb.encryption.encrypting import rewrite, rewritten
from natsbroker.storage.lmdb.encryption.keyring import (
    Encryption,
    currentKeyring,
    keysMissing,
    readKeyring,
)
from natsbroker.storage.lmdb.environment import NO_SPACE, UNVERIFIABLE, Environment
from natsbroker.storage.lmdb.files import Commits, Marks, readFormat, refuseOlder, writeFormat
from natsbroker.storage.lmdb.finding import Finder, Trust, findFormat
from natsbroker.storage.lmdb.journal import Journal, JournalFrame, framesBeyond, readFrames, runsIn
from natsbroker.storage.lmdb.layout import (
    CHANGING_VERSION,
    FORMAT_KEY,
    FORMAT_VERSION,
    SEALED_VERSION,
    LogRow,
    identityOf,
    lostKey,
    packFormat,
    packRanges,
)
from natsbroker.storage.lmdb.pages import PageFile
from natsbroker.storage.lmdb.reports import REPORT, keep, reportsIn, unacknowledged
from natsbroker.storage.lmdb.salvage import salvage
from natsbroker.storage.lmdb.survey import Survey, gapsBefore, survey
from natsbroker.storage.lmdb.transaction import LMDBTransaction, jobFor
from natsbroker.storage.records import Damaged, sequenceOf

STORE, DATABASE, COMMITS, JOURNAL = "STORE", "data.mdb", "commits", "journal"

_log = Logger(namespace="natsbroker.storage.lmdb")


BEHIND = "the database is older than the last commit"
GAPS = "a part of the journal is damaged"

GENERATIONS = 16
"""The number of generations that are skipped when the database is opened, or a commit failed."""


@dataclass
class Opened:
    """
    @ivar base: what is added to a transaction's number to get its generation.
    @ivar journal: the journal, unless there was no space for it.
    @ivar takesChanges: whether the journal may have changes, and older versions refuse the store.
    @ivar damage: lost records: a log's name, a range and a reason.
    @ivar states: lost values of state: the space, the key and a reason.
    @ivar reports: the reports of losses that nobody has acknowledged.
    @ivar replayed: subjects of records from the journal, by log, for limits per subject.
    @ivar repaired: what was repaired, for the broker's log; empty if nothing was.
    """

    environment: Environment
    mark: bytes
    base: int
    rows: dict[int, LogRow]
    holds: dict[int, dict[str, int]]
    marks: Marks
    commits: Commits
    generation: int
    journal: Journal | None
    damage: list[tuple[str, int, int, str]] = field(default_factory=list)
    states: list[tuple[str, bytes, str]] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    replayed: dict[int, set[bytes]] = field(default_factory=dict)
    repaired: str = ""
    takesChanges: bool = False

    def admitChanges(self) -> None:
        """Let the journal take changes. Without space for this, the database takes them."""
        if not (self.takesChanges or self.journal is None or self.environment.codec.isSealed):
            self.takesChanges = refuseOlder(self.marks.directory / STORE, self.mark)

    def endChanges(self) -> None:
        """Let older versions open the store, since the database has the journal's content."""
        if self.takesChanges:
            writeFormat(self.marks.directory / STORE, self.mark, FORMAT_VERSION)
            self.takesChanges = False

    def close(self) -> None:
        self.environment.close()
        self.closeFiles()

    def closeFiles(self) -> None:
        self.commits.close()
        if self.journal is not None:
            self.journal.close()


def openDirectory(
    directory: Path,
    maxSize: int = 0,
    isSynced: bool = True,
    encryption: Encryption | None = None,
) -> Opened:
    """
    Open the store in a directory whose lock is held, or make one.

    @param isSynced: whether a write to the journal returns only when the data is on disk.
    @raise natsbroker.interfaces.records.UnknownFormat: if another version wrote it.
    @raise StoreFailed: if the files cannot be opened as a store.
    """
    said = readFormat(directory / STORE)
    mark = None if said is None else said.mark
    marks = Marks.read(directory)
    database = directory / DATABASE
    ring = readKeyring(directory, encryption, said is not None and said.isSealed)
    codec = PLAIN if ring is None else ring.codec()
    isThere = mark is not None or not _isUnfinished(directory, marks, codec)
    if ring is None and isThere and said is None and _isSealed(database):
        raise keysMissing(directory)
    if encryption is not None:
        ring = currentKeyring(directory, ring, encryption, isThere)
        codec = ring.codec()
    if not isThere:
        database.unlink(missing_ok=True)
        mark = _make(directory, codec)
        marks = Marks.read(directory)
    if mark is None:
        mark = markOf(directory, marks)
        writeFormat(directory / STORE, mark, codec.formatVersion)
    if marks.mark != mark:
        marks = Marks(directory)
    before = None
    if ring is not None and ring.isConverting:
        before = _encrypt(directory, mark, marks, maxSize, codec)
        writeFormat(directory / STORE, mark, codec.formatVersion)
        ring.finish()
    opened = _openMarked(directory, mark, marks, maxSize, isSynced, codec)
    opened.takesChanges = said is not None and said.version == CHANGING_VERSION
    if before is not None:
        opened.states = [*before.states, *opened.states]
        opened.repaired = "; ".join(filter(None, (before.repaired, opened.repaired)))
    return opened


def markOf(directory: Path, marks: Marks) -> bytes:
    """The mark of a store whose file for it is missing. L{StoreFailed} if nothing else has it."""
    if marks.mark:
        return marks.mark
    format_ = findFormat(directory / DATABASE)
    if format_ is None:
        raise StoreFailed(f"no file in {directory} identifies the store")
    return format_[0]


def _isSealed(database: Path) -> bool:
    format_ = findFormat(database)
    return format_ is not None and format_[1] == SEALED_VERSION


def _encrypt(
    directory: Path, mark: bytes, marks: Marks, maxSize: int, codec: PlainCodec
) -> Opened | None:
    """
    Replace a plain database by an encrypted one, when that is complete.

    @return: the result of opening the plain one, which is closed. C{None} if it was replaced
        before.
    """
    database = directory / DATABASE
    surveyed, _ = inspectDatabase(database, mark, codec)
    if _isSealed(database) if surveyed is None else surveyed.isSealed:
        return None
    _log.info("Encrypting the store in {directory}", directory=str(directory))
    opened = _openMarked(directory, mark, marks, maxSize, True, PLAIN)
    try:
        rewrite(opened.environment, database, mark, opened.generation + GENERATIONS, codec)
    finally:
        opened.close()
    os.replace(rewritten(database), database)
    # The database had taken what is in the journal.
    (directory / JOURNAL).unlink(missing_ok=True)
    syncDirectory(directory)
    return opened


def _isUnfinished(directory: Path, marks: Marks, codec: PlainCodec) -> bool:
    """Whether nothing was ever stored: there is no store, or making one was interrupted."""
    database = directory / DATABASE
    if (directory / COMMITS).exists():
        return False
    if not database.exists() or not database.stat().st_size:
        return not marks.logs
    if not marks.known or marks.logs:
        return False
    if inspectDatabase(database, marks.mark, codec)[0] is not None:
        return False
    finder = Finder(database.read_bytes(), marks.mark, Trust(), codec)
    finder.search()
    return not (finder.logs or finder.values)


def _make(directory: Path, codec: PlainCodec) -> bytes:
    """Make an empty store: the marks, then the database, then the file that identifies it."""
    mark = os.urandom(8)
    marks = Marks(directory)
    marks.write(mark, {})
    marks.write(mark, {})
    syncDirectory(directory)
    _makeDatabase(directory / DATABASE, mark, codec)
    syncDirectory(directory)
    writeFormat(directory / STORE, mark, codec.formatVersion)
    syncDirectory(directory)
    return mark


def _makeDatabase(path: Path, mark: bytes, codec: PlainCodec) -> None:
    environment = Environment(path)
    environment.prepare(0)
    with environment.begin() as txn:
        value = codec.fold(mark, txn.id(), FORMAT_KEY, packFormat(0, codec.formatVersion))
        txn.put(FORMAT_KEY, value)
    environment.sync()
    environment.close()


def _openMarked(
    directory: Path, mark: bytes, marks: Marks, maxSize: int, isSynced: bool, codec: PlainCodec
) -> Opened:
    database = directory / DATABASE
    commits = Commits(directory / COMMITS, mark)
    try:
        noted = commits.read()
        frames = readFrames(directory / JOURNAL, mark, codec)
        surveyed, repaired, owed = _verified(database, mark, marks, noted, frames, codec)
        ahead, known, isBehind = framesBeyond(surveyed.generation, noted, frames)
        stale = isBehind and not repaired
        if stale:
            repaired = BEHIND
        base = max(known, noted) - surveyed.generation + surveyed.base + GENERATIONS
        environment = Environment(database, maxSize, codec)
    except BaseException:
        commits.close()
        raise
    opened = Opened(
        environment,
        mark,
        base,
        surveyed.rows,
        surveyed.holds,
        marks,
        commits,
        surveyed.generation,
        None,
    )
    try:
        gaps = gapsBefore(ahead, surveyed, marks)
        if gaps and not stale:
            repaired = GAPS
        if gaps or stale:
            keep(directory / "none", [repaired])
        if ahead or owed:
            changes = unpackChanges(chain(owed, *(frame.changes for frame in ahead)))
            opened.replayed = _replay(environment, surveyed, base, ahead, gaps, changes)
        changed = _goBeyond(surveyed, marks) if stale else []
        if stale or surveyed.broken or surveyed.halved:
            opened.states = _persist(environment, surveyed, base, changed)
        environment.sync()
        if ahead or owed or stale or surveyed.broken or surveyed.halved:
            opened.generation = base + environment.lastTransaction()
        opened.journal = _openJournal(directory / JOURNAL, mark, isSynced, codec)
    except BaseException:
        opened.close()
        raise
    opened.repaired = repaired
    _remember(directory, surveyed, opened)
    return opened


def _openJournal(path: Path, mark: bytes, isSynced: bool, codec: PlainCodec) -> Journal | None:
    """
    Open the journal. If the disk has no space for it, everything is committed to the database.
    """
    try:
        return Journal(path, mark, isSynced, codec)
    except OSError as failure:
        if failure.errno not in NO_SPACE:
            raise
        _log.warn("There is no space for the journal {path}: {why}", path=path, why=failure)
        return None


def _replay(
    environment: Environment,
    surveyed: Survey,
    base: int,
    frames: Sequence[JournalFrame],
    gaps: Mapping[int, list[tuple[int, int]]],
    changes: Changes,
) -> dict[int, set[bytes]]:
    """
    Put records of the journal beyond the database into it. C{gaps} are the sequences that are
    missing between the two. The journal may delete some of these records, so C{changes} are applied
    last.

    @return: the subjects of these records, by log, if the log has several.
    """
    subjects: dict[int, set[bytes]] = {}
    runs = [run for run in runsIn(frames) if run[0] in surveyed.rows]
    weight = sum(len(blob) + 100 for _, blobs in runs for blob in blobs) + changes.weight
    environment.prepare(weight + LOG_WEIGHT * (len({identity for identity, _ in runs}) + 1))
    with environment.begin() as txn:
        transaction = LMDBTransaction(
            txn, surveyed.mark, base + txn.id(), surveyed.rows, {}, {}, 0, environment.codec
        )
        transaction.putFormat(base)
        for identity, blobs in runs:
            writer = transaction.log(identity)
            fresh = [blob for blob in blobs if sequenceOf(blob, 0) > writer.row.last]
            if fresh and not writer.row.dropped:
                job = jobFor(writer.row, fresh)
                job.applyTo(writer)
                subjects.setdefault(identity, set()).update(job.subjects or ())
        for identity, ranges in gaps.items():
            surveyed.lost.setdefault(identity, []).extend(ranges)
            transaction.put(lostKey(identity), packRanges(surveyed.lost[identity]))
        for identity, sequences in changes.deleted.items():
            row = surveyed.rows.get(identity)
            if row is not None and not (row.dropped or row.quarantined):
                transaction.log(identity).delete(sequences)
        for (space, key), value in changes.states.items():
            surveyed.broken.pop(environment.codec.stateKey(space, key), None)
            transaction.change(space, {key: value})
        transaction.finish()
    surveyed.rows.update({key: writer.row for key, writer in transaction.writers.items()})
    return {identity: some for identity, some in subjects.items() if some}


def _verified(
    database: Path,
    mark: bytes,
    marks: Marks,
    noted: int,
    frames: Sequence[JournalFrame],
    codec: PlainCodec,
) -> tuple[Survey, str, list[bytes]]:
    """
    Verify a database, and repair it if it is damaged.

    @param noted: the generation of the last commit, or of the last frame, or 0.
    @return: the content, the repairs in words, and the changes of the journal that a repaired
        database does not have.
    """
    surveyed, problem = inspectDatabase(database, mark, codec)
    if surveyed is not None:
        if surveyed.isSealed != codec.isSealed:
            isWhat = "is encrypted" if surveyed.isSealed else "is not encrypted"
            raise StoreEncrypted(f"{database} {isWhat}, unlike what is beside it")
        return surveyed, "", []
    newest = max([noted, *(frame.generation for frame in frames)])
    expected = frames[-1].since if frames and frames[-1].generation == newest else noted
    beyond = [frame for frame in frames if frame.generation > expected]
    report = salvage(database, mark, marks, expected, newest, beyond, codec)
    surveyed, again = inspectDatabase(database, mark, codec)
    if surveyed is None:
        raise StoreFailed(f"the store cannot be repaired: {again}")
    owed = [change for frame in beyond for change in frame.changes]
    return surveyed, "; ".join([problem, *report]), owed


def _remember(directory: Path, surveyed: Survey, opened: Opened) -> None:
    """Report losses of this or of earlier runs, as long as the reports about them are kept."""
    reports = reportsIn(directory)
    opened.reports = unacknowledged(directory)
    for identity, ranges in surveyed.lost.items() if reports else ():
        row = surveyed.rows.get(identity)
        if row is not None and not row.dropped:
            reason = "lost when the database was damaged"
            opened.damage += [(row.name, start, stop, reason) for start, stop in ranges]
    opened.states += [("", b"", f"values may be lost: see {report / REPORT}") for report in reports]


def inspectDatabase(database: Path, mark: bytes, codec: PlainCodec) -> tuple[Survey | None, str]:
    """
    @return: its content, or C{None} and a sentence about the damage. A file that the disk cannot
        read counts as damaged.
    @raise OSError: if that cannot be found out.
    """
    try:
        problems = verify.verify(str(database), subdir=False)  # type: ignore[no-untyped-call]
        surveyed = None if problems else _surveyed(database, codec)
    except (Damaged, *UNVERIFIABLE) as failure:
        surveyed, problems = None, [str(failure)]
    except OSError as failure:
        if failure.errno not in (errno.EIO, errno.ENOENT):
            raise
        surveyed, problems = None, [str(failure)]
    if surveyed is None:
        return None, f"the database is damaged: {problems[0]}"
    if surveyed.mark != mark:
        return None, "the database is another store's"
    return surveyed, ""


def _surveyed(database: Path, codec: PlainCodec) -> Survey:
    descriptor = os.open(database, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return survey(PageFile(descriptor), codec)
    finally:
        os.close(descriptor)


def _goBeyond(surveyed: Survey, marks: Marks) -> list[LogRow]:
    """Skip sequences used after this copy of the database was made. Return the affected logs."""
    changed = []
    newest = marks.newest()
    for identity, row in surveyed.rows.items():
        if marks.known and newest.get(row.name) != identity and not row.dropped:
            row.dropped = True
            changed.append(row)
    for identity in newest.values():
        mark = marks.logs[identity]
        row = surveyed.rows.setdefault(identity, LogRow(identity, mark.name))
        if row.dropped or mark.reserved <= row.last:
            continue
        lost = (row.last + 1, mark.reserved + 1)
        surveyed.lost.setdefault(identity, []).append(lost)
        row.last = mark.reserved
        if not row.count:
            row.first = row.last + 1
        changed.append(row)
    return changed


def _persist(
    environment: Environment, surveyed: Survey, base: int, rows: list[LogRow]
) -> list[tuple[str, bytes, str]]:
    environment.prepare(16384 * (len(rows) + len(surveyed.broken) + len(surveyed.halved) + 1))
    with environment.begin() as txn:
        transaction = LMDBTransaction(
            txn, surveyed.mark, base + txn.id(), surveyed.rows, {}, {}, 0, environment.codec
        )
        transaction.putFormat(base)
        for row in rows:
            transaction.log(row.identity)
            if row.identity in surveyed.lost:
                transaction.put(lostKey(row.identity), packRanges(surveyed.lost[row.identity]))
        states = _mend(transaction, surveyed)
        transaction.finish()
    surveyed.rows.update({key: writer.row for key, writer in transaction.writers.items()})
    return states


def _mend(transaction: LMDBTransaction, surveyed: Survey) -> list[tuple[str, bytes, str]]:
    """Put back state under a wrong key, and repair tallies. Return lost values of state."""
    lost = []
    recount = set()
    for key, value in surveyed.halved.items():
        transaction.put(key, value)
    for key, raw in surveyed.broken.items():
        try:
            own = unwrapAt(raw, 0)[0].key
        except Damaged as failure:
            own = b""
            if key[:1] == b"S":
                lost.append((*transaction.codec.nameIn(key), str(failure)))
        if key[:1] == b"T":
            recount.add(identityOf(own or key))
        if own:
            transaction.txn.delete(key)
            if transaction.txn.get(own) is None:
                transaction.txn.put(own, raw)
    for identity in recount & surveyed.rows.keys():
        transaction.log(identity).recountAll()
    return lost
