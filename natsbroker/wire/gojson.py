"""
JSON as Go's encoding/json reads and writes it, with its error texts.

L{read} takes apart the bytes of one value. It keeps where each part stands, because Go's errors
give offsets and some of its types decide by the text itself. L{encode} writes an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from natsbroker.steps import PIECE, Steps
from natsbroker.wire.text import decoded, encoded

_DEEPEST: Final = 10_000
_SPACE = re.compile(rb"[ \t\r\n]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(rb"[0-9]*")
_HEX = re.compile(rb"\\u[0-9a-fA-F]*")
_LITERALS: Final[dict[int, tuple[bytes, str, Any]]] = {
    ord("t"): (b"true", "bool", True),
    ord("f"): (b"false", "bool", False),
    ord("n"): (b"null", "null", None),
}
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
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


class JsonError(ValueError):
    """A text that is not JSON, or JSON that is not what a request holds. Its text is Go's."""


class JsonSyntaxError(JsonError):
    """
    A text that is not JSON.

    @ivar offset: how many bytes were read, with the wrong one.
    """

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.offset = offset


class JsonEndError(JsonError):
    """The text ends inside a value."""


@dataclass(slots=True)
class JsonNode:
    """
    One value of a text.

    @ivar kind: C{object}, C{array}, C{string}, C{number}, C{bool} or C{null}.
    @ivar start: where it begins.
    @ivar end: the offset behind it.
    @ivar value: pairs of key and L{JsonNode}, a list of L{JsonNode}, C{str}, the C{bytes} of a
        number, or C{bool}.
    """

    kind: str
    start: int
    end: int
    value: Any


def skipSpace(text: bytes, position: int = 0) -> int:
    """
    @return: the offset of the next byte that is not white space.
    """
    match = _SPACE.match(text, position)
    return match.end() if match is not None else position


def read(text: bytes, position: int = 0) -> Steps[JsonNode]:
    """
    Take one value from a text. What follows the value is not looked at.

    @param position: where the value, or white space before it, begins.
    @raise JsonError: if there is no value or it is malformed.
    """
    return _Reader(text).read(position)


