"""
The journal: what small appends cost, and what is found of it after the process ended.

Real files. Crashes and power cuts at any call are tried with the stores themselves.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import hot
from natsbroker.interfaces.records import Retention, StoreFailed, StoreFull, SubjectTally
from natsbroker.storage.committing import Holder
from natsbroker.storage.grouping import ALONE
from natsbroker.storage.lmdb.files import Commits, Mark, Marks, writeWhole
from natsbroker.storage.lmdb.journal import (
    LARGEST_FRAME,
    Journal,
    JournalFrame,
    packFrame,
    readFrames,
    runsIn,
)
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.storage.records import encodeBatch
from natsbroker.testing.pumped import PumpedReactor
from tests.conftest import FlushLoggedErrors
from tests.storage import shim
from tests.storage.history import History, Recorder
from tests.storage.shim import Act, Call, Plan
from tests.storage.victims import Zygote
from tests.support import COMPILED, PURE, needsCompiled, using

pytestmark = pytest.mark.slow

MARK = b"\x01markmar"
WHY_NOT = shim.whyNot()
needsShim = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A process that forks victims."""
    zygote = Zygote()
    yield zygote
    zygote.close()


def records(identity: int, first: int, count: int, size: int = 5) -> list[bytes]:
    """Records of one log."""
    batch = [(b"s", b"", b"%d" % number * size, 0) for number in range(first, first + count)]
    return encodeBatch(identity, first, batch, 7, 7, b"s").blobs


def written(path: Path, *frames: JournalFrame) -> None:
    """Write frames to a new journal."""
    journal = Journal(path, MARK)
    for frame in frames:
        assert journal.append(*frame)
    journal.close()


FIRST = JournalFrame(5, 4, records(1, 1, 3))
SECOND = JournalFrame(6, 4, records(2, 9, 1))


def test_framesAreRead(tmp_path: Path) -> None:
    """Frames are read as they were written, and make up runs of records by log."""
    path = tmp_path / "journal"
    third = JournalFrame(7, 4, records(2, 10, 2))
    written(path, FIRST, SECOND, third)
    assert readFrames(path, MARK) == [FIRST, SECOND, third]
    assert list(runsIn([FIRST, SECOND, third])) == [
        (1, FIRST.blobs),
        (2, [*SECOND.blobs, *third.blobs]),
    ]


@needsCompiled
@given(
    st.lists(st.binary(max_size=3000), max_size=4),
    st.integers(0, (1 << 64) - 1),
    st.sampled_from((1, 4096)),
)
def test_framesAreTheSame(blobs: list[bytes], generation: int, multiple: int) -> None:
    """The compiled frame is byte for byte that of the readable path."""
    assert COMPILED is not None
    frames = []
    for names in (PURE, COMPILED):
        with using(names):
            frames.append(packFrame(b"12345678", generation, 5, blobs, multiple=multiple))
    assert frames[0] == frames[1]


def test_noFile(tmp_path: Path) -> None:
    """A journal whose file is missing has no frames."""
    assert readFrames(tmp_path / "journal", MARK) == []


def test_otherStoresFrames(tmp_path: Path) -> None:
    """Frames of a store with another mark do not count."""
    written(tmp_path / "journal", FIRST)
    assert readFrames(tmp_path / "journal", b"another!") == []


def test_flippedBits(tmp_path: Path) -> None:
    """A flipped bit at any place of the journal loses no frame."""
    path = tmp_path / "journal"
    written(path, FIRST, SECOND)
    data = path.read_bytes()
    for position in range(1024):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert readFrames(path, MARK) == [FIRST, SECOND]


def test_tornFrame(tmp_path: Path) -> None:
    """A partly written frame does not count, but those before and behind it do."""
    path = tmp_path / "journal"
    big = JournalFrame(6, 4, records(2, 9, 1, 3000))
    last = JournalFrame(7, 4, records(2, 10, 1))
    written(path, FIRST, big, last)
    data = bytearray(path.read_bytes())
    first = data.index(MARK, 4096)
    second = data.index(MARK, first + 1)
    for place in (first, second):
        data[place + 1000 : place + 1512] = bytes(512)
    path.write_bytes(data)
    assert readFrames(path, MARK) == [FIRST, last]


