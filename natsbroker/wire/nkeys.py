"""
Public keys of NATS in a configuration: 56 letters of base 32 for a byte of the role, which makes
the first letter, 32 bytes, and the CRC-16 of all that.
"""

from __future__ import annotations

import base64
import binascii

__all__ = ["ACCOUNT", "CURVE", "OPERATOR", "USER", "isPublicKey"]

ACCOUNT = 0
CURVE = 23 << 3
OPERATOR = 14 << 3
USER = 20 << 3

_LENGTH = 56


def isPublicKey(text: str, role: int) -> bool:
    """
    @return: whether a text is a public key of the role.
    """
    if len(text) != _LENGTH:
        return False
    try:
        data = base64.b32decode(text)
    except ValueError:
        return False
    checksum = binascii.crc_hqx(data[:-2], 0).to_bytes(2, "little")
    return data[0] == role and data[-2:] == checksum
