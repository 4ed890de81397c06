"""
Damage that is found before somebody needs what is damaged.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.threads import deferToThreadPool

from natsbroker.interfaces import IReportingStore
from natsbroker.interfaces.records import ScrubFigures
from natsbroker.storage.lmdb.losses import LOOK
from natsbroker.storage.lmdb.reports import acknowledge, reportsIn
from natsbroker.storage.lmdb.scrubbing import FIRST, INTERVAL, PAUSE, PIECE, scrub
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.history import Recorder


class Open:
    """An open store, with a watcher."""

    def __init__(self, directory: Path) -> None:
        self.reactor = PumpedReactor()
        self.store: Any = self.reactor.wait(openLMDB(self.reactor, directory))
        self.recorder = Recorder()
        self.store.watch(self.recorder)

    def advance(self, seconds: float) -> None:
        """Let time pass, and let both reading threads finish what was requested."""
        self.reactor.advance(seconds)
        for _ in range(3):
            both = threading.Barrier(2, timeout=60)
            waiting = [
                deferToThreadPool(self.reactor, self.store._pool, both.wait) for _ in range(2)
            ]
            for deferred in waiting:
                self.reactor.wait(deferred)
            self.reactor.catchUp()

    def scrub(self, pieces: int = 1) -> None:
        """Wait for a pass of some pieces."""
        self.advance(FIRST)
        for _ in range(pieces):
            self.advance(INTERVAL)

    def close(self) -> None:
        """Close the store."""
        self.reactor.wait(self.store.close())


def damage(path: Path, *needles: bytes) -> None:
    """Flip a bit in each copy of some bytes in a file."""
    data = bytearray(path.read_bytes())
    for needle in needles:
        place = data.index(needle)
        while place >= 0:
            data[place + len(needle) - 1] ^= 1
            place = data.find(needle, place)
    path.write_bytes(data)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with a log of 40 records, and some state."""
    made = Open(tmp_path / "store")
    log = made.reactor.wait(made.store.open("orders"))
    batch = [
        (b"s", b"", b"payload number %d." % number + bytes(9000), 0) for number in range(1, 41)
    ]
    made.reactor.wait(log.append(batch))
    made.reactor.wait(made.store.states("space").put(b"key", b"a value of state"))
    made.close()
    return tmp_path / "store"


def test_findsRecords(directory: Path) -> None:
    """
    Flipped bits in records that are not read by clients are found, and reported with log and
    sequence.
    """
    damage(directory / "data.mdb", b"payload number 7.", b"payload number 23.")
    opened = Open(directory)
    assert not opened.recorder.damaged
    opened.scrub()
    assert [loss[:3] for loss in opened.recorder.damaged] == [("orders", 7, 8), ("orders", 23, 24)]
    opened.close()


def test_figures(directory: Path) -> None:
    """The scrubber's figures have what it has read, where it is, and what is damaged."""
    damage(directory / "data.mdb", b"payload number 7.")
    opened = Open(directory)
    figures = opened.store.figures()
    assert figures.scrub == ScrubFigures()
    opened.store._scrubber._next = lambda: None
    pieces = []
    opened.store._scrubber._goOn = lambda seconds: pieces.append(opened.store.figures().scrub)
    after = b""
    while not pieces or pieces[-1].passes == 0:
        result = scrub(opened.store._environment, after, 100_000)
        opened.store._scrubber._read(result)
        after = result.after
    positions = [piece.position for piece in pieces]
    assert positions[:-1] == sorted(set(positions[:-1]))
    assert 0 < positions[0] < positions[-2] <= 1
    assert positions[-1] == 0
    figures = opened.store.figures()
    assert figures.scrub == pieces[-1]
    assert (pieces[-1].records, pieces[-1].passes) == (40, 1)
    assert pieces[-1].ended > 0
    assert (figures.damagedRecords, figures.damagedValues) == (1, 0)
    opened.scrub()
    again = opened.store.figures()
    assert (again.damagedRecords, again.damagedValues) == (1, 0)
    opened.close()


