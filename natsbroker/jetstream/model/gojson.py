"""
Answers as Go's encoding/json writes them, and text as Go quotes it in errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from natsbroker.wire.text import encoded

_UNSAFE = re.compile("[<>&\u2028\u2029]")
_PLACE = token_hex(16)
_SHORT_QUOTES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": "\\\\",
    '"': '\\"',
}


def goQuoted(text: str | bytes) -> str:
    """
    @return: the text as Go's C{%q} shows it.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return '"' + "".join([_quotedCharacter(character) for character in text]) + '"'


def _quotedCharacter(character: str) -> str:
    short = _SHORT_QUOTES.get(character)
    if short is not None:
        return short
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class EncodedObject:
    """
    An object whose members are encoded as they come, so that a large one costs little of a turn.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, members: Mapping[str, Any]) -> None:
        if members:
            self._pieces.append(encode(members).decode()[1:-1])

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __str__(self) -> str:
        return "{" + ",".join(self._pieces) + "}"


class EncodedNumbers:
    """A list of numbers, encoded as L{EncodedObject} is."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._count = 0

    def add(self, numbers: range) -> None:
        if numbers:
            self._pieces.append(",".join(map(str, numbers)))
            self._count += len(numbers)

    def __len__(self) -> int:
        return self._count

    def __str__(self) -> str:
        return "[" + ",".join(self._pieces) + "]"


def encode(value: Any) -> bytes:
    """
    @param value: made of dictionaries in the order of the wire, lists and plain values, and of
        L{EncodedObject}s and L{EncodedNumbers}.
    @return: the JSON, without blanks, and with the escapes that Go adds for HTML.
    """
    placed: list[EncodedObject | EncodedNumbers] = []

    def place(part: EncodedObject | EncodedNumbers) -> str:
        placed.append(part)
        return _PLACE

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=place)
    text = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    for part in placed:
        text = text.replace(f'"{_PLACE}"', str(part), 1)
    return encoded(text)
