"""
The names of streams and consumers, and the subjects of their configurations: these are text, while
the grammar of subjects works on bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from natsbroker.subjects import grammar

MOST_NAME: Final = 255
MOST_DESCRIPTION: Final = 4096
MOST_METADATA: Final = 131_072

#: The subjects, and the tokens of one, for which a regular expression is worth its compilation.
_COMPILED = 16

_FORBIDDEN = re.compile(r"[ \t\r\n\f.*>\\/]")
_GROUP = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")


def isValidName(name: str) -> bool:
    return bool(name) and _FORBIDDEN.search(name) is None


def isValidGroup(group: str) -> bool:
    return _GROUP.fullmatch(group) is not None


def hasPathSeparator(name: str) -> bool:
    """Whether a name could lead out of a directory."""
    return "/" in name or "\\" in name


def isValidSubjectText(subject: str) -> bool:
    """Whether the text is a subject, perhaps with wildcards."""
    return grammar.isValidSubject(subject.encode())


def isLiteralSubject(subject: str) -> bool:
    """Whether the text has no wildcard. Its validity is not looked at."""
    return not grammar.hasWildcard(subject.encode())


def subjectsOverlap(one: str, other: str) -> bool:
    """Whether some message matches both subjects."""
    return grammar.overlaps(one.encode(), other.encode())


def overlapping(subjects: Sequence[str]) -> Callable[[str], object]:
    """A quick test for a valid subject that overlaps with one of many streams' subjects."""
    tokens = [subject.split(".") for subject in subjects]
    if len(tokens) > _COMPILED or any(len(token) > _COMPILED for token in tokens):
        return lambda theirs: any(subjectsOverlap(ours, theirs) for ours in subjects)
    return re.compile("|".join(map(_overlapPattern, tokens)) or "(?!)", re.DOTALL).match


def _overlapPattern(tokens: list[str]) -> str:
    """A regular expression for the subjects that overlap with one."""
    if tokens == [">"]:
        return ".+"
    first = r"[^.]+" if tokens[0] == "*" else rf"(?:{re.escape(tokens[0])}|\*)"
    rest = r"\Z"
    if len(tokens) > 1:
        rest = r"\." + _overlapPattern(tokens[1:])
    return rf"(?:>\Z|{first}{rest})"


def isSubsetSubject(narrow: str, wide: str) -> bool:
    """Whether every message that matches the first subject matches the second."""
    return grammar.isSubset(narrow.encode(), wide.encode())


def metadataSize(metadata: Mapping[str, str]) -> int:
    """The bytes of the keys and values."""
    return len("".join(metadata).encode()) + len("".join(metadata.values()).encode())
