"""
Subject transforms: from the subjects that match a source pattern to others. All errors of a
transform are raised when it is made. Applying it never raises, and never makes an invalid subject.

docs/topics/routing.md lists the calls that a destination may have. A token too short to be cut
stays whole. The names of calls, and the words in them, may begin with a capital. The rules and the
error texts are nats-server's, checked against 2.15.1. Where this differs, on purpose:

  - Refused here are wildcard 0 (nats-server takes the first token of the subject), negative counts,
    an empty separator, and other text in the braces.
  - Empty pieces of a split are left out. nats-server leaves some in, which makes an invalid
    subject, and drops the message.
  - With a literal source, a partition is a hash of the subject. nats-server hashes nothing at all,
    or the subject, depending on other mappings.
"""

from __future__ import annotations

from collections.abc import Sequence

from natsbroker.steps import Steps, pieces
from natsbroker.subjects.functions import InvalidMapping, RandRange, Wildcards, compileToken, isCall
from natsbroker.subjects.grammar import isValidSubject, matches
from natsbroker.subjects.index import SubjectIndex

_INVALID_SUBJECT = "invalid subject"
_INVALID_TRANSFORM = "invalid transform"
_NOT_REVERSIBLE = "the only mapping function allowed for import transforms is {{Wildcard()}}"
_NOT_ALL_USED = "not using all of the token wildcard(s)"


#: Practically no limit: the maker of the list limits the shapes.
_SHAPES = 1 << 20


class SubjectTransform:
    __slots__ = ("_parts", "_tail", "destination", "isRandom", "source")

    def __init__(self, source: bytes, destination: bytes, strict: bool = False) -> None:
        """
        @param source: if it ends in C{>}, so must the destination, and the other way round.
        @param strict: whether the transform must be reversible, as imports need it: only wildcards,
            and all of them.
        @raise InvalidMapping: if the transform is not valid.
        """
        _checkEnds(source, destination)
        wildcards = Wildcards(source)
        calls = [
            compileToken(token, wildcards) for token in destination.split(b".") if token != b">"
        ]
        self.source = source
        self.destination = destination
        self.isRandom = any(name == "random" for name, _ in calls)
        self._parts = [part for _, part in calls]
        self._tail = source.count(b".") if source.split(b".")[-1] == b">" else None
        if strict and any(name not in ("", "wildcard") for name, _ in calls):
            raise InvalidMapping.ofDestination(_NOT_REVERSIBLE, destination)
        if strict and len(wildcards.used) < len(wildcards.places):
            raise InvalidMapping.ofDestination(_NOT_ALL_USED, destination)

    def apply(self, subject: bytes, randrange: RandRange) -> bytes | None:
        """
        The transformed subject; C{None} if the source does not match it. Empty for an invalid
        result, as when a token of only separators is split: the message is then dropped.
        """
        return self.rewrite(subject, randrange) if matches(self.source, subject) else None

    def rewrite(self, subject: bytes, randrange: RandRange) -> bytes:
        """Do what L{apply} does to a subject that is known to match the source."""
        tokens = subject.split(b".")
        made = [part(tokens, randrange) for part in self._parts]
        if self._tail is not None:
            made += tokens[self._tail :]
        result = b".".join(made)
        return result if isValidSubject(result) else b""


class TransformList:
    """Transforms, compiled at their first use. The first one that makes a valid subject counts."""

    __slots__ = ("_compiled", "_index", "_pairs")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]], index: SubjectIndex[int]) -> None:
        """C{index} has the place of each pair under its source."""
        self._pairs = pairs
        self._index = index
        self._compiled: dict[int, SubjectTransform] = {}

    def rewrite(self, subject: bytes, randrange: RandRange) -> bytes:
        """The subject transformed by the first transform that counts; else the subject itself."""
        for place in sorted(self._index.match(subject)) if self._pairs else ():
            transform = self._compiled.get(place)
            if transform is None:
                transform = self._compiled[place] = SubjectTransform(*self._pairs[place])
            changed = transform.rewrite(subject, randrange)
            if changed:
                return changed
        return subject


def listed(pairs: Sequence[tuple[bytes, bytes]]) -> Steps[TransformList]:
    """Sources and destinations as a list of transforms."""
    index: SubjectIndex[int] = SubjectIndex(_SHAPES)
    for some in pieces([*enumerate(pairs)]):
        for place, (source, _) in some:
            index.insert(source, place)
        yield
    return TransformList(pairs, index)


def _checkEnds(source: bytes, destination: bytes) -> None:
    if not isValidSubject(source):
        raise InvalidMapping(_INVALID_SUBJECT, source)
    tokens = destination.split(b".")
    plain = b".".join([b"x" if isCall(token) else token for token in tokens])
    if not isValidSubject(plain):
        raise InvalidMapping.ofDestination(_INVALID_TRANSFORM, destination)
    if b"*" in tokens or (tokens[-1] == b">") != (source.split(b".")[-1] == b">"):
        raise InvalidMapping(_INVALID_SUBJECT, destination)
