"""
What requests under C{$NB.API.>} say.

A field that is not understood, missing, or out of its bounds is refused by its name.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from natsbroker.export.texts import BAD_REQUEST, Refusal

__all__ = ["LARGEST", "RequestFields"]

#: The largest sequence, and the latest time in nanoseconds.
LARGEST = (1 << 63) - 1


class RequestFields:
    """
    The fields of one request.
    """

    def __init__(self, payload: bytes, known: Collection[str]) -> None:
        """
        @param payload: a JSON object, or nothing.
        @param known: the names that may be there.
        @raise Refusal: if it is something else.
        """
        self._fields: dict[str, Any] = {}
        if payload:
            try:
                self._fields = json.loads(payload)
            except (ValueError, RecursionError):
                raise _bad("a JSON object is expected") from None
        if not isinstance(self._fields, dict):
            raise _bad("a JSON object is expected")
        for name in self._fields:
            if name not in known:
                raise _bad(f"there is no field {name!r}")

    def number(
        self, name: str, least: int = 0, most: int = LARGEST, default: int | None = None
    ) -> int:
        """
        A whole number.

        @param default: of a field that is not there; C{None} if it must be.
        """
        value = self._fields.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _bad(f"{name} must be a whole number from {least} to {most}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """
        A text.
        """
        value = self._fields.get(name, default)
        if not isinstance(value, str) or not _isUnicode(value):
            raise _bad(f"{name} must be a text")
        return value

    def words(self, name: str, choice: Collection[str]) -> frozenset[str]:
        """
        Some of several words; all if the field is not there.
        """
        value = self._fields.get(name, list(choice))
        if not isinstance(value, list) or any(each not in choice for each in value):
            raise _bad(f"{name} must be a list of: {', '.join(choice)}")
        return frozenset(value)

    def __contains__(self, name: str) -> bool:
        return name in self._fields


def _isUnicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _bad(why: str) -> Refusal:
    return Refusal(BAD_REQUEST, why=why)
