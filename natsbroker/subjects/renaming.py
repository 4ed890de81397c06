"""
Two names for the same subjects: in one account and in another. All errors of a renaming are raised
when it is made. Renaming back undoes renaming.

A renaming is written as two patterns. In our pattern C{$1}, or C{{{wildcard(1)}}}, stands for the
token at the first C{*} of the other pattern. A C{*} of ours stands for the next one in turn. If one
pattern ends in C{>}, so must the other.

Where this differs from nats-server 2.15.1, on purpose: with three or more wildcards in another
order, and with one that is used twice, nats-server renames back to another subject, or to none.
"""

from __future__ import annotations

from natsbroker.subjects.functions import wildcardNumber
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.transforms import SubjectTransform

#: The parts of a subject: a token, or the place of a token of the subject that is renamed.
_Recipe = list[bytes | int]


def numbered(pattern: bytes) -> bytes:
    """The pattern with its C{*} as C{$1}, C{$2} and so on."""
    made, stars = [], 0
    for token in pattern.split(b"."):
        if token == b"*":
            stars += 1
            token = b"$%d" % stars
        made.append(token)
    return b".".join(made)


def unnumbered(pattern: bytes) -> bytes:
    """The pattern with a C{*} for every C{$1}, C{$2} and so on."""
    return b".".join(
        [b"*" if wildcardNumber(token) is not None else token for token in pattern.split(b".")]
    )


def intersection(one: bytes, other: bytes) -> bytes | None:
    left, right = one.split(b"."), other.split(b".")
    made: list[bytes] = []
    for place, token in enumerate(left):
        if token == b">":
            return b".".join(made + right[place:]) if place < len(right) else None
        if place >= len(right):
            return None
        if right[place] == b">":
            return b".".join(made + left[place:])
        if token != right[place] and b"*" not in (token, right[place]):
            return None
        made.append(right[place] if token == b"*" else token)
    return b".".join(made) if len(left) == len(right) else None


class Renaming:
    """
    If the other pattern has no wildcard, it is one subject for all of ours. Any subject of ours is
    renamed back to it.

    @ivar keeps: whether both names are the same for every subject.
    """

    __slots__ = ("_back", "_backTail", "_forth", "_forthTail", "keeps", "ours", "theirs")

    def __init__(self, theirs: bytes, ours: bytes) -> None:
        """C{InvalidMapping} if the two patterns do not lead to each other."""
        self.keeps = theirs == ours
        self.theirs = theirs
        self.ours = ours
        self._forth: _Recipe = list(ours.split(b"."))
        self._back: _Recipe = list(theirs.split(b"."))
        self._forthTail: int | None = None
        self._backTail: int | None = None
        if hasWildcard(theirs) and not self.keeps:
            SubjectTransform(theirs, numbered(ours), strict=True)
            self._compile(theirs.split(b"."), numbered(ours).split(b"."))

    def _compile(self, theirs: list[bytes], ours: list[bytes]) -> None:
        stars = [place for place, token in enumerate(theirs) if token == b"*"]
        numbers = [wildcardNumber(token) for token in ours]
        self._forth = [
            token if number is None else stars[number - 1]
            for token, number in zip(ours, numbers, strict=True)
        ]
        self._back = list(theirs)
        for number, place in enumerate(stars, 1):
            self._back[place] = numbers.index(number)
        if theirs[-1] == b">":
            self._forth.pop()
            self._back.pop()
            self._forthTail, self._backTail = len(self._back), len(self._forth)
        self.ours = unnumbered(b".".join(ours))

    def toOurs(self, subject: bytes) -> bytes:
        return subject if self.keeps else _cooked(self._forth, self._forthTail, subject)

    def toTheirs(self, subject: bytes) -> bytes:
        return subject if self.keeps else _cooked(self._back, self._backTail, subject)

    def __repr__(self) -> str:
        return f"<Renaming {self.theirs!r} as {self.ours!r}>"


def _cooked(recipe: _Recipe, tail: int | None, subject: bytes) -> bytes:
    tokens = subject.split(b".")
    made = [tokens[part] if isinstance(part, int) else part for part in recipe]
    if tail is not None:
        made += tokens[tail:]
    return b".".join(made)
