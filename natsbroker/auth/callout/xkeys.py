"""
Encryption of auth callout messages with the C{x25519} keys of NATS: C{xkv1}, a nonce of 24 bytes,
and a box of NaCl (X25519, XSalsa20, Poly1305). A key of small order, such as all zeros, is refused
(CVE-2023-46129).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from natsbroker.wire.nkeys import NkeyError, Role, decodeKey, encodeKey

if TYPE_CHECKING:
    from nacl.public import Box, PrivateKey

_VERSION = b"xkv1"
_NONCE = 24
_SECRET = 32


class SealError(ValueError):
    pass


class CurveKeys:
    def __init__(self, secret: bytes | None = None) -> None:
        """C{secret} is 32 bytes; by default new ones."""
        self._secret = os.urandom(_SECRET) if secret is None else secret
        # Each start makes keys, but few of them seal anything: libsodium is only loaded to seal.
        public = X25519PrivateKey.from_private_bytes(self._secret).public_key()
        self.publicKey = encodeKey(Role.CURVE, public.public_bytes_raw())

    def seal(self, data: bytes, recipient: str, random: Callable[[int], bytes]) -> bytes:
        nonce = random(_NONCE)
        return _VERSION + bytes(self._box(recipient).encrypt(data, nonce))

    def open(self, data: bytes, sender: str) -> bytes:
        from nacl.exceptions import CryptoError

        if data[: len(_VERSION)] != _VERSION:
            raise SealError("not sealed in a known form")
        box = self._box(sender)
        sealed = data[len(_VERSION) :]
        try:
            return bytes(box.decrypt(sealed[_NONCE:], sealed[:_NONCE]))
        except (CryptoError, ValueError) as error:
            raise SealError("could not be opened") from error

    @cached_property
    def _private(self) -> PrivateKey:
        from nacl.public import PrivateKey

        return PrivateKey(self._secret)

    def _box(self, other: str) -> Box:
        from nacl.exceptions import CryptoError
        from nacl.public import Box, PublicKey

        try:
            key = decodeKey(other, Role.CURVE)
            return Box(self._private, PublicKey(key))
        except (NkeyError, CryptoError) as error:
            raise SealError("the other side's key is invalid") from error

    def __repr__(self) -> str:
        return f"<CurveKeys {self.publicKey}>"
