"""
The description of a client, as JSON and as the header for services of other accounts, in the text
of nats-server 2.15: its names, its order and its escapes. A stamped message has exactly one
C{Nats-Request-Info}, the broker's.

Clients send headers too, and this one must not be theirs (CVE-2026-33223). It is removed in every
spelling that any reader of headers might accept: in any case, with spaces around the name, behind a
bare CR or LF, continued on further lines, and repeated. nats-server removes only its own spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from random import Random
from typing import Any

from natsbroker.wire.headers import HeaderError, Headers
from natsbroker.wire.instants import instant
from natsbroker.wire.values import ClientInfo

#: The name of the header.
HEADER = b"Nats-Request-Info"

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 22

_VERSION = b"NATS/1.0"
_SPECIAL = re.compile("[<>&\x7f\u2028\u2029\ud800-\udfff]")
_LINES = re.compile(rb"(?<=\n)|(?<=\r)(?!\n)")


def eventId(random: Random) -> str:
    """A random id like nats-server's: 22 letters and digits."""
    return "".join(random.choices(_DIGITS, k=_ID_LENGTH))


def described(info: ClientInfo) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(info):
        value = getattr(info, field.name)
        if value:
            values[field.name] = instant(value) if field.name == "start" else value
    return values


def compact(document: Any) -> bytes:
    """JSON on one line, as Go writes it."""
    return _text(document).encode("utf-8")


def _text(document: Any) -> str:
    if isinstance(document, str):
        return _SPECIAL.sub(_escaped, json.dumps(document, ensure_ascii=False))
    if isinstance(document, Mapping):
        return "{" + ",".join(f"{_text(key)}:{_text(document[key])}" for key in document) + "}"
    if isinstance(document, Sequence):
        return "[" + ",".join(map(_text, document)) + "]"
    return json.dumps(document)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def stamped(body: bytes, headerLength: int, info: ClientInfo) -> tuple[bytes, int]:
    """
    @param body: the header block, if there is one, and the payload.
    @param headerLength: the length of the header block. One that does not begin as header blocks do
        is left out.
    @return: the new body and the length of its header block.
    """
    block = _VERSION + b"\r\n"
    if headerLength and body.startswith(_VERSION):
        block = _without(body[:headerLength])
    block += _line(info)
    return block + body[headerLength:], len(block)


def readStamp(block: bytes) -> dict[str, Any]:
    """The description in a header block; empty if it has no readable one."""
    try:
        info = json.loads(Headers.fromBlock(block).get(HEADER.decode()) or "{}")
    except (HeaderError, ValueError, RecursionError):
        return {}
    return info if isinstance(info, dict) else {}


@lru_cache(maxsize=1024)
def _line(info: ClientInfo) -> bytes:
    return b"%b: %b\r\n\r\n" % (HEADER, compact(described(info)))


def _without(block: bytes) -> bytes:
    """A header block without the description and without the block's end."""
    kept: list[bytes] = []
    isOurs = False
    for line in _LINES.split(block):
        if not line.strip(b"\r\n"):
            continue
        isNamed = line.partition(b":")[0].strip().lower() == HEADER.lower()
        isOurs = isNamed or (isOurs and line[:1] in b" \t")
        if not isOurs:
            kept.append(line)
    text = b"".join(kept)
    return text if text.endswith(b"\r\n") else text.rstrip(b"\r\n") + b"\r\n"
