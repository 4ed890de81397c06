"""
The errors of the JetStream API: their texts, and the numbers by which clients tell them apart.

C{code} follows HTTP and says how a client should react. C{err_code} names the cause. C{errors.txt}
has a line for each error of nats-server: its name here, both numbers, and the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

_BLANK = re.compile(r"\{(\w+)\}")


class JetStreamError(Exception):
    """
    A request that the API answers with an error.

    @ivar code: the class of the error, as an HTTP status.
    @ivar err_code: the cause.
    @ivar description: the text for a person.
    @ivar traced: what traces of messages show instead of the description and the cause; empty for
        those.
    """

    traced = ""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description

    def toJSON(self) -> dict[str, Any]:
        """The error as answers show it, in the order of the wire."""
        answer: dict[str, Any] = {"code": self.code}
        if self.err_code:
            answer["err_code"] = self.err_code
        if self.description:
            answer["description"] = self.description
        return answer


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """
    One cause of an error. Calling it makes the exception.

    @ivar text: the description; a word in braces is the place of an argument.
    """

    code: int
    err_code: int
    text: str

    def __call__(self, **values: object) -> JetStreamError:
        """
        Make the exception, to be raised or encoded.

        @param values: one for each word in braces.
        @return: the exception, to be raised or encoded.
        """
        text = _BLANK.sub(lambda match: str(values[match[1]]), self.text)
        return JetStreamError(self.code, self.err_code, text)


_TABLE = files(__package__).joinpath("errors.txt").read_text("ascii")

globals().update(
    (name, ErrorRow(int(code), int(cause), text))
    for name, code, cause, text in (line.split(" ", 3) for line in _TABLE.splitlines())
)


def __getattr__(name: str) -> ErrorRow:
    """The type of the rows, for mypy, which knows no other attributes."""
    raise AttributeError(f"there is no error {name}")
