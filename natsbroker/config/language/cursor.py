"""
A place in the text of a configuration, and what is open around it.

This module promises the small steps that reading is made of, and errors on the line where
nats-server 2.15 reports them.  It must never know what the language allows where.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, Optional

from natsbroker.config.errors import SyntaxProblem
from natsbroker.config.language.places import Places
from natsbroker.config.language.scalars import END, Kind

MAX_DEPTH = 100
"""How deep braces and brackets may nest."""

Situation = Callable[[], Optional["Situation"]]
"""Reads on and answers what follows; L{None} at the end."""

SPACES = "\t\n\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Go takes for white space, as the inside of a character class."""

SPACE = re.compile(f"[{SPACES}]*")
BLANK = re.compile("[ \t]*")
_COMMENT = re.compile("[^\r\n" + END + "]*")


class Token(NamedTuple):
    """
    A piece of a configuration.

    @ivar offset: where it begins.
    """

    kind: Kind
    text: str
    offset: int


class Cursor:
    """
    Reads a text from its beginning to its end.

    @ivar places: the lines of the text.
    """

    def __init__(self, text: str, source: str) -> None:
        self.places = Places(source, text)
        self._text = text
        self._offset = 0
        self._open: list[Situation] = []
        self._found: list[Token] = []

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

    def _emit(self, kind: Kind) -> None:
        self._found.append(Token(kind, "", self._offset - 1))

    def _enter(self, resume: Situation) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._fail(f"Nested more than {MAX_DEPTH} levels deep.")
        self._open.append(resume)

    def _fail(self, message: str) -> NoReturn:
        place = self.places.reached(self._offset)
        raise SyntaxProblem(f"Parse error on line {place.line}: '{message}'", position=place)
