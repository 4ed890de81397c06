"""
From a text to lexemes, each with its offset; and from offsets to lines and columns.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from natsbroker.config.errors import Position, SyntaxProblem
from natsbroker.config.language.scalars import END, LexemeKind, ScanError, nameOf, scan


class LineIndex:
    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self._starts = [0]
        offset = text.find("\n")
        while offset >= 0:
            self._starts.append(offset + 1)
            offset = text.find("\n", offset + 1)

    def at(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset)
        return Position(self.source, line, offset - self._starts[line - 1] + 1)

    def reached(self, offset: int) -> Position:
        """
        Locate an error that showed when everything before C{offset} had been read.

        The column is that of the last character read.  When that one ended a line, the
        next line is named, as nats-server does.
        """
        place = self.at(offset)
        return Position(place.source, place.line, max(1, place.column - 1))


MAX_DEPTH = 100
"""The greatest depth of braces and brackets."""

SPACES = r"\t\n\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space by the rules of Go, as the inside of a character class."""

SPACE = re.compile(f"[{SPACES}]*")
BLANK = re.compile("[ \t]*")
_COMMENT = re.compile("[^\r\n" + END + "]*")


class Lexeme(NamedTuple):
    kind: LexemeKind
    text: str
    offset: int


_KEY = re.compile(f"[^{SPACES}=:{END}]*")
_PATH = re.compile("[^\r\n\t ;}'" + END + "]*")
_QUOTED_PATH = {quote: re.compile(f"[^{quote}{END}]*") for quote in "\"'"}
_NOT_A_PATH = {
    "[": "start of an array",
    "{": "start of a map",
    "(": "start of a block",
    "-": "start of a number",
    "\\": "escape sequence",
    "\r": "new line",
    "\n": "new line",
}
_TOP_END = "Expected a top-level value to end with a new line, comment or EOF"
_BLOCK_END = "Expected a block-level value to end with a new line, comment or EOF"
_MAP_END = 'Expected a map value terminator "," or a map terminator "}"'
_ARRAY_END = 'Expected an array value terminator "," or an array terminator "]"'


class _Ended(Exception):
    """
    The text ends within braces without a key, or before the value of a key. Neither is an error.
    """