def test_rewound(tmp_path: Path) -> None:
    """After the journal was rewound, its earlier content is recognized by its generation."""
    journal = Journal(tmp_path / "journal", MARK)
    assert journal.append(*FIRST)
    assert journal.append(*SECOND)
    journal.rewind()
    newer = JournalFrame(9, 8, records(1, 4, 1))
    assert journal.append(*newer)
    journal.close()
    frames = readFrames(tmp_path / "journal", MARK)
    assert frames[-1] == newer
    assert [frame for frame in frames if frame.generation > newer.since] == [newer]


def test_unsyncedFrames(tmp_path: Path) -> None:
    """
    Frames that are not synced follow each other without a gap. One that is synced ends a piece of
    the disk, so that no later frame shares that piece with it.
    """
    journal = Journal(tmp_path / "journal", MARK, isSynced=False)
    frames = [JournalFrame(5 + count, 4, records(1, 1 + count, 1)) for count in range(6)]
    ends = []
    for frame in frames:
        assert journal.append(*frame, mustSync=frame is frames[3])
        ends.append(journal.position)
    journal.close()
    assert ends[0] < ends[1] < ends[2] < 1024
    assert ends[3] == 4096
    assert 4096 < ends[4] < ends[5] < 4096 + 1024
    assert readFrames(tmp_path / "journal", MARK) == frames


def test_full(tmp_path: Path) -> None:
    """A frame that does not fit is not written; after the journal was rewound, it is."""
    journal = Journal(tmp_path / "journal", MARK)
    size = (tmp_path / "journal").stat().st_size
    blobs = records(1, 1, 1, LARGEST_FRAME)
    count = 1
    while journal.append(count, 0, blobs):
        count += 1
    assert count > size // (3 * len(blobs[0]))
    assert (tmp_path / "journal").stat().st_size == size
    journal.rewind()
    assert journal.append(count, 0, blobs)
    journal.close()


@needsShim
def test_unreadablePage(zygote: Zygote, tmp_path: Path) -> None:
    """A part of the journal that the disk cannot read any more costs the frames in it, and the loss
    is reported."""
    store = tmp_path / "store"
    append, _, close = _openStore(store)
    for number in range(40):
        append("a", number)
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    close()
    hole = Plan(Act.UNREADABLE, Call.READ, 4096, 8192, inode=(copy / "journal").stat().st_ino)
    assert zygote.run("open", copy, hole).hits > 0
    recorder, payloads = _contents(copy, "a")
    assert 0 < len(payloads) < 40
    assert recorder.damaged


@needsShim
@pytest.mark.parametrize("count", [1, 5])
def test_oneSync(zygote: Zygote, tmp_path: Path, count: int) -> None:
    """A small append is durable after one sync. The occasional commit to the database takes two."""
    syncs = []
    for steps in (20, 120):
        how: dict[str, Any] = {"first": 100, "count": count, "steps": steps}
        plan = Plan(Act.DELAY, Call.SYNC | Call.ROOT, microseconds=0)
        run = zygote.run("append", tmp_path / f"store{steps}", later=plan, **how)
        assert len([line for line in run.said if "done" in line]) == steps
        syncs.append(run.hits)
    assert syncs[1] - syncs[0] < 110


@needsShim
def test_noSync(zygote: Zygote, tmp_path: Path) -> None:
    """With an interval between syncs, small appends are acknowledged without a sync."""
    how: dict[str, Any] = {"first": 100, "count": 1, "steps": 120, "syncInterval": 60}
    plan = Plan(Act.DELAY, Call.SYNC | Call.ROOT, microseconds=0)
    run = zygote.run("append", tmp_path / "store", later=plan, **how)
    assert len([line for line in run.said if "done" in line]) == 120
    assert run.hits < 10
    history = History()
    history.learn(run.lines)
    assert not history.check(tmp_path / "store").damaged


@needsShim
def test_databaseFails(zygote: Zygote, tmp_path: Path) -> None:
    """
    While commits to the database fail, requests that fit into the journal are stored and can be
    read, also after a restart.
    """
    how: dict[str, Any] = {"first": 100, "count": 5, "steps": 30}
    run = zygote.run("append", tmp_path / "store", later=Plan(Act.FAIL, Call.SYNC), **how)
    assert len([line for line in run.said if "done" in line]) == 30
    history = History()
    history.learn(run.lines)
    recorder = history.check(tmp_path / "store")
    assert not recorder.damaged


