"""
Messages that nats-streaming-server encrypted.

Only the data of a message is encrypted: a code for the cipher, a nonce of 12 bytes, the ciphertext
and a tag of 16 bytes. The last 8 bytes of the nonce count messages: the count is never above the
message's sequence. Nothing else in the store says that it is encrypted.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

_AES, _CHACHA = 1, 2
_NONCE = slice(1, 13)
_COUNT = slice(5, 13)
_OVERHEAD = 29


class DecryptionError(Exception):
    """The key is wrong, or the data was changed."""


def looksEncrypted(data: bytes, sequence: int) -> bool:
    """Whether the data of a message has the form that the server gives to encrypted data."""
    if len(data) <= _OVERHEAD or data[0] not in (_AES, _CHACHA):
        return False
    return 1 <= int.from_bytes(data[_COUNT], "big") <= sequence


class Decrypter:
    def __init__(self, key: str, channel: str) -> None:
        """C{key} is the server's C{encryption_key}."""
        name = channel.encode("utf-8", "surrogateescape")
        store = sha256(key.encode("utf-8", "surrogateescape")).digest()
        # The zeros are what the server's key derivation appends to instead of overwriting.
        zeros = bytes(len(store) + 1 + len(name))
        self._key = sha256(zeros + store + b"." + name).digest()
        self._ciphers: dict[int, Any] = {}

    def decrypt(self, data: bytes) -> bytes:
        """Decrypt data that L{looksEncrypted}; L{DecryptionError} if it cannot be."""
        from cryptography.exceptions import InvalidTag

        try:
            plain: bytes = self._cipher(data[0]).decrypt(data[_NONCE], data[_NONCE.stop :], None)
        except InvalidTag:
            raise DecryptionError("it cannot be decrypted with this key") from None
        return plain

    def _cipher(self, code: int) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

        cipher = self._ciphers.get(code)
        if cipher is None:
            cipher = self._ciphers[code] = (AESGCM if code == _AES else ChaCha20Poly1305)(self._key)
        return cipher
