"""
The keys of encrypted stores, and what happens with another key, another cipher, or without one.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from natsbroker.interfaces.records import StoreEncrypted
from natsbroker.storage.lmdb.checking import checkDirectory
from natsbroker.storage.lmdb.encryption.keyring import (
    FILES,
    Encryption,
    currentKeyring,
    keysMissing,
    readKeyring,
)
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor


class Store:
    """A store that is opened again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reactor = PumpedReactor()

    def append(self, encryption: Encryption | None, payload: bytes) -> list[bytes]:
        """Append a record, and read all."""
        store: Any = self.reactor.wait(openLMDB(self.reactor, self.path, encryption=encryption))
        try:
            log = self.reactor.wait(store.open("log"))
            self.reactor.wait(log.append([(b"s", b"", payload, 0)]))
            return [record.payload for record in self.reactor.wait(log.read(1))]
        finally:
            self.reactor.wait(store.close())

    def files(self) -> dict[str, bytes]:
        """The content of the store's files, except the lock."""
        return {
            path.name: path.read_bytes() for path in self.path.iterdir() if "lock" not in path.name
        }


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An encrypted store with a record."""
    store = Store(tmp_path / "store")
    assert store.append(Encryption("one"), b"1") == [b"1"]
    return store


@pytest.mark.parametrize(
    ("encryption", "text"),
    [
        (None, "is encrypted, and jetstream has no encryption_key"),
        (Encryption("two"), "is encrypted, and encryption_key is not its key"),
        (
            Encryption("two", previous="three"),
            "is encrypted, and neither encryption_key nor prev_encryption_key is its key",
        ),
    ],
)
def test_wrongKey(store: Store, encryption: Encryption | None, text: str) -> None:
    """With a wrong key or none, a start and a check report this, and change no file."""
    before = store.files()
    with pytest.raises(StoreEncrypted, match=text):
        store.append(encryption, b"2")
    with pytest.raises(StoreEncrypted, match=text):
        checkDirectory(store.path, encryption)
    assert store.files() == before
    assert store.append(Encryption("one"), b"2") == [b"1", b"2"]


def test_check(store: Store) -> None:
    """A store with a key is checked like one without."""
    [log] = checkDirectory(store.path, Encryption("one")).logs.values()
    assert (log.row.name, log.row.count, log.damaged) == ("log", 1, [])


def test_rotation(store: Store) -> None:
    """
    With the previous key, a start changes the key: older records stay readable, the older key opens
    nothing any more, and newer records are never encrypted with it.
    """
    older = {name: store.files()[name] for name in FILES}
    assert store.append(Encryption("two", previous="one"), b"2") == [b"1", b"2"]
    with pytest.raises(StoreEncrypted):
        store.append(Encryption("one"), b"3")
    assert store.append(Encryption("two"), b"3") == [b"1", b"2", b"3"]
    copy = Store(store.path.with_name("copy"))
    shutil.copytree(store.path, copy.path)
    for name, data in older.items():
        (copy.path / name).write_bytes(data)
    ring = readKeyring(copy.path, Encryption("one"))
    assert ring is not None
    assert [key.number for key in ring.keys] == [1]


def test_cipher(store: Store) -> None:
    """A new cipher is for records stored from now on."""
    assert store.append(Encryption("one", "aes"), b"2") == [b"1", b"2"]
    ring = readKeyring(store.path, Encryption("one"))
    assert ring is not None
    assert [(key.number, key.cipher) for key in ring.keys] == [(1, 1), (2, 2)]
    assert currentKeyring(store.path, ring, Encryption("one", "aes"), True) is ring


@pytest.mark.parametrize("name", FILES)
def test_oneFileLost(store: Store, name: str) -> None:
    """A lost key file does not matter while the other one is there."""
    path = store.path / name
    path.write_bytes(path.read_bytes()[:-20])
    assert store.append(Encryption("one"), b"2") == [b"1", b"2"]


@pytest.mark.parametrize("also", [(), ("STORE",)])
@pytest.mark.parametrize("encryption", [None, Encryption("one")])
def test_bothFilesLost(store: Store, encryption: Encryption | None, also: tuple[str]) -> None:
    """Without the files nothing can be read, and nothing is touched or taken for damage."""
    for name in (*FILES, *also):
        (store.path / name).unlink()
    before = store.files()
    with pytest.raises(StoreEncrypted, match="keys-0 and keys-1 are lost or damaged"):
        store.append(encryption, b"2")
    assert store.files() == before


def test_cutOffRotation(store: Store) -> None:
    """If only one of the files has the new key, both keys open the store, and the new one stays."""
    old = (store.path / FILES[1]).read_bytes()
    store.append(Encryption("two", previous="one"), b"2")
    (store.path / FILES[1]).write_bytes(old)
    assert store.append(Encryption("two", previous="one"), b"3") == [b"1", b"2", b"3"]


def test_keysAreNotShown() -> None:
    """The keys are in no C{repr}; the error about missing keys names the folder."""
    assert repr(Encryption("hush", "aes", "hush")) == "Encryption(cipher='aes')"
    assert "/place" in str(keysMissing(Path("/place")))
