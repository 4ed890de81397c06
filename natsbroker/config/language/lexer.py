"""
The text of a configuration as a run of tokens.

This module promises keys, values and brackets with their offsets, or a L{SyntaxProblem}
on the line where nats-server 2.15 reports one.  It must never know keys by name (except
the word C{include}), variables or files.

An opening brace where a key is expected does not make a map: the keys inside belong to
the table around it, which is how a JSON document reads.

The rules were observed on nats-server 2.15 and read in its C{conf/lex.go}.
"""

from __future__ import annotations

from collections.abc import Iterator

from natsbroker.config.language.cursor import BLANK, SPACE, Situation, Token
from natsbroker.config.language.nested import Nested
from natsbroker.config.language.scalars import END, shown


class Lexer(Nested):
    """
    Cuts one text into tokens.
    """

    def __iter__(self) -> Iterator[Token]:
        """
        Yield the tokens in order.

        @raise SyntaxProblem: where the text leaves the language.
        """
        situation: Situation | None = self._beforeEntry
        while situation is not None:
            situation = situation()
            yield from self._found
            self._found.clear()

    def _beforeEntry(self) -> Situation | None:
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

    def _afterEntry(self) -> Situation:
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
            f"but got '{shown(character)}' instead."
        )

    def _beforeBlockEntry(self) -> Situation | None:
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

    def _afterBlockEntry(self) -> Situation:
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
            f"but got '{shown(character)}' instead."
        )

    def _afterBlock(self) -> Situation:
        if self._skippedComment():
            return self._beforeBlockEntry
        character = self._take()
        if character in "\r\n\t /":
            return self._afterBlock
        if character in ";,":
            return self._beforeBlockEntry
        if character == "}":
            return self._open.pop()
        got = shown(character)
        self._fail(f"Expected a block-level to end with a '}}', but got '{got}' instead.")

    def _ended(self) -> bool:
        """
        Tell whether the text ends here, where a key could begin.
        """
        if self._offset >= len(self._text):
            return True
        if self._peek() in "/" + END:
            self._offset += 1
            self._fail("Unexpected EOF.")
        return False

    def _beforeKey(self) -> Situation | None:
        first = self._peek()
        if first in "=:":
            self._fail(f"Unexpected key separator '{first}'")
        if first in "\"'":
            self._quotedKey("Unexpected EOF.")
            return self._afterKey
        start = self._offset
        self._skipKey()
        return self._keyOrInclude(start, self._afterKey)

    def _afterKey(self) -> Situation | None:
        self._skip(SPACE)
        if self._peek() == END:
            return None
        self._skippedSeparator()
        return self._beforeValue
