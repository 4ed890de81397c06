"""
Encryption of auth callout messages with the C{x25519} keys of NATS.

The form is C{xkv1}, a nonce of 24 bytes, and a box of NaCl (X25519, XSalsa20, Poly1305). A key of
small order, such as all zeros, is refused (CVE-2023-46129).
"""

from __future__ import annotations

from collections.abc import Callable

from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey

from natsbroker.wire.nkeys import NkeyError, Role, decodeKey, encodeKey

_VERSION = b"xkv1"
_NONCE = 24


class SealError(ValueError):
    pass


class CurveKeys:
    def __init__(self, secret: bytes | None = None) -> None:
        """
        @param secret: 32 secret bytes; by default new ones.
        """
        self._secret = PrivateKey.generate() if secret is None else PrivateKey(secret)
        self.publicKey = encodeKey(Role.CURVE, bytes(self._secret.public_key))

    def seal(self, data: bytes, recipient: str, random: Callable[[int], bytes]) -> bytes:
        nonce = random(_NONCE)
        return _VERSION + bytes(self._box(recipient).encrypt(data, nonce))

    def open(self, data: bytes, sender: str) -> bytes:
        if data[: len(_VERSION)] != _VERSION:
            raise SealError("not sealed in a known form")
        box = self._box(sender)
        sealed = data[len(_VERSION) :]
        try:
            return bytes(box.decrypt(sealed[_NONCE:], sealed[:_NONCE]))
        except (CryptoError, ValueError) as error:
            raise SealError("could not be opened") from error

    def _box(self, other: str) -> Box:
        try:
            key = decodeKey(other, Role.CURVE)
            return Box(self._secret, PublicKey(key))
        except (NkeyError, CryptoError) as error:
            raise SealError("the other's key is no good") from error

    def __repr__(self) -> str:
        return f"<CurveKeys {self.publicKey}>"
