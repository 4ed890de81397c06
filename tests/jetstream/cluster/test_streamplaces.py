"""The table of the workers' streams."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from threading import Thread

import pytest

from natsbroker.interfaces.records import LeaseLost, StoreEncrypted, StoreFailed
from natsbroker.jetstream.cluster.streamplaces import (
    FOLDER,
    TABLE,
    StreamPlace,
    StreamPlaces,
    strayWorkers,
)
from natsbroker.storage.lmdb.encryption.keyring import Encryption


def test_rows(tmp_path: Path) -> None:
    """Each worker sees the streams of all workers, by account."""
    one, two = StreamPlaces(tmp_path, 1, "one"), StreamPlaces(tmp_path, 2, "two")
    one.change("A", {b"stream/1": b"c1"})
    two.change("A", {b"stream/2": b"c2"})
    two.change("B", {b"stream/1": b"c3"})
    assert one.rowsOf("A") == {b"stream/1": StreamPlace(1, b"c1"), b"stream/2": (2, b"c2")}
    assert (sorted(one.elsewhere()), two.elsewhere()) == ([b"c2", b"c3"], [b"c1"])
    assert one.place("B", b"stream/1") == StreamPlace(2, b"c3")
    assert one.place("B", b"stream/2") is None
    assert one.loads() == {1: 1, 2: 2}
    one.close()
    two.close()


def test_oneOwner(tmp_path: Path) -> None:
    """
    A row belongs to its worker. No other worker changes or deletes it, and such an attempt has no
    effect.
    """
    one, two = StreamPlaces(tmp_path, 1, "one"), StreamPlaces(tmp_path, 2, "two")
    one.change("A", {b"stream/1": b"c1"})
    with pytest.raises(LeaseLost):
        two.change("A", {b"stream/2": b"c2", b"stream/1": b"other"})
    two.change("A", {b"stream/1": None})
    assert two.rowsOf("A") == {b"stream/1": StreamPlace(1, b"c1")}
    one.change("A", {b"stream/1": None})
    two.change("A", {b"stream/1": b"c2"})
    assert one.rowsOf("A") == {b"stream/1": StreamPlace(2, b"c2")}
    one.close()
    two.close()


def test_enter(tmp_path: Path) -> None:
    """
    A worker that starts replaces its own rows of an account, and keeps those of other workers.
    """
    one, two = StreamPlaces(tmp_path, 1, "one"), StreamPlaces(tmp_path, 2, "two")
    one.change("A", {b"stream/1": b"c1", b"stream/2": b"c2"})
    one.change("B", {b"stream/1": b"c1"})
    two.change("A", {b"stream/3": b"c3"})
    one.enter("A", {b"stream/2": b"new", b"stream/4": b"c4"})
    assert two.rowsOf("A") == {
        b"stream/2": StreamPlace(1, b"new"),
        b"stream/3": StreamPlace(2, b"c3"),
        b"stream/4": StreamPlace(1, b"c4"),
    }
    assert set(two.rowsOf("B")) == {b"stream/1"}
    one.close()
    two.close()


def test_survives(tmp_path: Path) -> None:
    """The table outlives its workers."""
    one = StreamPlaces(tmp_path, 1, "one")
    one.change("A", {b"stream/1": b"c1"})
    one.close()
    two = StreamPlaces(tmp_path, 2, "two")
    assert two.rowsOf("A") == {b"stream/1": StreamPlace(1, b"c1")}
    two.close()


def test_alive(tmp_path: Path) -> None:
    """A worker counts as alive from its start until it closes. Each worker counts itself."""
    one, two = StreamPlaces(tmp_path, 1, "one"), StreamPlaces(tmp_path, 2, "two")
    assert one.alive([1, 2, 3]) == {1}
    two.appear()
    assert one.alive([1, 2, 3]) == {1, 2}
    assert one.names() == {2: "two"}
    two.close()
    assert one.alive([1, 2, 3]) == {1}
    one.close()


def test_lead(tmp_path: Path) -> None:
    """One worker at a time leads an account, until that worker gives the account up or closes."""
    one, two = StreamPlaces(tmp_path, 1, "one"), StreamPlaces(tmp_path, 2, "two")
    assert one.lead("A") and one.lead("B")
    assert one.lead("A")
    assert not two.lead("A")
    assert two.lead("C")
    one.follow("A")
    assert two.lead("A")
    assert not two.lead("B")
    one.close()
    assert two.lead("B")
    two.close()


def test_strayWorkers(tmp_path: Path) -> None:
    """Workers beyond the configured number that still have streams are listed."""
    assert strayWorkers(tmp_path, 1) == []
    for number in (1, 2, 3):
        worker = StreamPlaces(tmp_path, number, str(number))
        worker.change("A", {b"stream/%d" % number: b"c"})
        if number == 3:
            worker.change("A", {b"stream/3": None})
        worker.close()
    assert strayWorkers(tmp_path, 1) == [2]
    assert strayWorkers(tmp_path, 2) == []


def test_unusable(tmp_path: Path) -> None:
    """A table that cannot be opened or written is reported as a failure of the store."""
    one = StreamPlaces(tmp_path, 1, "one")
    lock = sqlite3.connect(tmp_path / FOLDER / TABLE, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    one._writing.execute("PRAGMA busy_timeout = 1")
    with pytest.raises(StoreFailed, match="cannot be written"):
        one.change("A", {b"stream/1": b"c1"})
    lock.close()
    one.close()
    (tmp_path / FOLDER / TABLE).write_bytes(b"x" * 5000)
    with pytest.raises(StoreFailed, match="cannot be opened"):
        StreamPlaces(tmp_path, 1, "one")


def test_encrypted(tmp_path: Path) -> None:
    """Configurations are encrypted, and after a change of the key read with the one before."""
    config = b'{"subjects":["plans.secret"]}'
    plain = StreamPlaces(tmp_path, 1, "one")
    plain.change("A", {b"stream/1": config})
    plain.close()
    for encryption in (Encryption("first"), Encryption("second", previous="first")):
        table = StreamPlaces(tmp_path, 1, "one", encryption)
        assert table.place("A", b"stream/1") == StreamPlace(1, config)
        table.enter("A", {b"stream/1": config})
        table.close()
        assert not any(
            b"secret" in path.read_bytes() for path in (tmp_path / FOLDER).glob(f"{TABLE}*")
        )
    table = StreamPlaces(tmp_path, 1, "one", Encryption("second"))
    assert table.rowsOf("A") == {b"stream/1": StreamPlace(1, config)}
    table.close()
    other = StreamPlaces(tmp_path, 1, "one", Encryption("other"))
    with pytest.raises(StoreEncrypted, match="another key"):
        other.place("A", b"stream/1")
    other.close()


def test_openedUnderLock(tmp_path: Path) -> None:
    """A worker opens the table only while it holds the lock file."""
    StreamPlaces(tmp_path, 1, "one").close()
    other = os.open(tmp_path / FOLDER / "open.lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    opening = Thread(target=lambda: StreamPlaces(tmp_path, 2, "two").close())
    opening.start()
    opening.join(0.1)
    assert opening.is_alive()
    os.close(other)
    opening.join()
