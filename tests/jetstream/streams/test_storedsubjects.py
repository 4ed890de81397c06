"""
The subjects that messages are stored under.
"""

from __future__ import annotations

from natsbroker.jetstream.model.streamconfig import StreamConfig, SubjectTransformConfig
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.storedsubjects import StoredSubjects


def subjects(src: str, dest: str) -> StoredSubjects:
    """The stored subjects of a stream with a transform."""
    made = StoredSubjects()
    made.applyConfig(StreamConfig("S", subject_transform=SubjectTransformConfig(src, dest)))
    return made


def test_transform() -> None:
    """The transform changes the subjects that its source matches."""
    made = subjects("s.*", "t.{{wildcard(1)}}")
    messages = [Arrived(subject, b"", b"", b"") for subject in (b"s.a", b"r.a")]
    assert made.ofAll(messages) == [b"t.a", b"r.a"]
    assert made.transformed(b"s.a") == b"t.a"


def test_ownSubject() -> None:
    """The last copy of a message under its own subject keeps that subject."""
    made = subjects("s.*", "t.{{wildcard(1)}}")
    assert made.of(Arrived(b"s.a", b"", b"", b"", True, b"s.a", 3)) == b"s.a"
    assert made.of(Arrived(b"s.a", b"", b"", b"", True, b"s.b", 3)) == b"t.a"


def test_chance() -> None:
    """A subject that a transform chooses at random is not known in advance."""
    assert subjects("s.*", "t.{{random(3)}}").ofAll([Arrived(b"s.a", b"", b"", b"")]) is None


def test_without() -> None:
    """Without a transform, subjects do not change."""
    made = StoredSubjects()
    made.applyConfig(StreamConfig("S"))
    assert made.ofAll([Arrived(b"s.a", b"", b"", b"")]) == [b"s.a"]
