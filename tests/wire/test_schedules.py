"""
The subjects of schedules in headers.
"""

from __future__ import annotations

from natsbroker.wire.schedules import mayNameSubjects, subjectsIn

_LINES = b"NATS/1.0\r\nNats-Schedule-Target:\t a.b\r\nNats-Schedule-Source:c\r\n"


def test_subjects() -> None:
    """Targets and sources are what JetStream understands; each of several counts."""
    block = _LINES + b"Nats-Schedule-Target: d\r\nnats-schedule-source: e\r\n\r\n"
    assert subjectsIn(block, len(block)) == ([b"a.b", b"d"], [b"c"])
    assert subjectsIn(b"", 0) == ([], [])
    plain = b"NATS/1.0\r\nA: b\r\n\r\n"
    assert subjectsIn(plain + _LINES, len(plain)) == ([], [])


def test_mayName() -> None:
    """A payload names nothing, and neither do other headers."""
    assert mayNameSubjects(_LINES, len(_LINES))
    assert not mayNameSubjects(b"NATS/1.0\r\nNats-Schedule: x\r\n\r\n" + _LINES, 30)
