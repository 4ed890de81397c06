"""
Encryption of stored values; docs/reference/store-format.md has its form.

Each record and each value is encrypted by itself, so that a flipped bit damages one of them. Keys
are random. A new one is used when the operator changes the key or the cipher, and all are kept. A
nonce is 96 random bits. Each L{SEGMENT} of sequences, or of generations, has a separate key. This
keeps the number of nonces under one key far below that at which two might be equal.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from natsbroker.storage.blocks import Contents, build, changeRecords
from natsbroker.storage.envelopes import SEALED, Envelope
from natsbroker.storage.lmdb.encryption.codec import PlainCodec
from natsbroker.storage.lmdb.layout import statePrefix, tallyPrefix
from natsbroker.storage.records import HEAD, HEAD_SIZE, Damaged, crc32c

CHACHA, AES = 1, 2
CIPHERS = {"chacha": CHACHA, "aes": AES}
"""The ciphers, by the names that nats-server gives them."""

SEGMENT = 1 << 24
"""The number of sequences, or generations, with the same key."""

KEY_SIZE = 32
NONCE_SIZE = 12
TAG_SIZE = 16
DIGEST_SIZE = 16
"""The size in bytes of the keyed hash that stands for a subject, or for the key of a value."""

MOST_CIPHERS = 1024
"""The number of derived keys that are kept at hand."""

_LENGTHS = Struct("<HI")
_BODY = Struct("<HHII")
_CRC = Struct("<I")
_EPOCH = Struct("<H")
_EPOCH_AT = 6
_NAMES = slice(16, HEAD_SIZE)  # the identity, the sequence and the timestamp
_PAIR = Struct("<QQ")
_KEY = Struct("<H")


class StoreKey(NamedTuple):
    number: int
    cipher: int
    key: bytes


class SealedCodec(PlainCodec):
    """Encrypts records and values; names in the database's keys become keyed hashes."""

    isSealed = True
    overhead = _LENGTHS.size + NONCE_SIZE + TAG_SIZE
    formatVersion = 2

    def __init__(self, keys: Sequence[StoreKey], hashKey: bytes) -> None:
        """The last one of C{keys} is used from now on."""
        self._keys = {key.number: key for key in keys}
        self._current = keys[-1].number
        self._hashKey = hashKey
        self._ciphers: dict[tuple[bytes, int, int, int], AESGCM | ChaCha20Poly1305] = {}

    def _cipher(
        self, use: bytes, number: int, identity: int, segment: int
    ) -> AESGCM | ChaCha20Poly1305:
        place = use, number, identity, segment
        cipher = self._ciphers.get(place)
        if cipher is None:
            store = self._keys.get(number)
            if store is None:
                raise Damaged(f"it is encrypted with key {number}, which is not known")
            data = _PAIR.pack(identity, segment)
            derived = blake2b(data, key=store.key, digest_size=KEY_SIZE, person=use).digest()
            if len(self._ciphers) >= MOST_CIPHERS:
                self._ciphers = {}
            cipher = AESGCM(derived) if store.cipher == AES else ChaCha20Poly1305(derived)
            self._ciphers[place] = cipher
        return cipher

    # Keys

    def _digest(self, use: bytes, data: bytes) -> bytes:
        return blake2b(data, key=self._hashKey, digest_size=DIGEST_SIZE, person=use).digest()

    def tallyKey(self, identity: int, subject: bytes) -> bytes:
        prefix = tallyPrefix(identity)
        return prefix + self._digest(b"subject", prefix + subject)

    def stateKey(self, space: str, key: bytes) -> bytes:
        prefix = statePrefix(space)
        return prefix + self._digest(b"state", prefix + key)

    def order(self, subject: bytes) -> bytes:
        return subject

    def nameIn(self, key: bytes) -> tuple[str, bytes]:
        return super().nameIn(key)[0], b""

    # Values

    def _close(self, key: bytes, generation: int, value: bytes) -> tuple[int, bytes]:
        if key[:1] in b"FGX":
            return super()._close(key, generation, value)
        cipher = self._cipher(b"values", self._current, 0, generation // SEGMENT)
        nonce = os.urandom(NONCE_SIZE)
        return SEALED, _EPOCH.pack(self._current) + nonce + cipher.encrypt(nonce, value, key)

    def open(self, envelope: Envelope) -> bytes:
        version, value = envelope.version, envelope.value
        if version != SEALED:
            return value
        start = _EPOCH.size + NONCE_SIZE
        if len(value) < start + TAG_SIZE:
            raise Damaged("an encrypted value is too short")
        number = _EPOCH.unpack_from(value)[0]
        cipher = self._cipher(b"values", number, 0, envelope.generation // SEGMENT)
        try:
            return cipher.decrypt(value[_EPOCH.size : start], value[start:], envelope.key)
        except InvalidTag as failure:
            raise Damaged("a value cannot be decrypted") from failure

    def _keyed(self, key: bytes, value: bytes) -> bytes:
        return _KEY.pack(len(key)) + key + value

    def state(self, envelope: Envelope) -> tuple[bytes, bytes]:
        if envelope.version != SEALED:
            return super().state(envelope)
        value = self.open(envelope)
        end = _KEY.size + _KEY.unpack_from(value)[0]
        return value[_KEY.size : end], value[end:]

    # Records

    def closeRecords(self, blobs: Sequence[bytes]) -> list[bytes]:
        nonces = os.urandom(NONCE_SIZE * len(blobs))
        number = self._current
        closed = []
        for index, blob in enumerate(blobs):
            if crc32c(blob[_CRC.size :]) != _CRC.unpack_from(blob)[0]:
                # With a checksum of its own, what is damaged would look whole.
                marked = blob[:_EPOCH_AT] + _EPOCH.pack(number) + blob[_EPOCH_AT + _EPOCH.size :]
                closed.append(marked + bytes(self.overhead))
                continue
            _, subjectLength, _, headersLength, _, identity, sequence, _ = HEAD.unpack_from(blob)
            nonce = nonces[index * NONCE_SIZE : (index + 1) * NONCE_SIZE]
            cipher = self._cipher(b"records", number, identity, sequence // SEGMENT)
            names = blob[_NAMES]
            plain = _LENGTHS.pack(subjectLength, headersLength) + blob[HEAD_SIZE:]
            text = cipher.encrypt(nonce, plain, names)
            body = b"".join((_BODY.pack(0, number, 0, NONCE_SIZE + len(text)), names, nonce, text))
            closed.append(_CRC.pack(crc32c(body)) + body)
        return closed

    def openRecord(self, blob: bytes) -> bytes:
        number = _EPOCH.unpack_from(blob, _EPOCH_AT)[0]
        if not number:
            return blob
        if crc32c(blob[_CRC.size :]) != _CRC.unpack_from(blob)[0]:
            raise Damaged("a record does not match its checksum")
        _, _, _, _, _, identity, sequence, _ = HEAD.unpack_from(blob)
        cipher = self._cipher(b"records", number, identity, sequence // SEGMENT)
        start, names = HEAD_SIZE + NONCE_SIZE, blob[_NAMES]
        try:
            plain = cipher.decrypt(blob[HEAD_SIZE:start], blob[start:], names)
        except InvalidTag as failure:
            raise Damaged("a record cannot be decrypted") from failure
        subjectLength, headersLength = _LENGTHS.unpack_from(plain)
        rest = plain[_LENGTHS.size :]
        payloadLength = len(rest) - subjectLength - headersLength
        body = b"".join((_BODY.pack(subjectLength, 0, headersLength, payloadLength), names, rest))
        return _CRC.pack(crc32c(body)) + body

    def _openOrBreak(self, blob: bytes) -> bytes:
        """A decrypted record. For a damaged one, a part of it, as long as the record was."""
        try:
            return self.openRecord(blob)
        except Damaged:
            return blob[: max(len(blob) - self.overhead, HEAD_SIZE)]

    def openBlock(self, raw: bytes, identity: int) -> bytes:
        return changeRecords(raw, identity, self._openOrBreak)

    def closeBlock(self, raw: bytes, identity: int) -> bytes:
        return changeRecords(raw, identity, lambda record: self.closeRecords((record,))[0])

    def block(self, mark: bytes, identity: int, generation: int, contents: Contents) -> bytes:
        closed = self.closeRecords(contents.pieces)
        stored = Contents(contents.sequences, list(map(len, closed)), closed)
        return build(mark, identity, generation, stored, self.overhead)
