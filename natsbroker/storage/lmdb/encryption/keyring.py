"""
The keys of an encrypted store, in two complete files (docs/reference/store-format.md), encrypted
with the operator's key.

A new key of the operator takes effect when the store is opened. The two files are encrypted with
it, and later records get a new key of the store, which the operator's old key does not reveal.
Earlier records keep their keys.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

from natsbroker.files import syncDirectory
from natsbroker.interfaces.records import StoreEncrypted
from natsbroker.storage.lmdb.files import contentsOf, writeWhole
from natsbroker.storage.records import crc32c

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    from natsbroker.storage.lmdb.encryption.sealing import SealedCodec, StoreKey

FILES = ("keys-0", "keys-1")

SALT, NONCE = 16, 12
"""The sizes of a salt and of a nonce, in bytes."""

_KEY = 32
_COST = {"n": 1 << 14, "r": 8, "p": 1, "dklen": _KEY}
_TEXT = b"natsbroker keys\nformat 1\n"
_ENTRY = Struct("<HB32s")


@dataclass(frozen=True)
class Encryption:
    """
    @ivar key: the operator's key.
    @ivar cipher: C{chacha} or C{aes}, for later records.
    @ivar previous: the operator's key before this one; empty for none.
    """

    key: str = field(repr=False)
    cipher: str = "chacha"
    previous: str = field(default="", repr=False)


@dataclass
class Keyring:
    """
    @ivar secret: the operator's key that opens the files.
    @ivar keys: the keys of all records; the last one is for later records.
    @ivar hashKey: the key of the hashes of subjects and names in the database.
    @ivar isConverting: whether a database that was not encrypted is being encrypted.
    """

    directory: Path
    secret: str = field(repr=False)
    keys: tuple[StoreKey, ...] = field(repr=False)
    hashKey: bytes = field(repr=False)
    isConverting: bool
    generation: int = 0

    def codec(self) -> SealedCodec:
        from natsbroker.storage.lmdb.encryption.sealing import SealedCodec

        return SealedCodec(self.keys, self.hashKey)

    def finish(self) -> None:
        self.isConverting = False
        self.write()

    def write(self) -> None:
        """Replace both files, the second when the first is on disk."""
        self.generation += 1
        salt, nonce = os.urandom(SALT), os.urandom(NONCE)
        head = _TEXT + b"generation %d\nsalt %s\n" % (self.generation, salt.hex().encode())
        plain = bytes((self.isConverting,)) + self.hashKey
        plain += b"".join(_ENTRY.pack(key.number, key.cipher, key.key) for key in self.keys)
        sealed = nonce + cipherOf(self.secret, salt).encrypt(nonce, plain, head)
        text = head + b"keys %s\n" % sealed.hex().encode()
        text += b"checksum %08x\n" % crc32c(text)
        for name in FILES:
            writeWhole(self.directory / name, text)
            syncDirectory(self.directory)


def cipherOf(secret: str, salt: bytes) -> ChaCha20Poly1305:
    """A cipher whose key follows from an operator's key and a random salt."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(hashlib.scrypt(secret.encode(), salt=salt, **_COST))


@dataclass(frozen=True)
class _Sealed:
    generation: int
    salt: bytes
    head: bytes
    sealed: bytes

    def open(self, directory: Path, secret: str) -> Keyring | None:
        from cryptography.exceptions import InvalidTag

        from natsbroker.storage.lmdb.encryption.sealing import StoreKey

        nonce, text = self.sealed[:NONCE], self.sealed[NONCE:]
        try:
            plain = cipherOf(secret, self.salt).decrypt(nonce, text, self.head)
        except InvalidTag:
            return None
        hashKey, entries = plain[1 : 1 + _KEY], plain[1 + _KEY :]
        keys = tuple(StoreKey._make(key) for key in _ENTRY.iter_unpack(entries))
        return Keyring(directory, secret, keys, hashKey, bool(plain[0]), self.generation)


def _read(path: Path) -> _Sealed | None:
    data = contentsOf(path) or b""
    text, separator, checksum = data.rpartition(b"checksum ")
    if not separator or checksum != b"%08x\n" % crc32c(text) or not text.startswith(_TEXT):
        return None
    lines = dict(line.partition(b" ")[::2] for line in text.splitlines())
    salt, sealed = (bytes.fromhex(lines[name].decode()) for name in (b"salt", b"keys"))
    return _Sealed(
        int(lines[b"generation"]), salt, text[: text.index(b"keys ", len(_TEXT))], sealed
    )


def keysMissing(directory: Path) -> StoreEncrypted:
    return StoreEncrypted(
        f"the store in {directory} is encrypted, and its files {FILES[0]} and {FILES[1]} are lost "
        "or damaged: put one of them back from a backup"
    )


def readKeyring(
    directory: Path, encryption: Encryption | None, isSealed: bool = False
) -> Keyring | None:
    """
    @param isSealed: whether the store is known to be encrypted, also without the files.
    @return: C{None} if the store is not encrypted.
    @raise StoreEncrypted: if the operator's key, or both files, are missing or wrong.
    """
    read = (_read(directory / name) for name in FILES)
    rings = sorted(filter(None, read), key=lambda sealed: -sealed.generation)
    if not rings:
        if isSealed or any((directory / name).exists() for name in FILES):
            raise keysMissing(directory)
        return None
    if encryption is None:
        text = f"the store in {directory} is encrypted, and jetstream has no encryption_key"
        raise StoreEncrypted(text)
    for secret in filter(None, (encryption.key, encryption.previous)):
        for sealed in rings:
            ring = sealed.open(directory, secret)
            if ring is not None:
                return ring
    tried = "neither encryption_key nor prev_encryption_key" if encryption.previous else ""
    text = f"{tried} is its key" if tried else "encryption_key is not its key"
    raise StoreEncrypted(f"the store in {directory} is encrypted, and {text}")


def currentKeyring(
    directory: Path, ring: Keyring | None, encryption: Encryption, isThere: bool
) -> Keyring:
    """
    The keys for later records, with a new one after a change of the operator's key or the cipher.

    @param isThere: whether there is a database, which must be encrypted first.
    """
    from natsbroker.storage.lmdb.encryption.sealing import CIPHERS, StoreKey

    cipher = CIPHERS[encryption.cipher]
    if ring is not None and ring.secret == encryption.key and ring.keys[-1].cipher == cipher:
        return ring
    number = 1 if ring is None else ring.keys[-1].number + 1
    key = StoreKey(number, cipher, os.urandom(_KEY))
    if ring is None:
        ring = Keyring(directory, encryption.key, (key,), os.urandom(_KEY), isThere)
    else:
        ring = replace(ring, secret=encryption.key, keys=(*ring.keys, key))
    ring.write()
    return ring
