"""
The store on disk: held to every contract, with real files and threads.

What goes beyond the contracts, locking and closing, is tested here; damage, crashes and
full disks have files of their own.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from twisted.trial.unittest import SynchronousTestCase

from natsbroker.interfaces.records import Retention, StoreFailed, StoreLocked, UnknownFormat
from natsbroker.storage.lmdb.cache import BlockCache, QuickRecords
from natsbroker.storage.lmdb.environment import Environment
from natsbroker.storage.lmdb.store import openLMDB, refuseForeign
from natsbroker.storage.records import crc32c
from natsbroker.testing.contracts.stores import ReadersContract
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.history import Recorder
from tests.storage.lmdb.support import LMDBContracts
from tests.streaming.filestore.writer import StoreWriter
from tests.support import COMPILED, PURE, using


class LMDBStoreTests(LMDBContracts, SynchronousTestCase):
    """L{natsbroker.storage.lmdb.store.LMDBStore}."""

    def test_exportsAlike(self) -> None:
        """An export is the same, whether a thread makes it of blocks or it is made of records."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        for start in range(0, 3000, 500):
            self.wait(log.append([(b"s", b"h" * (n % 3), b"x" * 99, n + 1) for n in range(500)]))
            self.wait(log.skipTo(log.nextSequence + start))
        ranges = [(1, 9000, 1 << 24), (1, 9000, 5000), (499, 502, 1 << 24), (700, 3000, 90_000)]
        rows = [self.rowsFrom(log, *bounds) for bounds in ranges]
        with using(PURE):
            assert rows == [self.rowsFrom(log, *bounds) for bounds in ranges]
        assert [len(row) for row in rows] == [3000, 3000, 3, 801]
        self.wait(log.delete([3, 1800]))
        self.wait(log.discardBefore(300))
        rows = [self.rowsFrom(log, *bounds) for bounds in ranges]
        assert [len(row) for row in rows] == [2700, 2700, 3, 800]

    def test_exportsDamaged(self) -> None:
        """A record that is damaged on disk is named in an export, and all others are in it."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append([(b"s", b"", b"payload %04d." % n, n) for n in range(1, 2001)]))
        self.wait(store.close())
        [path] = (self.directory / "store").rglob("data.mdb")
        raw = path.read_bytes()
        assert raw.count(b"payload 1500.") == 1
        path.write_bytes(raw.replace(b"payload 1500.", b"payload 15x0."))
        log = self.wait(self.store().open("log"))
        for names in (COMPILED or PURE, PURE):
            with using(names):
                columns = self.wait(log.exportRange(1, 2001))
            assert (columns.next, columns.damaged) == (2001, (1500,))
            assert list(columns.sequences) == [n for n in range(1, 2001) if n != 1500]

    def rowsFrom(self, log: Any, start: int, stop: int, size: int) -> list[Any]:
        """The rows of a range, page by page."""
        rows: list[Any] = []
        while start < min(stop, log.bounds().last + 1):
            columns = self.wait(log.exportRange(start, stop, size))
            assert columns.next > start
            rows += self.rows(columns)
            start = columns.next
        return rows

    def test_nothingToCommit(self) -> None:
        """
        A request that changes nothing, and is committed alone, leaves nothing that the next start
        reports.
        """
        store = self.makeStore()
        log = self.wait(store.open("log"))
        self.wait(log.append([(b"s", b"", b"x", 0)]))
        self.wait(store.states("space").delete(b"not there"))
        store = self.reopenedFrom(store)
        recorder = Recorder()
        store.watch(recorder)
        assert (recorder.damaged, recorder.states) == ([], [])
        assert self.wait(store.open("log")).nextSequence == 2
        self.wait(store.close())

    def test_makingWasCutOff(self) -> None:
        """A store whose creation was cut off is created again."""
        self.wait(self.makeStore().close())
        directory = self.directory / "store"
        for name in ("STORE", "commits"):
            (directory / name).unlink()
        data = (directory / "data.mdb").read_bytes()
        (directory / "data.mdb").write_bytes(data[: 2 * 4096] + bytes(len(data) - 2 * 4096))
        store = self.makeStore()
        assert self.wait(store.logs()) == []
        recorder = Recorder()
        store.watch(recorder)
        assert (recorder.damaged, recorder.states) == ([], [])
        self.wait(store.close())

    def test_lockedByAnother(self) -> None:
        """A second process that opens a store is refused at once, and the first one continues."""
        store = self.makeStore()
        log = self.wait(store.open("log"))
        with pytest.raises(StoreLocked, match=str(os.getpid())):
            self.makeStore()
        assert self.wait(log.append([(b"s", b"", b"x", 0)])) == range(1, 2)
        self.wait(store.close())

    def test_laterVersion(self) -> None:
        """The store of a later version is refused, and not changed."""
        self.wait(self.makeStore().close())
        path = self.directory / "store" / "STORE"
        text, _, _ = path.read_bytes().replace(b"format 1", b"format 9").rpartition(b"checksum")
        path.write_bytes(text + b"checksum %08x\n" % crc32c(text))
        before = self._contents()
        with pytest.raises(UnknownFormat, match="format 9"):
            self.makeStore()
        assert self._contents() == before

    def _contents(self) -> dict[str, bytes]:
        """All files except the lock, which notes the last process that opened the store."""
        files = sorted((self.directory / "store").iterdir())
        return {path.name: path.read_bytes() for path in files if path.name != "lock"}

    def reopenedFrom(self, store: Any) -> Any:
        """Close a store and open it again."""
        self.wait(store.close())
        return self.makeStore()


def contents(root: Path) -> dict[str, bytes]:
    """Every file with what is in it."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("isWithServer", [True, False])
