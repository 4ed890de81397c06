"""
A store that gets a key after it was made.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from natsbroker.interfaces.records import Retention
from natsbroker.storage.lmdb import opening
from natsbroker.storage.lmdb.checking import checkDirectory
from natsbroker.storage.lmdb.encryption.encrypting import rewritten
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.history import Recorder
from tests.storage.lmdb.test_scrubbing import damage

KEY = Encryption("sample key")

PAYLOAD = b"payload %03d, and as much as makes a record of some length"


def opened(path: Path, encryption: Encryption | None = None) -> tuple[PumpedReactor, Any]:
    """A store."""
    reactor = PumpedReactor()
    return reactor, reactor.wait(openLMDB(reactor, path, encryption=encryption))


def contents(path: Path, encryption: Encryption | None = KEY) -> tuple[Any, ...]:
    """The content of a store, and its reports."""
    reactor, store = opened(path, encryption)
    recorder = Recorder()
    store.watch(recorder)
    logs = {}
    for name in reactor.wait(store.logs()):
        log = reactor.wait(store.open(name))
        records = reactor.wait(log.read(1, 10_000, 1 << 24))
        logs[name] = log.bounds(), records, reactor.wait(log.subjects(b">"))
    states = reactor.wait(store.states("space").load())
    reactor.wait(store.close())
    return logs, states, recorder.damaged, recorder.states


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """
    A store without a key, with records, deletions and state, and with records in its journal only.
    """
    path = tmp_path / "store"
    reactor, store = opened(path)
    for name in ("many", "sole"):
        log = reactor.wait(store.open(name))
        log.retain(Retention(count=900))
        for start in range(0, 1000, 50):
            sequences = range(start, start + 50)
            subjects = [b"s.%d" % (sequence % 77 * (name == "many")) for sequence in sequences]
            payloads = [PAYLOAD % sequence for sequence in sequences]
            batch = [(*row, 0) for row in zip(subjects, [b"h"] * 50, payloads, strict=True)]
            reactor.wait(log.append(batch))
        reactor.wait(log.delete([500, 502, 777]))
        reactor.wait(log.hold("somebody", 200))
    reactor.wait(store.states("space").change({b"key": b"a value", b"other": b"another value"}))
    log = reactor.wait(store.open("many"))
    reactor.wait(log.append([(b"s.last", b"", b"payload in the journal", 0)]))
    killed = tmp_path / "killed"
    shutil.copytree(path, killed)
    reactor.wait(store.close())
    return killed


def test_encrypted(plain: Path) -> None:
    """With a key, the next start encrypts a store; no record is lost, and no plain text remains."""
    before = contents(plain, None)
    assert before[0]["many"][0].last == 1001
    assert contents(plain) == before
    assert contents(plain) == before
    files = {path.name: path.read_bytes() for path in plain.iterdir()}
    assert not [name for name, data in files.items() if b"payload" in data or b"value" in data]
    assert rewritten(plain / "data.mdb").name not in files
    checked = checkDirectory(plain, KEY)
    assert (checked.problems, len(checked.logs), len(checked.states)) == ([], 2, 2)


@pytest.mark.parametrize("moment", ["rewrite", "replace", "syncDirectory", "writeFormat"])
def test_cutOff(plain: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """
    If encrypting is cut off at any moment, the next start with the key completes it, and no record
    is lost.
    """
    before = contents(plain, None)

    def stop(*_: object) -> None:
        raise OSError(5, "cut off")

    with monkeypatch.context() as patched:
        patched.setattr(os if moment == "replace" else opening, moment, stop)
        with pytest.raises(Exception, match="cut off"):
            opened(plain, KEY)
    assert contents(plain) == before
    assert b"payload" not in (plain / "data.mdb").read_bytes()


def test_damaged(plain: Path) -> None:
    """A damaged record is reported, and is the only lost one."""
    damage(plain / "data.mdb", PAYLOAD % 300)
    contents(plain, None)  # It is counted until it is found.
    before = contents(plain, None)
    assert 0 < len(before[2]) <= 2
    after = contents(plain)
    assert (after[0], after[1]) == (before[0], before[1])
    assert [record[:3] for record in after[2]] == [record[:3] for record in before[2]]


def test_damagedDatabase(plain: Path) -> None:
    """A database whose structure is damaged is salvaged first."""
    data = bytearray((plain / "data.mdb").read_bytes())
    data[:8192] = bytes(8192)
    (plain / "data.mdb").write_bytes(data)
    logs, states, _, _ = contents(plain)
    assert logs["many"][0].count > 800
    assert states == {b"key": b"a value", b"other": b"another value"}
    assert b"payload" not in (plain / "data.mdb").read_bytes()