class _Reader:
    """Reads values without recursion, so that a deeply nested text costs no stack."""

    __slots__ = ("_text",)

    def __init__(self, text: bytes) -> None:
        self._text = text

    def read(self, position: int) -> Steps[JsonNode]:
        """
        @return: the value at the position.
        """
        node = self._begin(position)
        if node.kind not in ("object", "array"):
            return node
        nested = [node]
        position, fresh, left = node.end, True, PIECE
        while nested:
            left -= 1
            if not left:
                left = PIECE
                yield
            top = nested[-1]
            position = self._next(position)
            if self._text[position] == (0x7D if top.kind == "object" else 0x5D):
                top.end = position = position + 1
                nested.pop()
                fresh = False
                continue
            if not fresh:
                position = self._separator(top, position)
            child = self._member(top, position)
            position, fresh = child.end, False
            if child.kind in ("object", "array"):
                if len(nested) >= _DEEPEST:
                    raise JsonSyntaxError("exceeded max depth", child.end)
                nested.append(child)
                fresh = True
        return node

    def _separator(self, top: JsonNode, position: int) -> int:
        """
        @return: the offset behind the comma between two members.
        """
        if self._text[position] != 0x2C:
            what = "object key:value pair" if top.kind == "object" else "array element"
            raise self._wrong(position, f"after {what}")
        return position + 1

    def _member(self, top: JsonNode, position: int) -> JsonNode:
        """Read the begin of a member and add it to its container."""
        if top.kind == "array":
            child = self._begin(position)
            top.value.append(child)
            return child
        position = self._next(position)
        if self._text[position] != 0x22:
            raise self._wrong(position, "looking for beginning of object key string")
        name = self._string(position)
        position = self._next(name.end)
        if self._text[position] != 0x3A:
            raise self._wrong(position, "after object key")
        child = self._begin(position + 1)
        top.value.append((name.value, child))
        return child

    def _begin(self, position: int) -> JsonNode:
        """
        @return: the value that begins here; of a container only its first byte is read.
        """
        position = self._next(position)
        first = self._text[position]
        if first == 0x22:
            return self._string(position)
        if first == 0x7B:
            return JsonNode("object", position, position + 1, [])
        if first == 0x5B:
            return JsonNode("array", position, position + 1, [])
        if first == 0x2D or 0x30 <= first <= 0x39:
            return self._number(position)
        if first in _LITERALS:
            return self._literal(position)
        raise self._wrong(position, "looking for beginning of value")

    def _next(self, position: int) -> int:
        """
        @return: the offset of the next byte that counts.
        """
        position = skipSpace(self._text, position)
        if position >= len(self._text):
            raise JsonEndError("unexpected EOF")
        return position

    def _at(self, position: int) -> int:
        """
        @return: the byte at the position.
        """
        if position >= len(self._text):
            raise JsonEndError("unexpected EOF")
        return self._text[position]

    def _literal(self, start: int) -> JsonNode:
        word, kind, value = _LITERALS[self._text[start]]
        for place, wanted in enumerate(word):
            if self._at(start + place) != wanted:
                context = f"in literal {word.decode()} (expecting '{chr(wanted)}')"
                raise self._wrong(start + place, context)
        return JsonNode(kind, start, start + len(word), value)

    def _number(self, start: int) -> JsonNode:
        position = start
        if self._text[position] == 0x2D:
            position += 1
            self._digit(position)
        position = position + 1 if self._text[position] == 0x30 else self._digits(position)
        if self._text[position : position + 1] == b".":
            self._digit(position + 1)
            position = self._digits(position + 1)
        if self._text[position : position + 1] in (b"e", b"E"):
            position += 1
            if self._at(position) in b"+-":
                position += 1
            self._digit(position)
            position = self._digits(position)
        return JsonNode("number", start, position, self._text[start:position])

    def _digit(self, position: int) -> None:
        """
        @raise JsonSyntaxError: if there is no digit.
        """
        if not 0x30 <= self._at(position) <= 0x39:
            raise self._wrong(position, "in numeric literal")

    def _digits(self, position: int) -> int:
        """
        @return: the offset behind the digits.
        """
        match = _DIGITS.match(self._text, position)
        return match.end() if match is not None else position

    def _string(self, start: int) -> JsonNode:
        position, escaped = start + 1, False
        while True:
            match = _PLAIN.match(self._text, position)
            position = match.end() if match is not None else position
            byte = self._at(position)
            if byte == 0x22:
                break
            if byte != 0x5C:
                raise self._wrong(position, "in string")
            escaped = True
            position = self._escape(position)
        text = decoded(self._text[start + 1 : position])
        return JsonNode("string", start, position + 1, _unescaped(text) if escaped else text)

    def _escape(self, position: int) -> int:
        """
        @param position: of the backslash.
        @return: the offset behind the escape.
        """
        byte = self._at(position + 1)
        if byte in b'bfnrt\\/"':
            return position + 2
        size = 6 if byte == 0x75 else 2
        sequence = self._text[position : position + size]
        if size == 6 and _HEX.fullmatch(sequence):
            if len(sequence) == size:
                return position + size
            raise JsonEndError("unexpected EOF")
        raise JsonSyntaxError(
            f"invalid escape sequence {_shownSequence(sequence)} in string",
            position + len(sequence),
        )

    def _wrong(self, position: int, context: str) -> JsonSyntaxError:
        shown, size = _shownCharacter(self._text[position : position + 4])
        return JsonSyntaxError(f"invalid character {shown} {context}", position + size)


def _shownCharacter(text: bytes) -> tuple[str, int]:
    """
    @return: the first character as Go quotes it, and its bytes.
    """
    first = text.decode("utf-8", "surrogateescape")[0]
    shown = {"'": r"\'", '"': '"'}.get(first) or goQuoted(first)[1:-1]
    return f"'{shown}'", len(first.encode("utf-8", "surrogateescape"))


def _shownSequence(sequence: bytes) -> str:
    """
    @return: an escape as errors show it: in backquotes if that is readable.
    """
    text = sequence.decode("utf-8", "surrogateescape")
    isReadable = text.isprintable() and not set(text) & {"`", " ", "\ufffd"}
    return f"`{text}`" if isReadable else goQuoted(sequence)


def _unescaped(text: str) -> str:
    """
    @return: the text with its escapes replaced. Half a surrogate pair becomes U+FFFD.
    """
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    escape = match[0]
    if escape[1] != "u":
        return _LETTERS.get(escape[1], escape[1])
    if len(escape) == 12:
        high, low = int(escape[2:6], 16), int(escape[8:], 16)
        return chr(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00)
    code = int(escape[2:], 16)
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


def goQuoted(text: str | bytes) -> str:
    """
    @return: the text as Go's C{%q} shows it.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return '"' + "".join([_quotedCharacter(each) for each in text]) + '"'


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

    def place(each: EncodedObject | EncodedNumbers) -> str:
        placed.append(each)
        return _PLACE

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=place)
    text = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    for each in placed:
        text = text.replace(f'"{_PLACE}"', str(each), 1)
    return encoded(text)
