"""
nkeys: the text of public keys, signatures, and their base64.

The text of a key is base 32 of a byte for its role, the key, and the CRC-16 of both (CCITT, low
byte first). Invalid text raises only L{NkeyError}. Signatures are verified by libsodium, which
refuses malleable ones (an C{S} not less than the order of the group), keys of small order, and
points in any but their canonical encoding. It is loaded for the first signature. Each start makes
keys, but with OpenSSL, which is loaded for TLS anyway.

Base64 is read strictly: each sequence of bytes has exactly one text.
"""

from __future__ import annotations

import base64
import binascii

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from natsbroker import errors
from natsbroker.wire.grants import ConnectRequest
from natsbroker.wire.nkeys import Role, decodeKey, encodeKey


def encodeRaw(data: bytes) -> str:
    """Base64 in the alphabet of URLs, without padding, as in JWTs, nonces and signatures."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decodeRaw(text: str) -> bytes:
    """Raise C{ValueError} if the text is not what L{encodeRaw} writes."""
    data = _decoded(text + "=" * (-len(text) % 4), b"-_")
    if encodeRaw(data) != text:
        raise ValueError("not canonical base64")
    return data


def decodeSignature(text: str) -> bytes:
    """
    Read a signature in CONNECT as L{decodeRaw}, or in padded standard base64 (as nats-server).

    @raise ValueError: if the text is neither.
    """
    try:
        return decodeRaw(text)
    except ValueError:
        data = _decoded(text, b"+/")
    if base64.b64encode(data).decode("ascii") != text:
        raise ValueError("not canonical base64")
    return data


def _decoded(text: str, last: bytes) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), altchars=last, validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ValueError("not base64") from error


_KEY = 32
_SIGNATURE = 64


def isSignature(signature: bytes, data: bytes, key: bytes) -> bool:
    from nacl.exceptions import CryptoError
    from nacl.signing import VerifyKey

    if len(signature) != _SIGNATURE or len(key) != _KEY:
        return False
    try:
        VerifyKey(key).verify(data, signature)
    except CryptoError:
        return False
    return True


class Signer:
    def __init__(self, role: Role, seed: bytes | None = None) -> None:
        """C{seed} is 32 secret bytes; by default new ones."""
        generate, read = Ed25519PrivateKey.generate, Ed25519PrivateKey.from_private_bytes
        self._key = generate() if seed is None else read(seed)
        self.publicKey = encodeKey(role, self._key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"<Signer {self.publicKey}>"


def checkSignature(key: str, request: ConnectRequest) -> None:
    """
    Check that the client signed its own nonce; a signature of another connection does not count.
    """
    nonce, text = request.nonce, request.text("sig")
    if not nonce or not text:
        raise errors.Unauthorized("the nonce is not signed")
    try:
        signature, public = decodeSignature(text), decodeKey(key, Role.USER)
    except ValueError as error:
        raise errors.Unauthorized(f"not a signature: {error}") from error
    if not isSignature(signature, nonce.encode("ascii"), public):
        raise errors.Unauthorized("the nonce is not signed with the user's key")