def _openStore(directory: Path) -> tuple[Callable[[str, int], None], Any, Callable[[], None]]:
    """
    Open a store.

    @return: appends one record to a log; the store; closes it.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, directory))
    logs: dict[str, Any] = {}

    def append(name: str, number: int) -> None:
        if name not in logs:
            logs[name] = reactor.wait(store.open(name))
        reactor.wait(logs[name].append([(b"s", b"", b"payload %d" % number, 0)]))

    return append, store, lambda: reactor.wait(store.close())


def _contents(directory: Path, name: str) -> tuple[Recorder, list[bytes]]:
    """The content of a log of a store that is opened and closed again, and the store's reports."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, directory))
    recorder = Recorder()
    store.watch(recorder)
    log = reactor.wait(store.open(name))
    payloads = [record.payload for record in reactor.wait(log.read(1, 10000))]
    reactor.wait(store.close())
    return recorder, payloads


EXPECTED = [b"payload %d" % number for number in range(40)]


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store as it is on disk while it is open, with much in its journal."""
    append, _, close = _openStore(tmp_path / "open")
    for number in range(40):
        append("a", number)
    shutil.copytree(tmp_path / "open", tmp_path / "killed")
    close()
    return tmp_path / "killed"


def test_replayed(killed: Path) -> None:
    """A record in the journal is still there after the store was opened twice."""
    for _ in range(2):
        recorder, payloads = _contents(killed, "a")
        assert payloads == EXPECTED
        assert not recorder.damaged and not recorder.states


@pytest.mark.parametrize("name", ["journal", "data.mdb", "commits"])
def test_flippedBitWhileAhead(tmp_path: Path, killed: Path, name: str) -> None:
    """
    While the journal is ahead of the database, a flipped bit costs at most the record that it is
    in.
    """
    end = len((killed / name).read_bytes().rstrip(b"\0"))
    for number in range(24):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(killed, copy)
        data = bytearray((copy / name).read_bytes())
        data[number * end // 24] ^= 1 << number % 8
        (copy / name).write_bytes(data)
        recorder, payloads = _contents(copy, "a")
        lost = set(EXPECTED) - set(payloads)
        assert payloads == [payload for payload in EXPECTED if payload not in lost]
        assert len(lost) <= (name == "data.mdb")
        assert recorder.damaged or not lost


@pytest.mark.parametrize("how", ["gone", "empty", "zero", "cut"])
def test_journalIsLost(killed: Path, how: str) -> None:
    """
    A killed store without its journal reports the loss, and does not give the lost sequences again.
    """
    path = killed / "journal"
    if how == "gone":
        path.unlink()
    else:
        kept = {"empty": b"", "zero": bytes(1 << 20), "cut": path.read_bytes()[:9000]}
        path.write_bytes(kept[how])
    append, store, close = _openStore(killed)
    recorder = Recorder()
    store.watch(recorder)
    [(name, start, stop, _)] = recorder.damaged
    assert name == "a"
    assert start <= 40 < stop
    append("a", 40)
    close()
    _, payloads = _contents(killed, "a")
    assert payloads == [*EXPECTED[: start - 1], b"payload 40"]


def test_missingInside(killed: Path) -> None:
    """If one of several frames is damaged, the others count, and the lost records are reported."""
    path = killed / "journal"
    data = bytearray(path.read_bytes())
    place = data.index(b"payload 20")
    while place >= 0:
        data[place] ^= 1
        place = data.find(b"payload 20", place)
    path.write_bytes(data)
    recorder, payloads = _contents(killed, "a")
    assert payloads == [*EXPECTED[:20], *EXPECTED[21:]]
    assert [damage[:3] for damage in recorder.damaged] == [("a", 21, 22)]
    again, _ = _contents(killed, "a")
    assert [damage[:3] for damage in again.damaged] == [("a", 21, 22)]


def test_olderDatabase(tmp_path: Path, killed: Path) -> None:
    """A journal restores its records although the database beside it is an older copy."""
    older = (killed / "data.mdb").read_bytes()
    reactor = PumpedReactor()
    opened = reactor.wait(openLMDB(reactor, killed))
    log = reactor.wait(opened.open("a"))
    for number in range(40, 60):
        reactor.wait(log.append([(b"s", b"", b"payload %d" % number, 0)]))
    shutil.copytree(killed, tmp_path / "mixed")
    reactor.wait(opened.close())
    (tmp_path / "mixed" / "data.mdb").write_bytes(older)
    recorder, payloads = _contents(tmp_path / "mixed", "a")
    assert payloads[-20:] == [b"payload %d" % number for number in range(40, 60)]
    assert recorder.damaged


@pytest.mark.parametrize("isDamaged", [False, True])
def test_madeAgain(killed: Path, isDamaged: bool) -> None:
    """
    A log whose creation was cut off and repeated is whole, also when a commit is missing or the
    database is damaged.
    """
    marks = Marks.read(killed)
    later = marks.logs
    marks.write(marks.mark, {(1 << 64) - 1: Mark("a", 16384)}, later)
    for _ in range(2):
        marks.write(marks.mark, later)
    if isDamaged:
        data = bytearray((killed / "data.mdb").read_bytes())
        data[:8192] = bytes(8192)
        (killed / "data.mdb").write_bytes(data)
    else:
        commits = Commits(killed / "commits", marks.mark)
        commits.write(commits.read() + 1)
        commits.close()
    for _ in range(2):
        recorder, payloads = _contents(killed, "a")
        assert payloads == EXPECTED
        assert recorder.states


def test_readsWhatIsAhead(tmp_path: Path) -> None:
    """
    A record that is only in the journal is read by sequence, time and subject and in exports, like
    one in the database.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    log: Any = reactor.wait(store.open("a"))
    for number in range(1, 31):
        reactor.wait(log.append([(b"s", b"", b"%d" % number, number * 1000)]))
    expected = [b"%d" % number for number in range(1, 31)]
    assert [record.payload for record in reactor.wait(log.read(1))] == expected
    assert [record.payload for record in reactor.wait(log.read(17, 3))] == expected[16:19]
    assert reactor.wait(log.sequenceAt(20_500)) == 21
    assert reactor.wait(log.sequenceAt(31_000)) == 31
    assert reactor.wait(log.lastFor(b"s")).sequence == 30
    assert reactor.wait(log.subjects(b">")) == {b"s": SubjectTally(30, 1, 30)}
    results: list[int] = []
    while len(results) < 30:
        columns = reactor.wait(log.exportRange(len(results) + 1, 31))
        results += columns.sequences
    assert results == [*range(1, 31)]
    before = reactor.wait(log.digest(1, 31))
    assert reactor.wait(log.delete([30])) == 1
    assert reactor.wait(log.read(29, 5))[-1].sequence == 29
    assert before != reactor.wait(log.digest(1, 31))
    reactor.wait(store.close())


