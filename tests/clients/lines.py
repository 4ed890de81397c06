"""
Lines that the tests of conversations send and expect.
"""

from __future__ import annotations

import json
from typing import Any

DENIED = b"-ERR 'Authorization Violation'\r\n"
MIB = 1 << 20


def info(data: bytes) -> dict[str, Any]:
    """The fields of an INFO line, which must be the whole input."""
    assert data.startswith(b"INFO ") and data.endswith(b" \r\n")
    fields: dict[str, Any] = json.loads(data[5:])
    return fields


def pub(subject: bytes, body: bytes, reply: bytes = b"") -> bytes:
    """A PUB operation."""
    return b"PUB %b %b%d\r\n%b\r\n" % (subject, reply + b" " if reply else b"", len(body), body)


def msg(subject: bytes, sid: bytes, body: bytes) -> bytes:
    """A MSG operation."""
    return b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, len(body), body)
