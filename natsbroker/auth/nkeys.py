"""
nkeys: the text of public keys, signatures, and their base64.

The text of a key is base 32 of a byte for its role, the key, and the CRC-16 of both (CCITT, low
byte first). Invalid text raises only L{NkeyError}. Signatures are verified by libsodium, which
refuses malleable ones (an C{S} not less than the order of the group), keys of small order, and
points in any but their canonical encoding.

Base64 is read strictly: each sequence of bytes has exactly one text.
"""

from __future__ import annotations

import base64
import binascii
from enum import IntEnum

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey

from natsbroker import errors
from natsbroker.wire.grants import ConnectRequest

__all__ = [
    "NkeyError",
    "Role",
    "Signer",
    "checkSignature",
    "decodeKey",
    "decodeRaw",
    "decodeSignature",
    "encodeKey",
    "encodeRaw",
    "isKey",
    "isSignature",
]


def encodeRaw(data: bytes) -> str:
    """
    @return: base64 in the alphabet of URLs, without padding, as in JWTs, nonces and signatures.
    """
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decodeRaw(text: str) -> bytes:
    """
    @raise ValueError: if the text is not what L{encodeRaw} writes.
    """
    data = _decoded(text + "=" * (-len(text) % 4), b"-_")
    if encodeRaw(data) != text:
        raise ValueError("not canonical base64")
    return data


def decodeSignature(text: str) -> bytes:
    """
    Read a signature in CONNECT: as L{decodeRaw}, or in standard base64 with padding, which nats-
    server accepts too (observed).

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
_TEXT = 56


class Role(IntEnum):
    """
    The use of a key: the first byte of its text, which makes the first letter.
    """

    OPERATOR = 14 << 3
    ACCOUNT = 0
    USER = 20 << 3
    SERVER = 13 << 3
    CLUSTER = 2 << 3
    CURVE = 23 << 3


class NkeyError(ValueError):
    """
    A text is not the expected public key. It is not repeated, since it may be a secret.
    """


def encodeKey(role: Role, key: bytes) -> str:
    """
    @param key: the 32 bytes of a public key.
    """
    body = bytes([role]) + key
    checksum = binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(body + checksum).decode("ascii")


def decodeKey(text: str, role: Role) -> bytes:
    """
    @return: the 32 bytes of a public key.
    @raise NkeyError: if the text is no key of this role.
    """
    if len(text) != _TEXT:
        raise NkeyError(f"not the public key of one {role.name.lower()}: wrong length")
    try:
        data = base64.b32decode(text)
    except (binascii.Error, ValueError) as error:
        raise NkeyError("not a public key: not base 32") from error
    body, checksum = data[:-2], data[-2:]
    if binascii.crc_hqx(body, 0).to_bytes(2, "little") != checksum:
        raise NkeyError("not a public key: wrong checksum")
    if body[0] != role:
        raise NkeyError(f"not the public key of one {role.name.lower()}")
    return body[1:]


def isKey(text: str, role: Role) -> bool:
    try:
        decodeKey(text, role)
    except NkeyError:
        return False
    return True


def isSignature(signature: bytes, data: bytes, key: bytes) -> bool:
    """
    @param key: the 32 bytes of the public key.
    """
    if len(signature) != _SIGNATURE or len(key) != _KEY:
        return False
    try:
        VerifyKey(key).verify(data, signature)
    except CryptoError:
        return False
    return True


class Signer:
    """
    A key pair.

    @ivar publicKey: the text of its public half.
    """

    def __init__(self, role: Role, seed: bytes | None = None) -> None:
        """
        @param seed: 32 secret bytes; by default new ones.
        """
        self._key = SigningKey.generate() if seed is None else SigningKey(seed)
        self.publicKey = encodeKey(role, bytes(self._key.verify_key))

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data).signature

    def __repr__(self) -> str:
        return f"<Signer {self.publicKey}>"


def checkSignature(key: str, request: ConnectRequest) -> None:
    """
    Check that the client signed its own nonce; a signature of another connection does not count.

    @raise errors.Unauthorized: if it did not.
    """
    nonce, text = request.nonce, request.text("sig")
    if not nonce or not text:
        raise errors.Unauthorized("nothing is signed")
    try:
        signature, public = decodeSignature(text), decodeKey(key, Role.USER)
    except ValueError as error:
        raise errors.Unauthorized(f"the signature is none: {error}") from error
    if not isSignature(signature, nonce.encode("ascii"), public):
        raise errors.Unauthorized("the nonce is not signed with the user's key")
