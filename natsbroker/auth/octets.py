"""
Bytes written as text: base64 in its strictest reading.

Each sequence of bytes has exactly one text; anything else is refused: padding where there
is none, letters of another alphabet, blanks, line ends, and bits that no byte uses.
"""

from __future__ import annotations

import base64
import binascii

__all__ = ["decodeRaw", "decodeSignature", "encodeRaw"]


def encodeRaw(data: bytes) -> str:
    """
    Base64 in the alphabet of URLs, without padding: what JWTs, nonces and signatures use.
    """
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decodeRaw(text: str) -> bytes:
    """
    Read what L{encodeRaw} writes.

    @raise ValueError: if the text is anything else.
    """
    data = _decoded(text + "=" * (-len(text) % 4), b"-_")
    if encodeRaw(data) != text:
        raise ValueError("not canonical base64")
    return data


def decodeSignature(text: str) -> bytes:
    """
    Read a signature from CONNECT: as L{decodeRaw}, or in standard base64 with its padding, which
    nats-server takes too (observed).

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
