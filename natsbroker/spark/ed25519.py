"""
Ed25519 signatures (RFC 8032), as a worker needs one per connection: over the server's nonce.

A worker loads nothing but this layer, C{wire} and Spark, so there is no library for it here. It
signs in some milliseconds and is not hardened against somebody who measures time in this process.
Signatures of others are verified elsewhere (L{natsbroker.auth}), with libsodium.

Promises: the signature that RFC 8032 prescribes, by the same steps whatever the key's bits.
Must never know: what is signed.
"""

from __future__ import annotations

import hashlib

__all__ = ["publicKey", "sign"]

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P

#: A point (x, y) as (X, Y, Z, T) with x = X/Z, y = Y/Z and x*y = T/Z.
_Point = tuple[int, int, int, int]

_ZERO: _Point = (0, 1, 1, 0)
_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_Y = 4 * pow(5, -1, _P) % _P
_BASE: _Point = (_X, _Y, 1, _X * _Y % _P)


def publicKey(seed: bytes) -> bytes:
    """
    The public half of a key.

    @param seed: its 32 secret bytes.
    """
    return _encoded(_times(_secrets(seed)[0], _BASE))


def sign(seed: bytes, data: bytes) -> bytes:
    """
    The signature of some bytes.
    """
    scalar, prefix = _secrets(seed)
    public = _encoded(_times(scalar, _BASE))
    once = _number(prefix + data)
    commitment = _encoded(_times(once, _BASE))
    challenge = _number(commitment + public + data)
    return commitment + ((once + challenge * scalar) % _ORDER).to_bytes(32, "little")


def _secrets(seed: bytes) -> tuple[int, bytes]:
    if len(seed) != 32:
        raise ValueError("the seed of a key has 32 bytes")
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & ((1 << 254) - 8) | (1 << 254), digest[32:]


def _number(data: bytes) -> int:
    return int.from_bytes(hashlib.sha512(data).digest(), "little") % _ORDER


def _add(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: _Point) -> _Point:
    """
    Montgomery's ladder: an addition and a doubling for each bit.
    """
    pair = [_ZERO, point]
    for place in reversed(range(255)):
        bit = scalar >> place & 1
        both = _add(pair[0], pair[1])
        pair[bit] = _add(pair[bit], pair[bit])
        pair[1 - bit] = both
    return pair[0]


def _encoded(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")
