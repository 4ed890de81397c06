"""Values that are encrypted with the operator's key, outside of a store."""

from __future__ import annotations

import os
from contextlib import suppress

from natsbroker.interfaces.records import StoreEncrypted
from natsbroker.storage.lmdb.encryption.keyring import NONCE, Encryption, cipherOf

_SEALED = b"\x01"
"""The first byte of an encrypted value. A plain value does not begin with it."""


class ValueCipher:
    def __init__(self, encryption: Encryption | None, salt: bytes) -> None:
        """C{encryption} is C{None} for values that are stored as they are."""
        keys = () if encryption is None else (encryption.key, encryption.previous)
        self._ciphers = [cipherOf(key, salt) for key in keys if key]

    def close(self, value: bytes) -> bytes:
        if not self._ciphers:
            return value
        nonce = os.urandom(NONCE)
        return _SEALED + nonce + self._ciphers[0].encrypt(nonce, value, None)

    def open(self, stored: bytes) -> bytes:
        """
        The value in stored bytes, which may be plain or encrypted with the previous key.

        @raise StoreEncrypted: if neither key is that of the value.
        """
        if not stored.startswith(_SEALED):
            return stored
        from cryptography.exceptions import InvalidTag

        nonce, sealed = stored[1 : 1 + NONCE], stored[1 + NONCE :]
        for cipher in self._ciphers:
            with suppress(InvalidTag):
                return cipher.decrypt(nonce, sealed, None)
        raise StoreEncrypted("a value is encrypted with another key")
