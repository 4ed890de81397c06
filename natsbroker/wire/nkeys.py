"""The text of nkeys: base 32 of a role (two bytes for seeds), 32 bytes, and a CRC-16 (CCITT)."""

from __future__ import annotations

import base64
import binascii
from enum import IntEnum

_TEXT = 56
_SEED = 18 << 3
_SEED_BYTES = 34


class Role(IntEnum):
    OPERATOR = 14 << 3
    ACCOUNT = 0
    USER = 20 << 3
    SERVER = 13 << 3
    CLUSTER = 2 << 3
    CURVE = 23 << 3


class NkeyError(ValueError):
    """A text is not the expected key. The error does not repeat it, since it may be a secret."""


class WrongRole(NkeyError):
    pass


def encodeKey(role: Role, key: bytes) -> str:
    body = bytes([role]) + key
    return base64.b32encode(body + _checksum(body)).decode("ascii")


def decodeKey(text: str, role: Role) -> bytes:
    """The 32 bytes of a public key. L{NkeyError} if the text is not a key of this role."""
    if len(text) != _TEXT:
        raise NkeyError(f"not the public key of one {role.name.lower()}: wrong length")
    try:
        data = base64.b32decode(text)
    except ValueError as error:
        raise NkeyError("not a public key: not base 32") from error
    body = data[:-2]
    if _checksum(body) != data[-2:]:
        raise NkeyError("not a public key: wrong checksum")
    if body[0] != role:
        raise NkeyError(f"not the public key of one {role.name.lower()}")
    return body[1:]


def publicBytes(text: str) -> bytes:
    """The 32 bytes of a public key of any role; L{NkeyError} for other text."""
    for role in Role:
        if isKey(text, role):
            return decodeKey(text, role)
    raise NkeyError("not a public key")


def decodeSeed(text: str, role: Role = Role.USER) -> bytes:
    """
    The 32 bytes of a seed. L{NkeyError} for other text, L{WrongRole} for the seed of another role.
    """
    try:
        data = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError as error:
        raise NkeyError("not base 32") from error
    body = data[:-2]
    if len(body) != _SEED_BYTES or _checksum(body) != data[-2:]:
        raise NkeyError("wrong length or checksum")
    if body[0] & 0xF8 != _SEED or (body[0] & 7) << 5 | body[1] >> 3 != role:
        raise WrongRole(f"not the seed of {role.name.lower()}")
    return body[2:]


def isKey(text: str, role: Role) -> bool:
    try:
        decodeKey(text, role)
    except NkeyError:
        return False
    return True


def _checksum(body: bytes) -> bytes:
    return binascii.crc_hqx(body, 0).to_bytes(2, "little")
