"""
From a text to lexemes, each with its offset; and from offsets to lines and columns.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn, Optional

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
"""How deep braces and brackets may nest."""

State = Callable[[], Optional["State"]]
"""Reads on and answers what follows; C{None} at the end."""

SPACES = r"\t\n\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Go takes for white space, as the inside of a character class."""

SPACE = re.compile(f"[{SPACES}]*")
BLANK = re.compile("[ \t]*")
_COMMENT = re.compile("[^\r\n" + END + "]*")


class Lexeme(NamedTuple):
    kind: LexemeKind
    text: str
    offset: int


class Cursor:
    def __init__(self, text: str, source: str) -> None:
        self.places = LineIndex(source, text)
        self._text = text
        self._offset = 0
        self._open: list[State] = []
        self._found: list[Lexeme] = []

    def _peek(self) -> str:
        return self._text[self._offset] if self._offset < len(self._text) else END

    def _take(self) -> str:
        character = self._peek()
        self._offset = min(self._offset + 1, len(self._text))
        return character

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._offset)
        if found is None:
            return ""
        self._offset = found.end()
        return found.group()

    def _skippedComment(self) -> bool:
        if self._peek() == "#" or self._text.startswith("//", self._offset):
            self._skip(_COMMENT)
            return True
        return False

    def _skippedSeparator(self) -> None:
        if self._peek() in "=:":
            self._offset += 1

    def _emit(self, kind: LexemeKind) -> None:
        self._found.append(Lexeme(kind, "", self._offset - 1))

    def _enter(self, resume: State) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._fail(f"Nested more than {MAX_DEPTH} levels deep.")
        self._open.append(resume)

    def _fail(self, message: str) -> NoReturn:
        place = self.places.reached(self._offset)
        raise SyntaxProblem(f"Parse error on line {place.line}: '{message}'", position=place)


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


class Nested(Cursor):
    def _beforeValue(self) -> State:
        self._skip(BLANK)
        first = self._peek()
        if first == "[":
            self._offset += 1
            self._emit(LexemeKind.ARRAY_START)
            return self._beforeItem
        if first == "{":
            self._offset += 1
            self._emit(LexemeKind.MAP_START)
            return self._beforeMapEntry
        self._scanned()
        return self._open.pop()

    def _scanned(self) -> None:
        try:
            kind, text, end = scan(self._text, self._offset)
        except ScanError as error:
            self._offset = error.offset
            self._fail(error.message)
        self._found.append(Lexeme(kind, text, self._offset))
        self._offset = end

    def _beforeMapEntry(self) -> State:
        self._skip(SPACE)
        if self._skippedComment():
            return self._beforeMapEntry
        first = self._peek()
        if first == "}":
            return self._endOfMap()
        if first in "\"'":
            kind = "double quoted" if first == '"' else "quoted"
            self._quotedKey(f"Unexpected EOF processing {kind} map key.")
            self._enter(self._afterMapEntry)
            return self._afterMapKey
        if first in "=:":
            self._fail(f"Unexpected key separator '{first}'.")
        if first == "]":
            self._fail(f"Unexpected array end '{first}' processing map.")
        if first == END:
            self._fail("Unexpected EOF processing map.")
        return self._bareMapKey()

    def _bareMapKey(self) -> State:
        if self._peek() == "/":  # a single one before a key is no part of the key
            self._offset += 1
        start = self._offset
        self._skipKey()
        if self._peek() == END:
            self._fail("Unexpected EOF processing map key.")
        self._enter(self._afterMapEntry)
        return self._keyOrInclude(start, self._afterMapKey)

    def _afterMapKey(self) -> State:
        self._skip(SPACE)
        self._skippedSeparator()
        self._skip(SPACE)
        first = self._peek()
        if first == ",":
            self._offset += 1
            self._fail('Unexpected map value terminator ",".')
        if first == "}":
            self._offset += 1
            self._fail("Expected a value but found the end of the map.")
        return self._beforeValue

    def _afterMapEntry(self) -> State:
        self._skip(BLANK)
        if self._skippedComment():
            return self._afterMapEntry
        character = self._take()
        if character in "\r\n;,/":
            return self._beforeMapEntry
        if character == "}":
            self._offset -= 1
            return self._endOfMap()
        self._fail(
            'Expected a map value terminator "," or a map terminator "}", '
            f"but got '{nameOf(character)}' instead."
        )

    def _endOfMap(self) -> State:
        self._offset += 1
        self._emit(LexemeKind.MAP_END)
        return self._open.pop()

    def _beforeItem(self) -> State:
        self._skip(SPACE)
        if self._skippedComment():
            return self._beforeItem
        first = self._peek()
        if first == "]":
            return self._endOfArray()
        if first in "/,":
            self._offset += 1
            self._fail("Unexpected array value terminator ','.")
        self._enter(self._afterItem)
        return self._beforeValue

    def _afterItem(self) -> State:
        self._skip(BLANK)
        if self._skippedComment():
            return self._afterItem
        character = self._take()
        if character in "\r\n,/":
            return self._beforeItem
        if character == "]":
            self._offset -= 1
            return self._endOfArray()
        self._fail(
            'Expected an array value terminator "," or an array terminator "]", '
            f"but got '{nameOf(character)}' instead."
        )

    def _endOfArray(self) -> State:
        self._offset += 1
        self._emit(LexemeKind.ARRAY_END)
        return self._open.pop()

    def _skipKey(self) -> None:
        self._take()
        self._skip(_KEY)

    def _quotedKey(self, unfinished: str) -> None:
        quote = self._take()
        start = self._offset
        end = self._text.find(quote, start)
        nul = self._text.find(END, start, end if end >= 0 else len(self._text))
        if end < 0 or nul >= 0:
            self._offset = nul if nul >= 0 else len(self._text)
            self._fail(unfinished)
        self._offset = end + 1
        self._found.append(Lexeme(LexemeKind.KEY, self._text[start:end], start - 1))

    def _keyOrInclude(self, start: int, following: State) -> State:
        """
        Take what was just read for a key, or for the word C{include} before a path.
        """
        key = self._text[start : self._offset]
        if key.lower() == "include" and self._skip(SPACE):
            self._offset = start + len(key)
            return self._beforePath
        self._found.append(Lexeme(LexemeKind.KEY, key, start))
        return following

    def _beforePath(self) -> State:
        self._skip(BLANK)
        first = self._peek()
        if first in _NOT_A_PATH or first.isdecimal():
            self._offset += 1
            what = _NOT_A_PATH.get(first, "start of a number")
            self._fail(f"Expected include value but found {what}")
        start = self._offset
        path = self._quotedPath() if first in "\"'" else self._skip(_PATH)
        self._found.append(Lexeme(LexemeKind.INCLUDE, path, start))
        if first not in "\"'" and self._peek() == "'":
            self._offset += 1
        return self._open.pop()

    def _quotedPath(self) -> str:
        quote = self._take()
        path = self._skip(_QUOTED_PATH[quote])
        if self._take() != quote:
            kind = "double quoted" if quote == '"' else "quoted"
            self._fail(f"Unexpected EOF in {kind} include")
        return path


