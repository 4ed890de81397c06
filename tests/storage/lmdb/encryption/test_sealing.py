"""
Encrypted stores: they are held to the same contracts, and nothing of what clients sent, nor a
subject, is in their files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.trial.unittest import SynchronousTestCase

from natsbroker.interfaces.records import Record
from natsbroker.storage.blocks import chunks, readBlock
from natsbroker.storage.envelopes import unwrap
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.encryption.sealing import AES, CHACHA, SEGMENT, SealedCodec, StoreKey
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.storage.records import Damaged, decode, encodeBatch
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.lmdb.support import LMDBContracts

MARK = b"the mark"


class EncryptedStoreTests(LMDBContracts, SynchronousTestCase):
    """L{natsbroker.storage.lmdb.store.LMDBStore}, with a key."""

    encryption = Encryption("key")


def codec(*keys: StoreKey) -> SealedCodec:
    """A codec with some keys."""
    return SealedCodec(keys or (StoreKey(1, CHACHA, b"k" * 32),), b"h" * 32)


def blobsOf(count: int, identity: int = 7, sequence: int = 1) -> list[bytes]:
    """Records."""
    batch = [
        (b"s.%d" % number, b"h" * (number % 3), b"payload", number + 1) for number in range(count)
    ]
    return encodeBatch(identity, sequence, batch, 5, 0, b"").blobs


@pytest.mark.parametrize("cipher", [CHACHA, AES])
def test_record(cipher: int) -> None:
    """A record comes back as it was; without its key it is one without subject and headers."""
    sealed = codec(StoreKey(3, cipher, b"k" * 32))
    blobs = blobsOf(3)
    closed = sealed.closeRecords(blobs)
    assert [sealed.openRecord(blob) for blob in closed] == blobs
    assert [
        len(sealedBlob) - len(blob) for sealedBlob, blob in zip(closed, blobs, strict=True)
    ] == [34] * 3
    opened = decode(closed[2], 0, len(closed[2]), 7)
    assert (opened.sequence, opened.timestamp, opened.subject) == (3, 3, b"")
    assert not any(b"payload" in blob or b"s.2" in blob for blob in closed)


def test_nonces() -> None:
    """The same record is never encrypted to the same bytes."""
    sealed = codec()
    assert len(set(sealed.closeRecords(blobsOf(1) * 100))) == 100


def test_segments() -> None:
    """Records far from each other, and those of other logs, have other keys."""
    sealed = codec()
    for identity, sequence in ((7, 1), (7, SEGMENT), (8, 1)):
        sealed.closeRecords(blobsOf(1, identity, sequence))
    assert len(sealed._ciphers) == 3


def test_otherPlace() -> None:
    """A record that was put in the place of another is damaged, even with the right checksum."""
    sealed, other = codec(), codec()
    [closed] = sealed.closeRecords(blobsOf(1, sequence=9))
    with pytest.raises(Damaged, match="cannot be decrypted"):
        codec(StoreKey(1, CHACHA, b"x" * 32)).openRecord(closed)
    with pytest.raises(Damaged, match="key 1, which is not known"):
        codec(StoreKey(2, CHACHA, b"k" * 32)).openRecord(closed)
    assert other.openRecord(closed) == blobsOf(1, sequence=9)[0]


def test_olderKey() -> None:
    """A record is read with the key with which it was written."""
    old, new = StoreKey(1, CHACHA, b"k" * 32), StoreKey(2, AES, b"n" * 32)
    closed = [*codec(old).closeRecords(blobsOf(2)), *codec(old, new).closeRecords(blobsOf(2))]
    assert [codec(old, new).openRecord(blob) for blob in closed] == blobsOf(2) * 2


def test_damagedStaysSo() -> None:
    """A damaged record does not get a valid checksum when its store is encrypted or decrypted."""
    sealed = codec()
    blobs = blobsOf(3)
    blobs[1] = blobs[1][:-1] + b"X"
    [contents] = chunks(range(1, 4), blobs)
    stored = sealed.block(MARK, 7, 1, contents)
    plain = sealed.openBlock(stored, 7)
    block = readBlock(plain, 7, 1)
    assert block is not None
    records: list[Record] = []
    assert block.select(records, 0, 3, None, 9, 999)[0] == 1
    assert block.length(1) == len(blobs[1]) - 40
    assert sealed.closeBlock(plain, 7)[-300:] != plain[-300:]
    again = readBlock(sealed.openBlock(sealed.closeBlock(plain, 7), 7), 7, 1)
    assert again is not None
    assert [again.fault(number) == "" for number in range(3)] == [True, False, True]


@pytest.mark.parametrize("place", [3, 90])
def test_damagedBlock(place: int) -> None:
    """If the head or the table of a block is damaged, every record in the block is still read."""
    sealed = codec()
    [contents] = chunks(range(1, 4), blobsOf(3))
    stored = bytearray(sealed.block(MARK, 7, 1, contents))
    stored[place] ^= 1
    block = readBlock(sealed.openBlock(bytes(stored), 7), 7, 1)
    assert block is not None
    assert [block.record(number).subject for number in range(3)] == [b"s.0", b"s.1", b"s.2"]


def test_values() -> None:
    """Values and their keys are encrypted or hashed with a key, except the name of a space."""
    sealed = codec()
    key, raw = sealed.foldState(MARK, 5, "space", b"consumer/one", b"its state")
    assert key[:7] == b"S\x05space"
    assert b"one" not in key + raw
    assert b"state" not in raw
    assert sealed.state(unwrap(raw, key)) == (b"consumer/one", b"its state")
    assert sealed.nameIn(key) == ("space", b"")
    assert key == sealed.foldState(MARK, 6, "space", b"consumer/one", b"")[0]
    assert b"orders" not in sealed.tallyKey(1, b"orders.new")
    assert sealed.tallyKey(1, b"orders.new") != sealed.tallyKey(2, b"orders.new")


def test_valueElsewhere() -> None:
    """A value under another key, or one that is too short, is damaged."""
    sealed = codec()
    key = sealed.stateKey("space", b"a")
    envelope = unwrap(sealed.fold(MARK, 5, key, b"value"), key)
    for wrong in (envelope._replace(key=b"S\x05spaceb"), envelope._replace(value=b"short")):
        with pytest.raises(Damaged):
            sealed.open(wrong)


def test_nothingInTheClear(tmp_path: Path) -> None:
    """
    After appends by the journal and by the database, deletions and changes of state, no subject,
    header, payload, nor key or value of state is found in any file.
    """
    reactor = PumpedReactor()
    store: Any = reactor.wait(openLMDB(reactor, tmp_path, encryption=Encryption("a secret")))
    log: Any = reactor.wait(store.open("log"))
    sole: Any = reactor.wait(store.open("sole"))
    for number in range(40):
        batch = [(b"subject.%d" % index, b"header", b"payload", 0) for index in range(number)]
        reactor.wait(log.append(batch))
        reactor.wait(sole.append([(b"subject.sole", b"header", b"payload", 0)]))
    reactor.wait(log.delete(range(3, 300)))
    reactor.wait(log.hold("name of a hold", 500))
    reactor.wait(store.states("space").change({b"key of state": b"value of state"}))
    assert len(reactor.wait(log.subjects(b"subject.*"))) == 39
    reactor.wait(store.close())
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for text in (b"subject", b"header", b"payload", b"of state", b"of a hold", b"secret"):
        assert text not in data
    assert b"space" in data
