"""
The subjects in the headers of a schedule. JetStream publishes to one of them later, in the name of
the publisher, and copies the last message of the other.
"""

from __future__ import annotations

TARGET = b"Nats-Schedule-Target"
SOURCE = b"Nats-Schedule-Source"

_BEGIN = b"Nats-Schedule-"


def mayNameSubjects(body: bytes, headerLength: int) -> bool:
    """Whether headers may name the subjects of a schedule."""
    return body.find(_BEGIN, 0, headerLength) >= 0


def subjectsIn(body: bytes, headerLength: int) -> tuple[list[bytes], list[bytes]]:
    """The targets that the headers of a message name, and the sources."""
    targets: list[bytes] = []
    sources: list[bytes] = []
    if mayNameSubjects(body, headerLength):
        for line in body[:headerLength].split(b"\r\n")[1:]:
            name, colon, value = line.partition(b":")
            if colon and name in (TARGET, SOURCE):
                (targets if name == TARGET else sources).append(value.lstrip(b" \t"))
    return targets, sources
