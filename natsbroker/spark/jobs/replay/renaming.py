"""
Subjects of what is replayed, and what they become.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.subjects.renaming import numbered
from natsbroker.subjects.transforms import InvalidMapping, SubjectTransform

__all__ = ["Renamer"]


class Renamer:
    """
    Mappings such as C{orders.>=replay.orders.>}; the first that matches counts, and what none
    matches stays.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """
        @raise OptionError: if one cannot be.
        """
        self._transforms = [_read(each) for each in texts]
        self._find = lru_cache(4096)(self._found)

    def __call__(self, subject: str) -> str:
        """
        What a subject becomes.

        @raise DataSourceError: if it becomes none.
        """
        return self._find(subject) if self._transforms else subject

    def _found(self, subject: str) -> str:
        for each in self._transforms:
            made = each.apply(subject.encode("utf-8"), lambda below: 0)
            if made is not None:
                if not made:
                    shown = each.destination.decode("utf-8", "replace")
                    raise DataSourceError(f"{shown} makes no subject of {subject}")
                return made.decode("utf-8")
        return subject


def _read(text: str) -> SubjectTransform:
    source, equals, destination = text.partition("=")
    if not equals:
        raise OptionError(f"map: OLD=NEW expected, not {text!r}")
    try:
        found = SubjectTransform(source.encode("utf-8"), numbered(destination.encode("utf-8")))
    except InvalidMapping as error:
        raise OptionError(f"map: {text}: {error}") from None
    if found.isRandom:
        raise OptionError(f"map: {text}: a subject must always become the same one")
    return found
