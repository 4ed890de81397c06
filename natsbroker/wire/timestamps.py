"""Points in time as in JetStream's JSON: nanoseconds, with the offset that a client wrote."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND = 1_000_000_000
_RFC_3339 = re.compile(
    "([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    "(?:Z|([+-])([01][0-9]|2[0-4]):([0-5][0-9]|60))"
)
_CYCLE = 146_097
"""Days of 400 years, after which the calendar repeats: Python's has no year 0 and no year 10000."""
_FIRST, _LAST = -62_135_596_800, 253_402_300_799


class Timestamp(int):
    """
    Nanoseconds since 1970, in UTC, with the offset in which the time is written.

    Go keeps the offset of a time that it reads, and writes the time with it again. The offset takes
    no part in comparisons: two times are equal if they are the same instant.

    @ivar offset: seconds east of UTC.
    """

    offset: int

    def __new__(cls, nanoseconds: int, offset: int = 0) -> Timestamp:
        """C{nanoseconds} since 1970, perhaps negative; C{offset} in seconds east of UTC."""
        self = super().__new__(cls, nanoseconds)
        self.offset = offset
        return self

    def __repr__(self) -> str:
        return f"Timestamp({formatTime(self)})"


ZERO_TIME: Final = Timestamp(-62_135_596_800 * _SECOND)
"""Go's zero time, the first second of the year 1. Answers show it where a time is not known."""


def formatTime(time: int) -> str:
    """A L{Timestamp} or nanoseconds since 1970 in RFC 3339 with Go's short fraction."""
    return _formatted(int(time), time.offset if isinstance(time, Timestamp) else 0)


@lru_cache(256)
def _formatted(time: int, offset: int) -> str:
    """A time as text. It is cached, because answers repeat the times of streams and consumers."""
    seconds, fraction = divmod(time, _SECOND)
    text = _second(seconds + offset)
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    return text + _zone(offset)


@lru_cache(256)
def _second(seconds: int) -> str:
    """
    A second as text, without its zone. It is cached, because many times in answers have the same
    second.
    """
    cycles = 1 if seconds < _FIRST else -1 if seconds > _LAST else 0
    moment = _EPOCH + timedelta(days=cycles * _CYCLE, seconds=seconds)
    return f"{moment.year - 400 * cycles:04d}-{moment:%m-%dT%H:%M:%S}"


def _zone(offset: int) -> str:
    """The offset as RFC 3339 writes it, without its seconds."""
    if not offset:
        return "Z"
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def parseTime(text: str) -> Timestamp:
    """
    Read a time in RFC 3339 as Go's parser does, which also takes one-digit hours and a comma in
    front of the fraction, and drops fractions of a nanosecond.

    @raise ValueError: if it is not a time.
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time like 2006-01-02T15:04:05Z")
    *parts, fraction, sign, hours, minutes = match.groups("0")
    year, month, day, hour, minute, second = map(int, parts)
    offset = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)
    since = datetime(year or 400, month, day, hour, minute, second, tzinfo=timezone.utc) - _EPOCH
    days = since.days - (0 if year else _CYCLE)
    seconds = days * 86400 + since.seconds - offset
    return Timestamp(seconds * _SECOND + int(fraction[:9].ljust(9, "0")), offset)
