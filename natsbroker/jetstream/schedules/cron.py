"""
Cron patterns with six fields: second, minute, hour, day of the month, month, day of the week.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

SECOND = 1_000_000_000

LONGEST = 5
"""Years that are searched for a time that matches a pattern."""

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NUMBER = re.compile(r"\+?[0-9]{1,18}")


class _Field(NamedTuple):
    """The values that a field may hold."""

    least: int
    most: int
    names: dict[str, int]


_FIELDS = (
    _Field(0, 59, {}),
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, {name: place for place, name in enumerate(_MONTHS, 1)}),
    _Field(0, 6, {name: place for place, name in enumerate(_DAYS)}),
)


class _Matching(NamedTuple):
    """The values that one field matches; C{isAny} for an asterisk without a step."""

    values: frozenset[int]
    isAny: bool


def _matchingOf(text: str, field: _Field) -> _Matching:
    values: set[int] = set()
    isAny = False
    for part in filter(None, text.split(",")):
        numbers, isStar = _rangeOf(part, field)
        values.update(numbers)
        isAny = isAny or isStar
    if not values:
        raise ValueError(f"no value in field {text!r}")
    return _Matching(frozenset(values), isAny)


def _rangeOf(text: str, field: _Field) -> tuple[range, bool]:
    """
    Read C{*}, C{7}, C{1-5}, each perhaps with C{/step}. A single number with a step begins a range
    up to the largest value.
    """
    limits, slash, stepText = text.partition("/")
    bounds = limits.split("-")
    step = _numberOf(stepText, {}) if slash else 1
    isStar = bounds[0] in ("*", "?")
    if isStar:
        least, most = field.least, field.most
    elif len(bounds) > 2:
        raise ValueError(f"too many hyphens in {text!r}")
    else:
        least = _numberOf(bounds[0], field.names)
        most = _numberOf(bounds[1], field.names) if len(bounds) == 2 else least
        if slash and len(bounds) == 1:
            most = field.most
    if step < 1 or least < field.least or most > field.most or least > most:
        raise ValueError(f"{text!r} is out of range")
    return range(least, most + 1, step), isStar and step == 1


def _numberOf(text: str, names: dict[str, int]) -> int:
    number = names.get(text.lower())
    if number is not None:
        return number
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return int(text)


class CronPattern:
    """The times that a pattern matches."""

    def __init__(self, text: str, zone: tzinfo = timezone.utc) -> None:
        """The pattern in a time zone; C{ValueError} if the text is not a pattern."""
        fields = text.split()
        if len(fields) != len(_FIELDS):
            raise ValueError(f"a pattern has six fields, and not {len(fields)}")
        self._zone = zone
        matching = [_matchingOf(part, field) for part, field in zip(fields, _FIELDS, strict=True)]
        self._seconds, self._minutes, self._hours = (pattern.values for pattern in matching[:3])
        self._days, months, self._weekdays = matching[3:]
        self._months = months.values

    def after(self, time: int) -> int:
        """
        The first matching time after the given one, in nanoseconds since 1970. C{ValueError} if
        there is none within five years.
        """
        seconds = time // SECOND + 1
        latest = self._local(seconds).year + LONGEST
        while True:
            local = self._local(seconds)
            if local.year > latest:
                raise ValueError("the pattern matches no time")
            following = self._next(local, seconds)
            if following == seconds:
                return seconds * SECOND
            seconds = following

    def _local(self, seconds: int) -> datetime:
        return datetime.fromtimestamp(seconds, self._zone)

    def _next(self, local: datetime, seconds: int) -> int:
        """C{seconds} if they match, else the next seconds that may match."""
        if local.month not in self._months:
            return self._midnight(local.replace(day=1) + timedelta(32), seconds, 1)
        if not self._matchesDay(local):
            return self._midnight(local + timedelta(1), seconds, None)
        if local.hour not in self._hours:
            return seconds - local.minute * 60 - local.second + 3600
        if local.minute not in self._minutes:
            return seconds - local.second + 60
        return seconds if local.second in self._seconds else seconds + 1

    def _midnight(self, local: datetime, seconds: int, day: int | None) -> int:
        """
        The first second of a day. Where the clock changes at midnight it may be an hour off, but it
        is always later than C{seconds}.
        """
        begins = datetime(local.year, local.month, day or local.day, tzinfo=self._zone)
        return max(int(begins.timestamp()), seconds + 1)

    def _matchesDay(self, local: datetime) -> bool:
        """
        Whether a day matches. If both day fields are restricted, it is enough that one matches.
        """
        isDay = local.day in self._days.values
        isWeekday = local.isoweekday() % 7 in self._weekdays.values
        if self._days.isAny or self._weekdays.isAny:
            return isDay and isWeekday
        return isDay or isWeekday
