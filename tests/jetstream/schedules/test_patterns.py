"""
When schedules are due.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.schedules.patterns import scheduledTime, zoneOf
from natsbroker.wire.timestamps import formatTime, parseTime


def _due(pattern: str, zone: str = "", now: str = "") -> tuple[str, bool]:
    time = scheduledTime(
        pattern,
        zoneOf(zone) if zone else None,
        int(parseTime("2024-02-27T10:20:30.6Z")),
        int(parseTime(now)) if now else None,
    )
    return formatTime(time.time), time.isRepeated


@pytest.mark.parametrize(
    ("pattern", "zone", "now", "expected"),
    [
        ("@at 2009-11-10T23:00:00Z", "", "2024-02-27T10:20:30.6Z", "2009-11-10T23:00:00Z"),
        ("@at 2024-03-01T00:00:00.5+02:00", "", "", "2024-02-29T22:00:00.5Z"),
        ("@every 1s", "", "", "2024-02-27T10:20:32Z"),
        ("@every 1.5s", "", "", "2024-02-27T10:20:32.5Z"),
        ("@every 1h", "", "2024-02-27T11:20:31Z", "2024-02-27T11:20:31Z"),
        ("@every 1h", "", "2024-02-27T11:20:31.4Z", "2024-02-27T12:20:31Z"),
        ("@yearly", "", "", "2025-01-01T00:00:00Z"),
        ("@annually", "", "", "2025-01-01T00:00:00Z"),
        ("@monthly", "", "", "2024-03-01T00:00:00Z"),
        ("@weekly", "", "", "2024-03-03T00:00:00Z"),
        ("@daily", "", "", "2024-02-28T00:00:00Z"),
        ("@midnight", "UTC", "", "2024-02-28T00:00:00Z"),
        ("@hourly", "", "", "2024-02-27T11:00:00Z"),
        ("@hourly", "", "2024-02-27T13:30:00Z", "2024-02-27T14:00:00Z"),
        ("@daily", "Asia/Kolkata", "", "2024-02-28T00:00:00+05:30"),
        ("@daily", "Europe/London", "", "2024-02-28T00:00:00Z"),
    ],
)
def test_due(pattern: str, zone: str, now: str, expected: str) -> None:
    """The next time of a pattern is found. A repeated schedule is never due in the past."""
    assert _due(pattern, zone, now) == (expected, not pattern.startswith("@at"))


@pytest.mark.parametrize(
    ("pattern", "zone"),
    [
        ("@at zork", ""),
        ("@at 2024-03-01", ""),
        ("@at 2024-03-01T00:00:00Z", "UTC"),
        ("@every 1s", "UTC"),
        ("@every 100ms", ""),
        ("@every -1h", ""),
        ("@every 5", ""),
        ("@every", ""),
        ("@fortnightly", ""),
        ("* * * * *", ""),
    ],
)
def test_invalid(pattern: str, zone: str) -> None:
    """A text that is no pattern is refused; only cron patterns have a time zone."""
    with pytest.raises(ValueError, match=r"."):
        _due(pattern, zone)


@pytest.mark.parametrize(
    "name", ["", "Mars/Phobos", "+02:00", "../UTC", "/etc/localtime", "Europe"]
)
def test_unknownZone(name: str) -> None:
    """An unknown time zone is refused."""
    with pytest.raises(ValueError, match="time zone"):
        zoneOf(name)


def test_localZone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zone C{Local} is that of the environment or of the host, and else UTC."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    assert str(zoneOf("Local")) == "Asia/Kolkata"
    monkeypatch.setenv("TZ", "")
    monkeypatch.setattr("natsbroker.jetstream.schedules.patterns._LOCALTIME", "/nonexistent")
    assert str(zoneOf("Local")) == "UTC"
