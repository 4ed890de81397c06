"""Values that are encrypted with the operator's key."""

from __future__ import annotations

import pytest

from natsbroker.interfaces.records import StoreEncrypted
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.encryption.valuecipher import ValueCipher

SALT = bytes(16)
VALUE = b'{"subjects":["plans.secret"]}'


def test_plain() -> None:
    """Without a key a value is stored as it is, and is read with one, too."""
    assert ValueCipher(None, SALT).close(VALUE) == VALUE
    assert ValueCipher(Encryption("k"), SALT).open(VALUE) == VALUE


def test_keys() -> None:
    """A value is read with its key, also if that is the previous one, and with no other key."""
    stored = ValueCipher(Encryption("first"), SALT).close(VALUE)
    assert b"secret" not in stored
    assert ValueCipher(Encryption("second", previous="first"), SALT).open(stored) == VALUE
    for encryption in (Encryption("second"), None):
        with pytest.raises(StoreEncrypted, match="another key"):
            ValueCipher(encryption, SALT).open(stored)
    with pytest.raises(StoreEncrypted, match="another key"):
        ValueCipher(Encryption("first"), b"x" * 16).open(stored)


def test_noncesDiffer() -> None:
    """Equal values are stored as different bytes."""
    cipher = ValueCipher(Encryption("first"), SALT)
    assert cipher.close(VALUE) != cipher.close(VALUE)
