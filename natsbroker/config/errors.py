"""
Errors of a configuration. Each has its file, line, column and dotted path, and its text is one
line, in nats-server's words for an unknown key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """
    @ivar line: 1 for the first; 0 when the error belongs to no line.
    @ivar column: in characters, 1 for the first.
    """

    source: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if self.line == 0:
            return self.source
        return f"{self.source}:{self.line}:{self.column}"


OPEN = "is empty: everybody would be let in"
"""The error of an empty user, password or token, as from an empty variable."""

NO_PASSWORD = "a user needs a password: without one, an empty password would be let in"
NO_USER = "a password needs a user: without one, everybody would be let in"

REACHED_PAGES = (
    "other machines reach the monitoring pages on {}, which have no login; "
    'bind them to an address with "http", or say "insecure_monitor: true" if that is meant'
)

NOWHERE = Position()
"""The position of settings that do not come from a file."""


_LONGEST_TEXT = 1000


def oneLine(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + "..."
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


class ConfigError(Exception):
    """
    @ivar path: of the key, as C{accounts.A.users[1].permissions}; empty for an error of the syntax.
    """

    def __init__(self, message: str, path: str = "", position: Position = NOWHERE) -> None:
        super().__init__(message, path, position)
        self.message = message
        self.path = path
        self.position = position

    def describe(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def __str__(self) -> str:
        place = str(self.position)
        text = f"{place}: {self.describe()}" if place else self.describe()
        return oneLine(text)


class SyntaxProblem(ConfigError):
    """The text is not in the configuration language."""


def nearest(name: str, known: Iterable[str]) -> str:
    """
    @return: the known name that a misspelt one is most like; empty if it is like none.
    """
    from difflib import get_close_matches

    matches = get_close_matches(name.lower(), list(known), 1, 0.7)
    return matches[0] if matches else ""


class UnknownField(ConfigError):
    def __init__(
        self, field: str, path: str, position: Position, known: Iterable[str] = ()
    ) -> None:
        """
        @param known: the names of the fields that exist.
        """
        super().__init__(f'unknown field "{field}"', path, position)
        self.field = field
        self.known = tuple(known)

    def describe(self) -> str:
        section = self.path[: -len(self.field) - 1]
        text = f"{self.message} in {section}" if section else self.message
        near = nearest(self.field, self.known)
        return f'{text}, did you mean "{near}"?' if near else text


class NotSupportedYet(ConfigError):
    """A key or a flag that the broker knows but whose feature is not built."""


class ConfigErrors(ConfigError):
    def __init__(self, errors: Iterable[ConfigError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.message, first.path, first.position)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)
