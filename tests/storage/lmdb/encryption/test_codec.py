"""
The bytes that are stored unchanged.
"""

from __future__ import annotations

import pytest

from natsbroker.storage.envelopes import SEALED, unwrap, wrap
from natsbroker.storage.lmdb.encryption.codec import PLAIN
from natsbroker.storage.lmdb.layout import Tally, rowKey, stateKey, tallyKey
from natsbroker.storage.records import Damaged

MARK = b"the mark"


def test_values() -> None:
    """A value is read unchanged, from either of two copies if it is stored twice."""
    key = rowKey(5)
    raw = PLAIN.fold(MARK, 3, key, b"value")
    assert PLAIN.unfold(raw, key) == b"value"
    assert PLAIN.unfold(bytes(len(raw) // 2) + raw[len(raw) // 2 :], key) == b"value"
    key, raw = PLAIN.foldState(MARK, 3, "space", b"name", b"value")
    assert key == stateKey("space", b"name")
    assert PLAIN.state(unwrap(raw, key)) == (b"name", b"value")
    assert PLAIN.nameIn(key) == ("space", b"name")


def test_tallies() -> None:
    """A tally is found under its subject, and is none if it is damaged."""
    tally = Tally(b"a.b", 1, 4, 4)
    key = PLAIN.tallyKey(5, b"a.b")
    assert key == tallyKey(5, b"a.b")
    raw = PLAIN.fold(MARK, 3, key, tally.pack())
    assert PLAIN.tally(key, raw) == tally
    assert PLAIN.tally(key, raw[:-1] + b"X") is None


def test_encrypted() -> None:
    """An encrypted value is not confused with a plain one."""
    raw = wrap(MARK, b"S", 3, b"S\x01ab", b"value", SEALED)
    with pytest.raises(Damaged, match="encrypted"):
        PLAIN.open(unwrap(raw, b"S\x01ab"))
