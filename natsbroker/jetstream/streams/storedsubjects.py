"""
The subjects under which a stream stores its messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import randrange

from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.subjects.transforms import SubjectTransform


class StoredSubjects:
    def __init__(self) -> None:
        self._transform: SubjectTransform | None = None

    def applyConfig(self, config: StreamConfig) -> None:
        transform = config.subject_transform
        self._transform = (
            None
            if transform is None or not transform.dest
            else SubjectTransform((transform.src or ">").encode(), transform.dest.encode())
        )

    def transformed(self, subject: bytes) -> bytes:
        """The subject to store for one that is published to."""
        if self._transform is None:
            return subject
        return self._transform.apply(subject, randrange) or subject

    def of(self, message: Arrived) -> bytes:
        """
        The subject to store for a message. A message that stands for the last one of its subject
        keeps the subject.
        """
        subject, place = message.subject, message.place
        return subject if place and place == subject else self.transformed(subject)

    def ofAll(self, messages: Iterable[Arrived]) -> list[bytes] | None:
        """The subjects of several messages; C{None} if the transform chooses them at random."""
        if self._transform is not None and self._transform.isRandom:
            return None
        return [self.of(message) for message in messages]
