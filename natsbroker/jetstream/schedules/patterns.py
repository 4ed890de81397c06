"""The times at which a scheduled message is published, by the header C{Nats-Schedule}."""

from __future__ import annotations

import os
from datetime import datetime, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from natsbroker.jetstream.schedules.cron import SECOND, CronPattern
from natsbroker.wire.durations import nanosecondsFrom
from natsbroker.wire.timestamps import Timestamp, parseTime

_NAMED = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}

_LOCALTIME = "/etc/localtime"


class ScheduledTime(NamedTuple):
    """The next time of a schedule in nanoseconds since 1970, and whether others follow it."""

    time: Timestamp
    isRepeated: bool


def zoneOf(name: str) -> tzinfo:
    """
    A time zone of the host's database, C{UTC}, or C{Local} for the host's; C{ValueError} for
    an unknown name.
    """
    if name == "UTC":
        return timezone.utc
    if name == "Local":
        return _localZone(os.environ.get("TZ", ""))
    return _zone(name)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if not name or ".." in name or name[0] in "/\\":
        raise ValueError(f"time zone {name!r} is invalid")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"time zone {name!r} is unknown") from error


def _localZone(name: str) -> tzinfo:
    if name:
        return _zone(name.lstrip(":"))
    try:
        with open(_LOCALTIME, "rb") as file:
            return ZoneInfo.from_file(file)
    except FileNotFoundError:
        return timezone.utc


def scheduledTime(
    pattern: str, zone: tzinfo | None, since: int, now: int | None = None
) -> ScheduledTime:
    """
    The next time of a schedule.

    @param pattern: C{@at} with a time, C{@every} with a duration, a cron pattern or its name.
    @param zone: that of a cron pattern; C{None} for UTC.
    @param since: when the schedule was last due, or was stored, in nanoseconds since 1970.
    @param now: a repeated schedule is not due before this.
    @raise ValueError: if the pattern is invalid.
    """
    if pattern.startswith(("@at ", "@every ")) and zone is not None:
        raise ValueError("only cron patterns have a time zone")
    if pattern.startswith("@at "):
        return ScheduledTime(Timestamp(int(parseTime(pattern[4:]))), False)
    if pattern.startswith("@every "):
        return ScheduledTime(_afterPause(nanosecondsFrom(pattern[7:]), since, now), True)
    cron = CronPattern(_NAMED.get(pattern, pattern), zone or timezone.utc)
    time = cron.after(since)
    if now is not None and time < now:
        time = cron.after(_rounded(now))
    return ScheduledTime(_inZone(time, zone), True)


def _afterPause(pause: int, since: int, now: int | None) -> Timestamp:
    if pause < SECOND:
        raise ValueError("an interval must be at least a second")
    time = _rounded(since) + pause
    if now is not None and time < now:
        time = _rounded(now) + pause
    return Timestamp(time)


def _rounded(time: int) -> int:
    return (time + SECOND // 2) // SECOND * SECOND


def _inZone(time: int, zone: tzinfo | None) -> Timestamp:
    """A time that is shown with the offset of a zone."""
    offset = zone and datetime.fromtimestamp(time // SECOND, zone).utcoffset()
    return Timestamp(time, int(offset.total_seconds()) if offset else 0)
