"""Reports about stores: intact ones, damaged ones, and those that cannot be checked."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from natsbroker.interfaces.records import StoreError, StoreLocked, UnknownFormat
from natsbroker.server.checking.store import storeReport
from natsbroker.storage.changes import packChanges
from natsbroker.storage.lmdb.checking import checkDirectory
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.files import Lock, readFormat
from natsbroker.storage.lmdb.journal import Journal, readFrames
from natsbroker.storage.lmdb.store import LOCK, openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.streaming.filestore.writer import StoreWriter


def fill(
    directory: Path,
    names: list[str],
    copy: Path | None = None,
    encryption: Encryption | None = None,
) -> None:
    """
    Put three records into each log of a store, and close it.

    @param copy: where a copy is made before.
    """
    reactor = PumpedReactor()
    store: Any = reactor.wait(openLMDB(reactor, directory, encryption=encryption))
    for name in names:
        log: Any = reactor.wait(store.open(name))
        batch = [(b"s", b"", b"payload-%d of a record" % number, 0) for number in (1, 2, 3)]
        reactor.wait(log.append(batch))
    if copy is not None:
        shutil.copytree(directory, copy)
    reactor.wait(store.close())


def contents(directory: Path) -> dict[str, bytes]:
    """The content of the files of a directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_records(tmp_path: Path) -> None:
    """Channels are reported with their records. The check changes no file."""
    fill(tmp_path, ["stan/test-cluster/foo"])
    before = contents(tmp_path)
    report = storeReport(tmp_path)
    assert report.isFine
    assert list(report.lines()) == [
        "channel test-cluster/foo: 3 records, sequences 1 to 3",
        f"{tmp_path}: 1 logs, 3 records, intact",
    ]
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("needle", "offset", "expected"),
    [(b"payload-2", 0, [(2, 2)]), (b"payload-1", -41 - 3 * 4 - 84 + 20, [])],
    ids=["record", "structure"],
)
def test_damaged(tmp_path: Path, needle: bytes, offset: int, expected: list[Any]) -> None:
    """
    A damaged record is reported by its sequence, and other damage as a problem of the store. The
    check changes no file.
    """
    fill(tmp_path, ["stan/test-cluster/foo"])
    path = tmp_path / "data.mdb"
    data = bytearray(path.read_bytes())
    place = data.find(needle)
    assert place > 0
    while place > 0:
        data[place + offset] ^= 1
        place = data.find(needle, place + len(needle))
    path.write_bytes(data)
    (tmp_path / "journal").unlink()
    before = contents(tmp_path)
    report = storeReport(tmp_path)
    assert not report.isFine
    assert [log.damaged for log in report.logs] == [expected]
    assert bool(report.problems) == (not expected)
    assert contents(tmp_path) == before


def test_journal(tmp_path: Path) -> None:
    """Records that are only in the journal, as after a power cut, are counted as intact."""
    fill(tmp_path / "store", ["stan/test-cluster/foo"], tmp_path / "copy")
    assert b"payload-2" not in (tmp_path / "copy" / "data.mdb").read_bytes()
    report = storeReport(tmp_path / "copy")
    assert report.isFine
    assert [(log.records, log.first, log.last) for log in report.logs] == [(3, 1, 3)]


@pytest.mark.parametrize("isStored", [True, False])
@pytest.mark.parametrize(
    ("deleted", "expected"),
    [([2], (2, 1, 3)), ([2, 1], (1, 3, 3)), ([1, 2, 3], (0, 4, 3))],
    ids=["inside", "first", "all"],
)
def test_journalDeletes(
    tmp_path: Path, deleted: list[int], expected: tuple[int, int, int], isStored: bool
) -> None:
    """
    Records that only the journal deletes do not count, whether the database has them or not. The
    configuration of a stream counts that only the journal has.
    """
    store, copy = tmp_path / "store", tmp_path / "copy"
    fill(store, ["jetstream/A/ORDERS"], copy)
    path = store if isStored else copy
    [(identity, log)] = checkDirectory(path).logs.items()
    said = readFormat(path / "STORE")
    assert said is not None
    frames = readFrames(path / "journal", said.mark)
    config = b'{"created": 1, "config": {"name": "ORDERS", "subjects": ["orders"]}}'
    states = {("jetstream/A", b"stream/1"): config}
    journal = Journal(path / "journal", said.mark)
    for frame in () if isStored else frames:
        journal.append(*frame)
    # The commit with which a store is closed is newer than all frames.
    for number, some in enumerate((deleted[:1], deleted[1:]), 1000):
        journal.append(number, frames[-1].since, [], packChanges({identity: some}, states))
    journal.close()
    report = storeReport(path)
    assert report.problems == []
    assert [(log.records, log.first, log.last) for log in report.logs] == [expected]
    reactor = PumpedReactor()
    opened: Any = reactor.wait(openLMDB(reactor, path))
    bounds = reactor.wait(opened.open(log.row.name)).bounds()
    assert (bounds.count, bounds.first, bounds.last) == expected
    reactor.wait(opened.close())


@pytest.mark.parametrize("hasJournal", [True, False])
def test_stale(hasJournal: bool, tmp_path: Path) -> None:
    """A database that was replaced by an older backup is reported."""
    store = tmp_path / "store"
    fill(store, ["stan/test-cluster/foo"])
    shutil.copy(store / "data.mdb", tmp_path / "backup")
    fill(store, ["stan/test-cluster/foo"])
    shutil.copy(tmp_path / "backup", store / "data.mdb")
    if not hasJournal:
        (store / "journal").unlink()
    report = storeReport(store)
    assert report.problems == ["the database is older than the last commit"]
    assert report.logs[0].records == (6 if hasJournal else 3)


def test_quarantine(tmp_path: Path) -> None:
    """Records of a log whose name was lost are reported as in quarantine."""
    fill(tmp_path, ["stan/test-cluster/foo"])
    path = tmp_path / "data.mdb"
    path.write_bytes(path.read_bytes().replace(b"test-cluster/foo", b"test-cluster/fop"))
    for name in ("journal", "marks-0", "marks-1"):
        (tmp_path / name).unlink()
    for _ in range(2):
        report = storeReport(tmp_path)
        [log] = report.logs
        assert log.records == 3
        assert f"{log.name} is in quarantine: its description was lost" in report.problems
        fill(tmp_path, [])


def test_streamingServer(tmp_path: Path) -> None:
    """A folder of nats-streaming-server is refused, with the command that imports it."""
    writer = StoreWriter(tmp_path / "stan")
    writer.channel("orders").messages(1, 3)
    with pytest.raises(UnknownFormat, match="natsbroker streaming import"):
        storeReport(writer.root)


def test_lostConfiguration(tmp_path: Path) -> None:
    """Messages of a stream without a configuration are a finding."""
    fill(tmp_path, ["jetstream/$G/ORDERS"])
    assert storeReport(tmp_path).problems == ["jetstream/$G/ORDERS: its configuration is lost"]


def test_inUse(tmp_path: Path) -> None:
    """A store that a broker has open is not checked."""
    fill(tmp_path, [])
    lock = Lock(tmp_path / LOCK)
    try:
        with pytest.raises(StoreLocked, match="has the store"):
            storeReport(tmp_path)
    finally:
        lock.release()
    assert storeReport(tmp_path).isFine


def test_noStore(tmp_path: Path) -> None:
    """A folder without a store is refused, and stays empty."""
    with pytest.raises(StoreError, match="there is no store"):
        storeReport(tmp_path)
    assert contents(tmp_path) == {}
