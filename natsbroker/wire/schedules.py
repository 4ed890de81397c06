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


def targetsIn(block: bytes) -> list[bytes]:
    """The subjects that a schedule publishes to."""
    return _valuesIn(block, TARGET)


def sourcesIn(block: bytes) -> list[bytes]:
    """The subjects whose messages a schedule copies."""
    return _valuesIn(block, SOURCE)


def _valuesIn(block: bytes, name: bytes) -> list[bytes]:
    lines = (line.partition(b":") for line in block.split(b"\r\n")[1:])
    return [value.lstrip(b" \t") for key, colon, value in lines if colon and key == name]