def test_findsState(directory: Path) -> None:
    """A value of state that is damaged while the store is open is found too."""
    opened = Open(directory)
    with (directory / "data.mdb").open("r+b") as file:
        data = file.read()
        place = data.index(b"a value of state")
        file.seek(place)
        file.write(b"A")
    opened.scrub()
    assert [state[:2] for state in opened.recorder.states] == [("space", b"key")]
    opened.close()


def test_whole(directory: Path) -> None:
    """Nothing is reported of an intact store, however often it is read."""
    opened = Open(directory)
    opened.scrub()
    opened.advance(PAUSE)
    opened.advance(INTERVAL)
    assert not opened.recorder.damaged and not opened.recorder.states
    assert opened.store.losses() == []
    opened.close()


def test_deletedRecord(directory: Path) -> None:
    """Damage in a deleted record is not reported."""
    before = Open(directory)
    log = before.reactor.wait(before.store.open("orders"))
    before.reactor.wait(log.delete([7]))
    before.close()
    damage(directory / "data.mdb", b"payload number 7.")
    opened = Open(directory)
    opened.scrub()
    assert not opened.recorder.damaged
    opened.close()


def test_pieces(tmp_path: Path) -> None:
    """A large store is read a piece at a time, to its end, and again after a pause."""
    made = Open(tmp_path)
    log = made.reactor.wait(made.store.open("large"))
    for number in range(1, 7):
        data = b"payload number %d." % number + bytes(PIECE // 2)
        made.reactor.wait(log.append([(b"s", b"", data, 0)]))
    made.close()
    damage(tmp_path / "data.mdb", b"payload number 6.")
    opened = Open(tmp_path)
    opened.scrub(0)
    assert not opened.recorder.damaged
    for _ in range(4):
        opened.advance(INTERVAL)
    assert [loss[:3] for loss in opened.recorder.damaged] == [("large", 6, 7)]
    opened.close()


def test_reportedUntilAcknowledged(directory: Path) -> None:
    """
    Found damage is a loss until an operator acknowledges it, also after a restart; it is no loss
    again when it is found again.
    """
    damage(directory / "data.mdb", b"payload number 7.")
    opened = Open(directory)
    assert IReportingStore.providedBy(opened.store)
    opened.scrub()
    opened.advance(0)
    [loss] = opened.store.losses()
    assert loss == "see damaged-1/report.txt"
    opened.close()
    again = Open(directory)
    again.advance(0)
    assert again.store.losses() == [loss]
    [text] = acknowledge(directory)
    assert "orders: 7 to 7 may be lost" in text
    again.advance(LOOK)
    assert again.store.losses() == []
    again.scrub()
    again.advance(0)
    assert again.recorder.damaged
    assert again.store.losses() == []
    assert len(reportsIn(directory)) == 1
    again.close()


def test_lostAtStart(directory: Path) -> None:
    """A repaired store reports its loss at every start until the loss is acknowledged."""
    data = bytearray((directory / "data.mdb").read_bytes())
    data[:8192] = bytes(8192)
    (directory / "data.mdb").write_bytes(data)
    for _ in range(2):
        opened = Open(directory)
        assert opened.store.losses()
        opened.close()
    acknowledge(directory)
    opened = Open(directory)
    opened.advance(0)
    assert opened.store.losses() == []
    opened.close()


def test_reportCannotBeWritten(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that cannot be written down is known as long as the store is open."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("natsbroker.storage.lmdb.losses.keep", full)
    damage(directory / "data.mdb", b"payload number 7.")
    opened = Open(directory)
    opened.scrub()
    opened.advance(0)
    assert opened.store.losses() == ["orders: 7 to 7 may be lost"]
    opened.close()


def test_closedMeanwhile(directory: Path) -> None:
    """A store that is closed is not read any more."""
    opened = Open(directory)
    opened.close()
    assert not opened.reactor.getDelayedCalls()
