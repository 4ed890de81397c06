"""
Times, durations and numbers of nats-server's pages: instants as RFC 3339 in UTC without trailing
zeros, durations as Go prints them, uptimes in whole seconds.
"""

from __future__ import annotations

from natsbroker.wire.durations import nanosecondsText
from natsbroker.wire.instants import instant

__all__ = ["instant", "nanoseconds", "number", "roundTrip", "uptime"]


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def number(value: float) -> float | int:
    return int(value) if value == int(value) else value


def uptime(seconds: float) -> str:
    """A long duration in whole seconds, as C{1d2h3m4s}; a year has 365 days."""
    rest = int(max(seconds, 0.0))
    parts: list[str] = []
    for size, unit in ((31_536_000, "y"), (86_400, "d"), (3_600, "h"), (60, "m")):
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return "".join(parts) + f"{rest}s"


def roundTrip(seconds: float) -> str:
    """A round trip: between a microsecond and a millisecond in whole microseconds."""
    count = nanoseconds(seconds)
    if 1_000 < count < 1_000_000:
        count -= count % 1_000
    return nanosecondsText(count)