def _isInDatabase(directory: Path, copy: Path) -> bool:
    """
    Whether a store that is open has everything without its journal.
    """
    shutil.copytree(directory, copy)
    (copy / "journal").unlink()
    (copy / "commits").unlink()
    return _contents(copy, "a")[1] == [b"x"]


def test_syncsLater(tmp_path: Path) -> None:
    """
    With an interval between syncs, acknowledged records are in the database when the interval has
    passed.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store", syncInterval=2))
    log = reactor.wait(store.open("a"))
    others = list(reactor.getDelayedCalls())
    reactor.wait(log.append([(b"s", b"", b"x", 0)]))
    reactor.advance(1.9)
    reactor.wait(store.logs())
    assert not _isInDatabase(tmp_path / "store", tmp_path / "before")
    reactor.advance(0.2)
    reactor.wait(store.logs())
    assert _isInDatabase(tmp_path / "store", tmp_path / "after")
    assert reactor.getDelayedCalls() == others
    reactor.wait(log.append([(b"s", b"", b"y", 0)]))
    last = log.append([(b"s", b"", b"z", 0)])
    reactor.wait(store.close())
    assert last.called
    assert reactor.getDelayedCalls() == []


def test_syncFails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If the disk is full when an interval between syncs ends, the database gets the records at the
    next one.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store", syncInterval=2))
    log = reactor.wait(store.open("a"))
    reactor.wait(log.append([(b"s", b"", b"x", 0)]))
    recorder = Recorder()
    store.watch(recorder)

    def full(weight: int, frees: object) -> bool:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as context:
        context.setattr(store._environment, "prepareNext", full)
        reactor.advance(2)
        while not recorder.writing:
            reactor.turn()
    assert recorder.writing == ["stopped: no space is left: [Errno 28] no space"]
    reactor.advance(2)
    reactor.wait(store.logs())
    assert _isInDatabase(tmp_path / "store", tmp_path / "after")
    reactor.wait(store.close())


def test_noRoom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record for which the database might lack room later is written to the database at once."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    monkeypatch.setattr(store._environment, "promise", lambda weight: False)
    log = reactor.wait(store.open("a"))
    reactor.wait(log.append([(b"s", b"", b"x", 0)]))
    assert _isInDatabase(tmp_path / "store", tmp_path / "after")
    reactor.wait(store.close())


def test_limitsHold(tmp_path: Path) -> None:
    """A log that reaches its limit through the journal never has more records than that."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    log: Any = reactor.wait(store.open("a"))
    log.retain(Retention(count=10))
    for number in range(25):
        reactor.wait(log.append([(b"s", b"", b"%d" % number, 0)]))
        assert log.bounds().count <= 10
    assert [record.sequence for record in reactor.wait(log.read(1))] == [*range(16, 26)]
    reactor.wait(store.close())


