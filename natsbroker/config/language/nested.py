"""
What stands behind a key: a single value, a map, an array.

This module promises the tokens of one value, whatever is inside of it, and of the keys
that lead to it.  It must never know the top of a file.

Each method named C{_before...} or C{_after...} is a situation: what may come next there.
It reads on, and answers which situation follows.
"""

from __future__ import annotations

import re

from natsbroker.config.language.cursor import BLANK, SPACE, SPACES, Cursor, Situation, Token
from natsbroker.config.language.scalars import END, Kind, ScanError, scan, shown

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
    """
    Reads values.
    """

    def _beforeValue(self) -> Situation:
        self._skip(BLANK)
        first = self._peek()
        if first == "[":
            self._offset += 1
            self._emit(Kind.ARRAY_START)
            return self._beforeItem
        if first == "{":
            self._offset += 1
            self._emit(Kind.MAP_START)
            return self._beforeMapEntry
        self._scanned()
        return self._open.pop()

    def _scanned(self) -> None:
        try:
            kind, text, end = scan(self._text, self._offset)
        except ScanError as error:
            self._offset = error.offset
            self._fail(error.message)
        self._found.append(Token(kind, text, self._offset))
        self._offset = end

    def _beforeMapEntry(self) -> Situation:
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

    def _bareMapKey(self) -> Situation:
        if self._peek() == "/":  # a single one before a key is no part of the key
            self._offset += 1
        start = self._offset
        self._skipKey()
        if self._peek() == END:
            self._fail("Unexpected EOF processing map key.")
        self._enter(self._afterMapEntry)
        return self._keyOrInclude(start, self._afterMapKey)

    def _afterMapKey(self) -> Situation:
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

    def _afterMapEntry(self) -> Situation:
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
            f"but got '{shown(character)}' instead."
        )

    def _endOfMap(self) -> Situation:
        self._offset += 1
        self._emit(Kind.MAP_END)
        return self._open.pop()

    def _beforeItem(self) -> Situation:
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

    def _afterItem(self) -> Situation:
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
            f"but got '{shown(character)}' instead."
        )

    def _endOfArray(self) -> Situation:
        self._offset += 1
        self._emit(Kind.ARRAY_END)
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
        self._found.append(Token(Kind.KEY, self._text[start:end], start - 1))

    def _keyOrInclude(self, start: int, following: Situation) -> Situation:
        """
        Take what was just read for a key, or for the word C{include} before a path.
        """
        key = self._text[start : self._offset]
        if key.lower() == "include" and self._skip(SPACE):
            self._offset = start + len(key)
            return self._beforePath
        self._found.append(Token(Kind.KEY, key, start))
        return following

    def _beforePath(self) -> Situation:
        self._skip(BLANK)
        first = self._peek()
        if first in _NOT_A_PATH or first.isdecimal():
            self._offset += 1
            what = _NOT_A_PATH.get(first, "start of a number")
            self._fail(f"Expected include value but found {what}")
        start = self._offset
        path = self._quotedPath() if first in "\"'" else self._skip(_PATH)
        self._found.append(Token(Kind.INCLUDE, path, start))
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
