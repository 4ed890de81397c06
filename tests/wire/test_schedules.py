"""
The subjects of schedules in headers.
"""

from __future__ import annotations

from natsbroker.wire.schedules import mayNameSubjects, sourcesIn, targetsIn

_LINES = b"NATS/1.0\r\nNats-Schedule-Target:\t a.b\r\nNats-Schedule-Source:c\r\n"


def test_subjects() -> None:
    """Targets and sources are what JetStream understands; each of several counts."""
    assert targetsIn(_LINES + b"Nats-Schedule-Target: d\r\n\r\n") == [b"a.b", b"d"]
    assert sourcesIn(_LINES + b"nats-schedule-source: e\r\n\r\n") == [b"c"]
    assert targetsIn(b"") == sourcesIn(b"") == []


def test_mayName() -> None:
    """A payload names nothing, and neither do other headers."""
    assert mayNameSubjects(_LINES, len(_LINES))
    assert not mayNameSubjects(b"NATS/1.0\r\nNats-Schedule: x\r\n\r\n" + _LINES, 30)