def test_noDirectWrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a file cannot be opened or written past the cache, the journal is written through the cache.
    """
    real, direct = os.pwrite, [True]

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if direct.pop() if direct else False:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(descriptor, data, offset)

    def withoutDirect(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opened(path, flags, mode)

    Journal(tmp_path / "journal", MARK).close()
    monkeypatch.setattr("os.pwrite", pwrite)
    written(tmp_path / "journal", FIRST, SECOND)
    assert readFrames(tmp_path / "journal", MARK) == [FIRST, SECOND]
    opened = os.open
    monkeypatch.setattr("os.open", withoutDirect)
    third = JournalFrame(7, 4, records(2, 10, 2))
    written(tmp_path / "journal", third)
    assert readFrames(tmp_path / "journal", MARK)[-1] == third


class ScriptedWriter:
    """A writer whose writes have scripted outcomes; further writes succeed."""

    script: list[tuple[int, int]]

    def __init__(self, capacity: int) -> None:
        self._done = os.eventfd(0, os.EFD_NONBLOCK)
        self._result = 0, 0

    def fileno(self) -> int:
        """Like L{hot.SyncedWriter}."""
        return self._done

    def write(
        self,
        fd: int,
        data: bytes,
        offset: int,
        noteFd: int,
        note: bytes,
        noteOffset: int,
        *rest: bool,
    ) -> None:
        """Write at once, unless this fails."""
        self._result = self.script.pop(0) if self.script else (0, 0)
        if self._result == (0, 0):
            with mmap.mmap(-1, len(data)) as aligned:
                aligned[:] = data
                os.pwrite(fd, aligned, offset)
            os.pwrite(noteFd, note, noteOffset)
        os.eventfd_write(self._done, 1)

    def result(self) -> tuple[int, int]:
        """Like L{hot.SyncedWriter}."""
        os.eventfd_read(self._done)
        return self._result

    def close(self) -> None:
        """Stop the writer."""
        os.close(self._done)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The scripted outcomes of the next writes to the journal."""
    ScriptedWriter.script = []
    monkeypatch.setattr(hot, "SyncedWriter", ScriptedWriter)
    return ScriptedWriter.script


def _hasStopped(recorder: Recorder) -> bool:
    return bool(recorder.writing) and recorder.writing[-1] != "resumed"


def _untilIdle(store: Any) -> None:
    """Wait until the thread of a store is idle, so that the writer gets the next request."""
    while store._committer._holder is not Holder.NOBODY:
        time.sleep(0.001)


def _entry(number: int) -> list[Any]:
    return [(b"s", b"", b"payload %d" % number, 0)]