class Lexer(Nested):
    def __iter__(self) -> Iterator[Lexeme]:
        """
        @raise SyntaxProblem: where the text leaves the language.
        """
        state: State | None = self._beforeEntry
        while state is not None:
            state = state()
            yield from self._found
            self._found.clear()

    def _beforeEntry(self) -> State | None:
        self._skip(SPACE)
        if self._skippedComment():
            return self._beforeEntry
        if self._peek() == "{":
            self._offset += 1
            self._enter(self._beforeEntry)
            return self._beforeBlockEntry
        if self._ended():
            return None
        self._enter(self._afterEntry)
        return self._beforeKey

    def _afterEntry(self) -> State:
        self._skip(BLANK)
        if self._skippedComment():
            return self._beforeEntry
        character = self._take()
        if character == "/":
            return self._afterEntry
        if character in "\r\n;,}" + END:
            return self._beforeEntry
        self._fail(
            "Expected a top-level value to end with a new line, comment or EOF, "
            f"but got '{nameOf(character)}' instead."
        )

    def _beforeBlockEntry(self) -> State | None:
        self._skip(SPACE)
        if self._skippedComment():
            return self._beforeBlockEntry
        if self._peek() == "{":
            self._offset += 1
            self._enter(self._afterBlock)
            return self._beforeBlockEntry
        if self._peek() == "}":
            self._offset += 1
            return self._open.pop()
        if self._ended():
            return None
        self._enter(self._afterBlockEntry)
        return self._beforeKey

    def _afterBlockEntry(self) -> State:
        self._skip(BLANK)
        if self._skippedComment():
            return self._afterBlockEntry
        if self._peek() == "}":
            return self._afterBlock
        character = self._take()
        if character == "/":
            return self._afterBlockEntry
        if character in "\r\n;,":
            return self._beforeBlockEntry
        self._fail(
            "Expected a block-level value to end with a new line, comment or EOF, "
            f"but got '{nameOf(character)}' instead."
        )

    def _afterBlock(self) -> State:
        if self._skippedComment():
            return self._beforeBlockEntry
        character = self._take()
        if character in "\r\n\t /":
            return self._afterBlock
        if character in ";,":
            return self._beforeBlockEntry
        if character == "}":
            return self._open.pop()
        got = nameOf(character)
        self._fail(f"Expected a block-level to end with a '}}', but got '{got}' instead.")

    def _ended(self) -> bool:
        if self._offset >= len(self._text):
            return True
        if self._peek() in "/" + END:
            self._offset += 1
            self._fail("Unexpected EOF.")
        return False

    def _beforeKey(self) -> State | None:
        first = self._peek()
        if first in "=:":
            self._fail(f"Unexpected key separator '{first}'")
        if first in "\"'":
            self._quotedKey("Unexpected EOF.")
            return self._afterKey
        start = self._offset
        self._skipKey()
        return self._keyOrInclude(start, self._afterKey)

    def _afterKey(self) -> State | None:
        self._skip(SPACE)
        if self._peek() == END:
            return None
        self._skippedSeparator()
        return self._beforeValue