class Lexer:
    def __init__(self, text: str, source: str) -> None:
        self.places = LineIndex(source, text)
        self._text = text
        self._offset = 0
        self._depth = 0

    def __iter__(self) -> Iterator[Lexeme]:
        try:
            while True:
                self._skipSpace()
                if self._peek() == "{":
                    yield from self._block()
                else:
                    self._checkEnd()
                    yield from self._entry()
                    self._terminator("\r\n;,}" + END, _TOP_END, isTop=True)
        except _Ended:
            return

    def _peek(self) -> str:
        return self._text[self._offset] if self._offset < len(self._text) else END

    def _take(self) -> str:
        character = self._peek()
        self._offset = min(self._offset + 1, len(self._text))
        return character

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._offset)
        if match is None:
            return ""
        self._offset = match.end()
        return match.group()

    def _skippedComment(self) -> bool:
        if self._peek() == "#" or self._text.startswith("//", self._offset):
            self._skip(_COMMENT)
            return True
        return False

    def _skipSpace(self) -> None:
        self._skip(SPACE)
        while self._skippedComment():
            self._skip(SPACE)

    def _skipSeparator(self) -> None:
        self._skip(SPACE)
        if self._peek() in "=:":
            self._offset += 1

    def _enter(self) -> None:
        if self._depth >= MAX_DEPTH:
            self._fail(f"Nested more than {MAX_DEPTH} levels deep.")
        self._depth += 1

    def _fail(self, message: str) -> NoReturn:
        place = self.places.reached(self._offset)
        raise SyntaxProblem(f"Parse error on line {place.line}: '{message}'", position=place)

    def _mark(self, kind: LexemeKind) -> Lexeme:
        self._offset += 1
        return Lexeme(kind, "", self._offset - 1)

    def _checkEnd(self) -> None:
        if self._offset >= len(self._text):
            raise _Ended
        if self._peek() in "/" + END:
            self._offset += 1
            self._fail("Unexpected EOF.")

    def _terminator(self, ends: str, expected: str, isTop: bool = False) -> str:
        while True:
            self._skip(BLANK)
            if self._skippedComment():
                if isTop:
                    return "\n"
                continue
            character = self._take()
            if character in ends:
                return character
            if character != "/":
                self._fail(f"{expected}, but got '{nameOf(character)}' instead.")

    def _block(self) -> Iterator[Lexeme]:
        """Read braces that are not a map: their keys belong to the top level."""
        self._offset += 1
        self._enter()
        isOpen = True
        while isOpen:
            self._skipSpace()
            if self._peek() == "{":
                yield from self._block()
                isOpen = self._isOpenAfterBlock()
            elif self._peek() == "}":
                self._offset += 1
                isOpen = False
            else:
                self._checkEnd()
                yield from self._entry()
                isOpen = self._terminator("\r\n;,}", _BLOCK_END) != "}"
        self._depth -= 1

    def _isOpenAfterBlock(self) -> bool:
        while not self._skippedComment():
            character = self._take()
            if character in ";,":
                return True
            if character == "}":
                return False
            if character not in "\r\n\t /":
                got = nameOf(character)
                self._fail(f"Expected a block-level to end with a '}}', but got '{got}' instead.")
        return True

    def _entry(self) -> Iterator[Lexeme]:
        self._enter()
        first = self._peek()
        if first in "=:":
            self._fail(f"Unexpected key separator '{first}'")
        key = self._quotedKey("Unexpected EOF.") if first in "\"'" else self._bareKey()
        yield key
        if key.kind is LexemeKind.INCLUDE:
            self._depth -= 1
            return
        self._skip(SPACE)
        if self._peek() == END:
            raise _Ended
        self._skipSeparator()
        yield from self._value()

    def _value(self) -> Iterator[Lexeme]:
        self._skip(BLANK)
        first = self._peek()
        if first == "[":
            yield from self._array()
        elif first == "{":
            yield from self._map()
        else:
            yield self._scanned()
        self._depth -= 1

    def _scanned(self) -> Lexeme:
        start = self._offset
        try:
            kind, text, self._offset = scan(self._text, start)
        except ScanError as error:
            self._offset = error.offset
            self._fail(error.message)
        return Lexeme(kind, text, start)

    def _array(self) -> Iterator[Lexeme]:
        yield self._mark(LexemeKind.ARRAY_START)
        while True:
            self._skipSpace()
            if self._peek() == "]":
                self._offset += 1
                break
            if self._peek() in "/,":
                self._offset += 1
                self._fail("Unexpected array value terminator ','.")
            self._enter()
            yield from self._value()
            if self._terminator("\r\n,/]", _ARRAY_END) == "]":
                break
        yield Lexeme(LexemeKind.ARRAY_END, "", self._offset - 1)

    def _map(self) -> Iterator[Lexeme]:
        yield self._mark(LexemeKind.MAP_START)
        while True:
            self._skipSpace()
            if self._peek() == "}":
                self._offset += 1
                break
            key = self._mapKey()
            self._enter()
            yield key
            if key.kind is LexemeKind.INCLUDE:
                self._depth -= 1
            else:
                yield from self._mapValue()
            if self._terminator("\r\n;,/}", _MAP_END) == "}":
                break
        yield Lexeme(LexemeKind.MAP_END, "", self._offset - 1)

    def _mapKey(self) -> Lexeme:
        first = self._peek()
        if first in "\"'":
            kind = "double quoted" if first == '"' else "quoted"
            return self._quotedKey(f"Unexpected EOF processing {kind} map key.")
        if first in "=:":
            self._fail(f"Unexpected key separator '{first}'.")
        if first == "]":
            self._fail(f"Unexpected array end '{first}' processing map.")
        if first == END:
            self._fail("Unexpected EOF processing map.")
        if first == "/":  # a single one before a key is no part of the key
            self._offset += 1
        return self._bareKey("Unexpected EOF processing map key.")

    def _mapValue(self) -> Iterator[Lexeme]:
        self._skipSeparator()
        self._skip(SPACE)
        first = self._peek()
        if first == ",":
            self._offset += 1
            self._fail('Unexpected map value terminator ",".')
        if first == "}":
            self._offset += 1
            self._fail("Expected a value but found the end of the map.")
        yield from self._value()

    def _quotedKey(self, unfinished: str) -> Lexeme:
        quote = self._take()
        start = self._offset
        end = self._text.find(quote, start)
        nul = self._text.find(END, start, end if end >= 0 else len(self._text))
        if end < 0 or nul >= 0:
            self._offset = nul if nul >= 0 else len(self._text)
            self._fail(unfinished)
        self._offset = end + 1
        return Lexeme(LexemeKind.KEY, self._text[start:end], start - 1)

    def _bareKey(self, unfinished: str = "") -> Lexeme:
        """
        Read a key, or the word C{include} and its path.

        @param unfinished: the error for a text that ends with the key; empty if it may.
        """
        start = self._offset
        self._take()
        self._skip(_KEY)
        if unfinished and self._peek() == END:
            self._fail(unfinished)
        key = self._text[start : self._offset]
        if key.lower() == "include" and self._skip(SPACE):
            self._offset = start + len(key)
            return self._path()
        return Lexeme(LexemeKind.KEY, key, start)

    def _path(self) -> Lexeme:
        self._skip(BLANK)
        first = self._peek()
        if first in _NOT_A_PATH or first.isdecimal():
            self._offset += 1
            what = _NOT_A_PATH.get(first, "start of a number")
            self._fail(f"Expected include value but found {what}")
        start = self._offset
        if first in _QUOTED_PATH:
            self._take()
            path = self._skip(_QUOTED_PATH[first])
            if self._take() != first:
                kind = "double quoted" if first == '"' else "quoted"
                self._fail(f"Unexpected EOF in {kind} include")
        else:
            path = self._skip(_PATH)
            if self._peek() == "'":
                self._offset += 1
        return Lexeme(LexemeKind.INCLUDE, path, start)