@pytest.mark.parametrize("hasMessages", [True, False])
def test_refused_dataDirectory(tmp_path: Path, isWithServer: bool, hasMessages: bool) -> None:
    """
    A data directory of nats-streaming-server is not opened nor changed, also if server.dat is
    missing or its channels have no messages.
    """
    writer = StoreWriter(tmp_path / "stan")
    channel = writer.channel("orders")
    if hasMessages:
        channel.messages(1, 3)
    if not isWithServer:
        (writer.root / "server.dat").unlink()
    before = contents(writer.root)
    reactor = PumpedReactor()
    with pytest.raises(UnknownFormat, match="natsbroker streaming import"):
        reactor.wait(openLMDB(reactor, writer.root))
    assert contents(writer.root) == before


def test_otherFiles(tmp_path: Path) -> None:
    """
    Files and directories that are not nats-streaming-server's are no reason to refuse a directory,
    even under the same names.
    """
    refuseForeign(tmp_path / "none")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "server.dat").write_text("of another program")
    (tmp_path / "subs.dat").mkdir()
    refuseForeign(tmp_path)


def test_storeInBetween(tmp_path: Path) -> None:
    """A store that already exists beside a server.dat is opened."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path))
    reactor.wait(store.close())
    (tmp_path / "server.dat").write_bytes(b"\x01\0\0\0")
    store = reactor.wait(openLMDB(reactor, tmp_path))
    reactor.wait(store.close())


class UncachedReadersTests(ReadersContract, SynchronousTestCase):
    """Readers beside writers where no record is cached, and commits go past the journal."""

    size = 3000

    def setUp(self) -> None:
        """Make a directory and a reactor, and switch the cache off."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.reactor = PumpedReactor()
        patched = pytest.MonkeyPatch()
        self.addCleanup(patched.undo)
        for owner, name in (
            (BlockCache, "find"),
            (BlockCache, "recall"),
            (QuickRecords, "find"),
        ):
            patched.setattr(owner, name, lambda *_: None)

    def wait(self, deferred: Any) -> Any:
        """Turn the reactor until the Deferred has fired."""
        return self.reactor.wait(deferred)

    def makeStore(self) -> Any:
        """An empty store."""
        return self.wait(openLMDB(self.reactor, self.directory / "store", now=self.now))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_limitsLater(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Limits that could not be enforced while the store failed are enforced later, without an append
    to their log.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    log: Any = reactor.wait(store.open("a"))
    reactor.wait(log.append([(b"s", b"", b"x", 0)] * 10))

    def refuse(*_: object) -> bool:
        raise OSError(number, "no")

    recorder = Recorder()
    store.watch(recorder)
    with monkeypatch.context() as context:
        context.setattr(Environment, "prepareNext", refuse)
        log.retain(Retention(count=3))
        while not recorder.writing:
            reactor.turn()
    reactor.advance(2)
    while log.bounds().count > 3:
        store.states("s").put(b"k", b"v").addErrback(lambda failure: failure.trap(StoreFailed))
        reactor.turn()
    assert log.bounds().first == 8
    reactor.wait(store.close())


@pytest.mark.parametrize("below", ["", "a", "a/b"])
def test_noDirectory(below: str, tmp_path: Path) -> None:
    """
    The error about a file in place of the store's folder has the words that launchers look for.
    """
    (tmp_path / "file").write_text("")
    reactor = PumpedReactor()
    with pytest.raises(StoreFailed, match=r"storage directory is not a directory: .*file"):
        reactor.wait(openLMDB(reactor, tmp_path / "file" / below))