@pytest.mark.skipif(hot.SyncedWriter is None, reason="the lane is not compiled")
def test_writtenWithoutTheThread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Most small appends that follow each other are written by the compiled writer, because the thread
    of the store is idle.
    """
    byThread: list[int] = []
    append = Journal.append

    def counting(journal: Journal, generation: int, *rest: Any) -> bool:
        byThread.append(generation)
        return append(journal, generation, *rest)

    monkeypatch.setattr(Journal, "append", counting)
    appendOne, _, close = _openStore(tmp_path / "store")
    for number in range(40):
        appendOne("a", number)
    assert len(byThread) < 20
    close()
    assert _contents(tmp_path / "store", "a")[1] == EXPECTED


def test_orderOfGroups(tmp_path: Path) -> None:
    """Jobs are finished in the order of their calls, whichever thread writes a group."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    log: Any = reactor.wait(store.open("a"))
    done: list[int] = []
    asked: list[Any] = []
    for number in range(300):
        # Some are too large for the journal, and some are no appends: the thread does those.
        size = LARGEST_FRAME if number % 13 == 5 else 1
        if number % 17 == 3:
            asked.append(log.delete([number]))
        else:
            asked.append(log.append([(b"s", b"", b"x" * size, 0)] * (1 + number % 3)))
        asked[-1].addCallback(lambda _, number=number: done.append(number))
        if number % 4 == 0:
            reactor.turn()
    for one in asked:
        if not one.called:
            reactor.wait(one)
    assert done == list(range(300))
    reactor.wait(store.close())


def test_closeWhileWriting(tmp_path: Path) -> None:
    """A store that is closed while the writer has a group finishes it, and what came after it."""
    for count in range(1, 8):
        reactor = PumpedReactor()
        store = reactor.wait(openLMDB(reactor, tmp_path / f"store{count}"))
        log: Any = reactor.wait(store.open("a"))
        reactor.wait(log.append(_entry(0)))
        reactor.wait(log.append(_entry(1)))
        asked = [log.append(_entry(number)) for number in range(2, 2 + count)]
        reactor.wait(store.close())
        assert all(deferred.called for deferred in asked)
        assert _contents(tmp_path / f"store{count}", "a")[1] == EXPECTED[: 2 + count]


def test_writerFails(tmp_path: Path, scripted: list[tuple[int, int]]) -> None:
    """
    A failed write to the journal fails its requests and all waiting ones, until the store was
    opened again.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    recorder = Recorder()
    store.watch(recorder)
    log: Any = reactor.wait(store.open("a"))
    reactor.wait(log.append(_entry(0)))
    reactor.wait(log.append(_entry(1)))
    _untilIdle(store)
    scripted.append((errno.EIO, 0))
    asked = [log.append(_entry(number)) for number in range(2, 5)]
    for deferred in asked:
        with pytest.raises(StoreFailed):
            reactor.wait(deferred)
    assert _hasStopped(recorder)
    with pytest.raises(StoreFailed):
        reactor.wait(log.append(_entry(5)))
    reactor.advance(1.01)
    while _hasStopped(recorder):
        reactor.turn()
    first = reactor.wait(log.append(_entry(6)))
    assert first.start > 2
    assert [record.payload for record in reactor.wait(log.read(first.start))] == [b"payload 6"]
    reactor.wait(store.close())
    assert {b"payload 0", b"payload 1", b"payload 6"} <= {*_contents(tmp_path / "store", "a")[1]}


def test_answeredFirst(
    tmp_path: Path, scripted: list[tuple[int, int]], flushLoggedErrors: FlushLoggedErrors
) -> None:
    """
    A lone publisher is answered before the store does the rest of its work, also if the answer
    raises an error.
    """
    reactor = PumpedReactor()
    store: Any = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    log: Any = reactor.wait(store.open("a"))
    reactor.wait(log.append(_entry(0)))
    order: list[str] = []
    committer = store._committer
    handedBack, committed = committer.handedBack, store.committed

    def noted(*arguments: Any, **named: Any) -> None:
        order.append("handed back")
        handedBack(*arguments, **named)

    committer.handedBack = noted
    for number in range(1, 2 * ALONE):
        _untilIdle(store)
        committer._writer.sendNow = lambda: order.append("sent")
        order.clear()
        asked = log.append(_entry(number)).addCallback(lambda _: order.append("answered"))
        reactor.wait(asked)
        reactor.catchUp()
    assert order == ["answered", "sent", "handed back"]

    def failing(outcome: Any) -> None:
        committed(outcome)
        raise ZeroDivisionError

    store.committed = failing
    reactor.wait(log.append(_entry(2 * ALONE)))
    reactor.catchUp()
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1
    store.committed = committed
    assert reactor.wait(log.append(_entry(2 * ALONE + 1))).start == 2 * ALONE + 2
    reactor.wait(store.close())
    assert _contents(tmp_path / "store", "a")[1] == [
        b"payload %d" % index for index in range(2 * ALONE + 2)
    ]


def test_writerHasNoSpace(tmp_path: Path, scripted: list[tuple[int, int]]) -> None:
    """A full disk fails the append; the next request is tried again."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    log: Any = reactor.wait(store.open("a"))
    reactor.wait(log.append(_entry(0)))
    reactor.wait(log.append(_entry(1)))
    _untilIdle(store)
    scripted.append((errno.EDQUOT, 0))
    with pytest.raises(StoreFull):
        reactor.wait(log.append(_entry(9)))
    for number in range(2, 40):
        assert reactor.wait(log.append(_entry(number))).start == number + 1
    reactor.wait(store.close())
    assert _contents(tmp_path / "store", "a")[1] == EXPECTED


