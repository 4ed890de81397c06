"""
Topics of MQTT as subjects of NATS, and back, as nats-server maps them.

A level is a token: C{/} becomes C{.}, C{+} C{*} and C{#} C{>}. An empty level becomes the token
C{/}, and a dot within a level C{//}. A topic with blanks, control characters, or a level that is a
wildcard of NATS has no subject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from natsbroker.subjects.grammar import isValidLiteral, isValidSubject

#: The beginning of the filter of a shared subscription, which its group and its own filter follow.
_SHARED = "$share/"

_EMPTY, _DOT = "/", "//"

_WILDCARDS = {"+": "*", "#": ">"}


class TopicError(ValueError):
    """A topic or filter that breaks the rules of MQTT, or has no subject."""


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """
    @ivar subjects: to subscribe to: one, or two for a filter that ends with C{#}, which means the
        level above it too.
    @ivar group: the queue group of a shared subscription; empty for others.
    """

    subjects: tuple[bytes, ...]
    group: bytes = b""

    @property
    def hidesReserved(self) -> bool:
        """Whether topics that begin with a dollar do not match, as the first level is any."""
        return self.subjects[0][:1] in (b"*", b">")


def subjectOf(topic: str) -> bytes:
    """
    @param topic: without wildcards.
    @raise TopicError: for a topic without a subject.
    """
    subject = _joined([_token(level) for level in topic.split("/")])
    if not isValidLiteral(subject):
        raise TopicError("a topic with blanks, control characters or wildcards of NATS")
    return subject


def filterOf(text: str, mayShare: bool = True) -> TopicFilter:
    """
    @param mayShare: whether C{$share/GROUP/FILTER} is a shared subscription.
    @raise TopicError: for a filter that is malformed, or has no subject.
    """
    group = ""
    if mayShare and text.startswith(_SHARED):
        group, _, text = text[len(_SHARED) :].partition("/")
        if not group or not isValidLiteral(group.encode()) or set(group) & set("+#"):
            raise TopicError("a shared subscription without the name of its group")
    if not text:
        raise TopicError("an empty filter")
    subject = _joined(_filterTokens(text.split("/")))
    if not isValidSubject(subject):
        raise TopicError("a filter with blanks or control characters")
    above = (subject[: -len(b".>")],) if subject.endswith(b".>") else ()
    return TopicFilter((subject, *above), group.encode())


def _filterTokens(levels: list[str]) -> list[str]:
    last = len(levels) - 1
    tokens = []
    for place, level in enumerate(levels):
        if level in _WILDCARDS:
            if level == "#" and place < last:
                raise TopicError("a # that is not the last level")
            tokens.append(_WILDCARDS[level])
        elif "+" in level or "#" in level or level in _WILDCARDS.values():
            raise TopicError("a wildcard that is a part of a level, or a wildcard of NATS")
        else:
            tokens.append(_token(level))
    return tokens


def _token(level: str) -> str:
    return level.replace(".", _DOT) or _EMPTY


def _joined(tokens: list[str]) -> bytes:
    return ".".join(tokens).encode("utf-8")


def topicOf(subject: bytes) -> bytes:
    """
    The topic of a message in UTF-8; empty if the subject cannot be a topic, as it is not UTF-8 or
    has wildcards of MQTT. Slashes that stand alone within a token are lost, as in nats-server.
    """
    if b"/" not in subject:
        topic = subject.replace(b".", b"/")
    else:
        topic = _PARTS.sub(lambda part: _LEVELS[part[0]], subject)
    if not topic.isascii():
        try:
            topic.decode("utf-8")
        except UnicodeDecodeError:
            return b""
    return b"" if b"+" in topic or b"#" in topic else topic


_PARTS = re.compile(rb"//|/\.|[./]")
_LEVELS = {b"//": b".", b"/.": b"/", b".": b"/", b"/": b""}
