"""
The text of a single value: numbers, dates, strings, blocks.

The rules were observed on nats-server 2.15 and read in its C{conf/lex.go}; several of
them surprise:

  - a number ends only at a space, a line end, a comma, a semicolon or a closing brace;
    anything else makes it the beginning of an unquoted string, so C{[1]} is not an array;
  - a number of four digits and a minus must become a full Zulu datetime, and any other
    number before a minus is an error, so C{10-20} needs quotes;
  - C{2m} is two million; only quotes make it two minutes;
  - escapes work in unquoted strings too, and a single quote ends them;
  - a NUL is the end of the text almost everywhere.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from enum import Enum, auto
from typing import NamedTuple

from natsbroker.config.errors import ConfigError

END = "\0"
"""Stands after the last character."""


class LexemeKind(Enum):
    KEY = auto()
    STRING = auto()
    INTEGER = auto()
    FLOAT = auto()
    BOOLEAN = auto()
    DATETIME = auto()
    VARIABLE = auto()
    INCLUDE = auto()
    MAP_START = auto()
    MAP_END = auto()
    ARRAY_START = auto()
    ARRAY_END = auto()


class Scanned(NamedTuple):
    kind: LexemeKind
    text: str
    end: int


class ScanError(ConfigError):
    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


_BOOLEANS = frozenset({"true", "false", "on", "off", "yes", "no"})
_NUMBER_ENDS = frozenset("\r\n\t };," + END)
_SUFFIXES = frozenset("kKmMgGtTpPeE")
_DIGITS = re.compile(r"\d*")
_UNITS = re.compile(r"[bBiI]*")
_ADDRESS = re.compile(r"[\d.:-]*")
_BARE = re.compile("[^\\\\\r\n\t ;,\\]}'" + END + "]*")
_QUOTED = re.compile('[^\\\\"' + END + "]*")
_LITERAL = re.compile("[^'" + END + "]*")
_BLOCK_END = re.compile("(?<=\n)\\)(?=[\n" + END + "]|\\Z)|" + END)
_HEX = re.compile(r"[0-9A-Fa-f]{2}")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_REST_OF_DATE = "00-00T00:00:00Z"


def scan(text: str, start: int) -> Scanned:
    """Read the value at C{start}, where neither a space nor an opening bracket or brace stands."""
    first = text[start : start + 1] or END
    if first == '"':
        return _quoted(text, start + 1)
    if first == "'":
        return _literal(text, start + 1)
    if first == "(":
        return _block(text, start + 1)
    if first == "-":
        return _negative(text, start)
    if first.isdecimal():
        return _positive(text, start)
    if first == ".":
        raise ScanError("Floats must start with a digit", start + 1)
    if first in "\r\n":
        raise ScanError("Expected value but found new line", start + 1)
    return _bare(text, start, start)


def nameOf(character: str) -> str:
    return {"\n": "\\n", END: "EOF"}.get(character, character)


def _at(text: str, offset: int) -> str:
    return text[offset] if offset < len(text) else END


def _match(pattern: re.Pattern[str], text: str, offset: int) -> int:
    match = pattern.match(text, offset)
    return match.end() if match else offset


def _literal(text: str, start: int) -> Scanned:
    end = _match(_LITERAL, text, start)
    if _at(text, end) == END:
        raise ScanError("Unexpected EOF.", end)
    return Scanned(LexemeKind.STRING, text[start:end], end + 1)


def _quoted(text: str, start: int) -> Scanned:
    parts, end = _escaped(_QUOTED, text, start, start)
    if _at(text, end) == END:
        raise ScanError("Unexpected EOF.", end)
    return Scanned(LexemeKind.STRING, _joined(parts), end + 1)


def _block(text: str, start: int) -> Scanned:
    match = _BLOCK_END.search(text, start)
    if match is None or match.group() == END:
        raise ScanError("Unexpected EOF processing block.", match.end() if match else len(text))
    if match.end() == len(text):
        # The last line of a file keeps its parenthesis when no line end follows.
        return Scanned(LexemeKind.STRING, text[start:], len(text))
    return Scanned(LexemeKind.STRING, text[start : match.start()], match.end())


def _bare(text: str, start: int, offset: int) -> Scanned:
    parts, end = _escaped(_BARE, text, start, offset)
    after = end + 1 if _at(text, end) == "'" else end
    if len(parts) > 1 or after > end:
        return Scanned(LexemeKind.STRING, _joined(parts), after)
    word = parts[0]
    if word.lower() in _BOOLEANS:
        return Scanned(LexemeKind.BOOLEAN, word, end)
    if word.startswith("$"):
        return Scanned(LexemeKind.VARIABLE, word[1:], end)
    return Scanned(LexemeKind.STRING, word, end)


def _escaped(pattern: re.Pattern[str], text: str, start: int, offset: int) -> tuple[list[str], int]:
    parts = []
    end = _match(pattern, text, offset)
    while _at(text, end) == "\\":
        escape, after = _escape(text, end + 1)
        parts += [text[start:end], escape]
        start = after
        end = _match(pattern, text, after)
    parts.append(text[start:end])
    return parts, end


def _escape(text: str, offset: int) -> tuple[str, int]:
    letter = _at(text, offset)
    if letter == "x":
        return _byte(text, offset + 1)
    if letter in _ESCAPES:
        return _ESCAPES[letter], offset + 1
    raise ScanError(
        f"Invalid escape character '{nameOf(letter)}'. Only the following escape characters "
        'are allowed: \\xXX, \\t, \\n, \\r, \\", \\\\.',
        min(offset + 1, len(text)),
    )


def _byte(text: str, offset: int) -> tuple[str, int]:
    digits = text[offset : offset + 2]
    if _HEX.fullmatch(digits):
        return bytes.fromhex(digits).decode("utf-8", "surrogateescape"), offset + 2
    for length, digit in enumerate(digits, start=1):
        if digit in "\r\n":
            message = "Expected two hexadecimal digits after '\\x', but hit end of line"
            raise ScanError(message, offset + length)
    message = f"Expected two hexadecimal digits after '\\x', but got '{digits}'"
    raise ScanError(message, offset + len(digits))


def _joined(parts: list[str]) -> str:
    """Join what C{\\x} wrote byte by byte, so that C{\\xc3\\xa9} is one letter."""
    if len(parts) == 1:
        return parts[0]
    raw = b"".join(part.encode("utf-8", "surrogateescape") for part in parts)
    return raw.decode("utf-8", "surrogateescape")


def _positive(text: str, start: int) -> Scanned:
    end = _match(_DIGITS, text, start)
    following = _at(text, end)
    if following == "-":
        return _datetime(text, start, end + 1)
    if following == ".":
        return _float(text, start, end + 1)
    if following in _SUFFIXES:
        return _sized(text, start, end + 1)
    if following in _NUMBER_ENDS:
        return Scanned(LexemeKind.INTEGER, text[start:end], end)
    return _bare(text, start, end + 1)


def _negative(text: str, start: int) -> Scanned:
    digit = _at(text, start + 1)
    if not digit.isdecimal():
        message = f"Expected a digit but got '{nameOf(digit)}'."
        if digit == ".":
            message = "Floats must start with a digit, not '.'."
        raise ScanError(message, min(start + 2, len(text)))
    end = _match(_DIGITS, text, start + 1)
    following = _at(text, end)
    if following == ".":
        return _float(text, start, end + 1)
    if following in _SUFFIXES:
        return _sized(text, start, end + 1)
    return Scanned(LexemeKind.INTEGER, text[start:end], end)


def _sized(text: str, start: int, offset: int) -> Scanned:
    end = _match(_UNITS, text, offset)
    following = _at(text, end)
    if following in _NUMBER_ENDS or following.isdecimal():
        return Scanned(LexemeKind.INTEGER, text[start:end], end)
    return _bare(text, start, end)


def _float(text: str, start: int, offset: int) -> Scanned:
    digit = _at(text, offset)
    if not digit.isdecimal():
        message = f"Floats must have a digit after the '.', but got '{nameOf(digit)}' instead."
        raise ScanError(message, min(offset + 1, len(text)))
    end = _match(_DIGITS, text, offset)
    if _at(text, end) == ".":
        end = _match(_ADDRESS, text, end)
        return Scanned(LexemeKind.STRING, text[start:end], end)
    return Scanned(LexemeKind.FLOAT, text[start:end], end)


def _datetime(text: str, start: int, offset: int) -> Scanned:
    if offset - start != 5:
        raise ScanError("All ISO8601 dates must be in full Zulu form.", offset)
    for wanted in _REST_OF_DATE:
        got = _at(text, offset)
        offset = min(offset + 1, len(text))
        if not (got.isdecimal() if wanted == "0" else got == wanted):
            what = "digit" if wanted == "0" else f"'{wanted}'"
            message = f"Expected {what} in ISO8601 datetime, but found '{nameOf(got)}' instead."
            raise ScanError(message, offset)
    return Scanned(LexemeKind.DATETIME, text[start:offset], offset)


_SIZED = re.compile(r"(-?[0-9]+)([A-Za-z]*)")
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+")
_LARGEST = 1 << 63
_MOST_DIGITS = 400

_LETTERS = "kmgtpe"
_SIZES = {"": 1}
for _power, _letter in enumerate(_LETTERS, start=1):
    _SIZES[_letter] = 1000**_power
    for _binary in ("b", "i", "ib"):
        _SIZES[_letter + _binary] = 1024**_power


def integerFrom(text: str) -> int:
    """
    Read an integer with an optional size: C{k} is 1000 and C{kb}, C{ki}, C{kib} are
    1024, and so on for C{m g t p e}, in any case.

    @raise ValueError: for anything else, and for what needs more than 64 bits.
    """
    match = _SIZED.fullmatch(text)
    unit = _SIZES.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError("expected integer")
    digits = match[1]
    if len(digits) <= _MOST_DIGITS:
        number = int(digits) * unit
        if -_LARGEST <= number < _LARGEST:
            return number
    raise ValueError("integer is out of the range")


def floatFrom(text: str) -> float:
    if _FLOAT.fullmatch(text) is None:
        raise ValueError("expected float")
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError("float is out of the range")
    return number


def datetimeFrom(text: str) -> datetime:
    try:
        if not text.isascii():
            raise ValueError
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise ValueError("expected Zulu formatted DateTime") from None


def booleanFrom(text: str) -> bool:
    return text.lower() in ("true", "yes", "on")