def test_noteFails(tmp_path: Path, scripted: list[tuple[int, int]]) -> None:
    """
    A record in the journal is acknowledged although the database cannot note it; further records
    are refused.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    recorder = Recorder()
    store.watch(recorder)
    log: Any = reactor.wait(store.open("a"))
    reactor.wait(log.append(_entry(0)))
    reactor.wait(log.append(_entry(1)))
    _untilIdle(store)
    scripted.append((0, errno.EIO))
    assert reactor.wait(log.append(_entry(2))).start == 3
    while not _hasStopped(recorder):
        reactor.turn()
    with pytest.raises(StoreFailed):
        reactor.wait(log.append(_entry(3)))
    reactor.wait(store.close())


def test_writerCannotWriteLikeThat(tmp_path: Path, scripted: list[tuple[int, int]]) -> None:
    """If the file system refuses the writer's kind of write, the thread writes the same group."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    log: Any = reactor.wait(store.open("a"))
    reactor.wait(log.append(_entry(0)))
    _untilIdle(store)
    for number in range(1, 40):
        scripted.append((errno.EINVAL if number % 3 else 0, 0))
    asked = [log.append(_entry(number)) for number in range(1, 20)]
    assert [reactor.wait(deferred).start for deferred in asked] == list(range(2, 21))
    assert len(scripted) < 39
    for number in range(20, 40):
        log.append(_entry(number))
    reactor.wait(store.close())
    assert _contents(tmp_path / "store", "a")[1] == EXPECTED


def test_noSpaceForJournal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose journal cannot be made opens, and stores without it."""
    path = tmp_path / "store" / "journal"
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, path.parent))
    reactor.wait(store.close())
    path.unlink()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("natsbroker.storage.lmdb.journal.writeAt", full)
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, path.parent))
    log: Any = reactor.wait(store.open("a"))
    reactor.wait(log.append([(b"s", b"", EXPECTED[0], 0)]))
    reactor.wait(store.close())
    assert _contents(path.parent, "a")[1] == EXPECTED[:1]


def test_droppedHasNoMark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    When a log is said to be dropped, nothing names it any more: after a power cut, a store whose
    last commit is missing makes all logs again that have a mark.
    """

    def slowly(path: Path, data: bytes) -> None:
        time.sleep(0.05)  # So that an answer that does not wait is first.
        writeWhole(path, data)

    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    for name in ("kept", "dropped"):
        log: Any = reactor.wait(store.open(name))
        reactor.wait(log.append([(b"s", b"", b"x", 0)]))
    monkeypatch.setattr("natsbroker.storage.lmdb.files.writeWhole", slowly)
    reactor.wait(store.drop("dropped"))
    assert set(Marks.read(tmp_path / "store").newest()) == {"kept"}
    reactor.wait(store.close())


def test_marks(tmp_path: Path) -> None:
    """
    The marks of logs are written as they are now: unchanged, changed and new ones, without dropped
    ones.
    """
    marks = Marks(tmp_path)
    same, moved = Mark("same", 16384), Mark("moved", 16384)
    further, new = Mark("moved", 32768), Mark("new", 1)
    changes: list[tuple[dict[int, Mark], list[int], dict[int, Mark]]] = [
        ({1: same, 2: moved}, [], {1: same, 2: moved}),
        ({2: further, 3: new}, [], {1: same, 2: further, 3: new}),
        ({}, [2], {1: same, 3: new}),
        ({3: Mark("renamed", 1)}, [1], {3: Mark("renamed", 1)}),
    ]
    for changed, forgotten, logs in changes:
        marks.write(b"12345678", changed, forgotten)
        assert Marks.read(tmp_path).logs == marks.logs == logs
        marks = Marks.read(tmp_path)
