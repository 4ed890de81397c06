"""Points in time as JetStream's JSON has them: nanoseconds, and the offset that a client wrote."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND = 1_000_000_000
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_DIGITS = "0123456789"
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
    offset = time.offset if isinstance(time, Timestamp) else 0
    seconds, fraction = divmod(int(time), _SECOND)
    seconds += offset
    cycles = 1 if seconds < _FIRST else -1 if seconds > _LAST else 0
    moment = _EPOCH + timedelta(days=cycles * _CYCLE, seconds=seconds)
    text = moment.strftime("%m-%dT%H:%M:%S")
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    return f"{moment.year - 400 * cycles:04d}-{text}{_zone(offset)}"


def _zone(offset: int) -> str:
    """The offset as RFC 3339 writes it, without its seconds."""
    if not offset:
        return "Z"
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def parseTime(text: str) -> Timestamp:
    """Read RFC 3339 as Go does, also C{1:00} hours and commas; C{ValueError} with Go's text."""
    return _TimeParser(text).parse()


class _TimeParser:
    """Reads one time from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = text

    def parse(self) -> Timestamp:
        """The time; C{ValueError} at the first wrong part."""
        year = self._year()
        month = self._number("-", "01", 1, 12, "month")
        self._skip("-")
        day = self._digits("02")
        hour = self._number("T", "15", 0, 23, "hour", fixed=False)
        minute = self._number(":", "04", 0, 59, "minute")
        second = self._number(":", "05", 0, 59, "second")
        fraction = self._fraction()
        offset = self._offset()
        if self._rest:
            raise self._wrong(f": extra text: {_quotedTime(self._rest)}")
        try:
            moment = datetime(year or 400, month, day, tzinfo=timezone.utc)
        except ValueError:
            raise self._wrong(": day out of range") from None
        days = (moment - _EPOCH).days - (0 if year else _CYCLE)
        seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
        return Timestamp(seconds * _SECOND + fraction, offset)

    def _year(self) -> int:
        before = self._rest
        if len(before) < 4 or not all(each in _DIGITS for each in before[:4]):
            raise self._mismatch(before, "2006")
        self._rest = before[4:]
        return int(before[:4])

    def _number(
        self, separator: str, layout: str, least: int, most: int, name: str, fixed: bool = True
    ) -> int:
        """The number behind a separator."""
        self._skip(separator)
        number = self._digits(layout, fixed)
        if not least <= number <= most:
            raise self._wrong(f": {name} out of range")
        return number

    def _skip(self, separator: str) -> None:
        if not self._rest.startswith(separator):
            raise self._mismatch(self._rest, separator)
        self._rest = self._rest[1:]

    def _digits(self, layout: str, fixed: bool = True) -> int:
        """A number of two digits, or of one if that is allowed."""
        before = self._rest
        width = 0
        while width < 2 and width < len(before) and before[width] in _DIGITS:
            width += 1
        if width == 0 or (width == 1 and fixed):
            raise self._mismatch(before, layout)
        self._rest = before[width:]
        return int(before[:width])

    def _fraction(self) -> int:
        """The nanoseconds; further digits are dropped."""
        rest = self._rest
        if len(rest) < 2 or rest[0] not in ".," or rest[1] not in _DIGITS:
            return 0
        end = 1
        while end < len(rest) and rest[end] in _DIGITS:
            end += 1
        self._rest = rest[end:]
        return int(rest[1:end][:9].ljust(9, "0"))

    def _offset(self) -> int:
        """The seconds east of UTC."""
        rest = self._rest
        if rest.startswith("Z"):
            self._rest = rest[1:]
            return 0
        hours, minutes = rest[1:3], rest[4:6]
        if len(rest) < 6 or rest[3] != ":" or set(hours + minutes) - set(_DIGITS):
            raise self._mismatch(rest, "Z07:00")
        self._rest = rest[6:]
        if int(hours) > 24:
            raise self._wrong(": time zone offset hour out of range")
        if int(minutes) > 60:
            raise self._wrong(": time zone offset minute out of range")
        if rest[0] not in "+-":
            raise self._mismatch(rest, "Z07:00")
        offset = int(hours) * 3600 + int(minutes) * 60
        return -offset if rest[0] == "-" else offset

    def _mismatch(self, found: str, layout: str) -> ValueError:
        return self._wrong(
            f" as {_quotedTime(_LAYOUT)}: cannot parse {_quotedTime(found)}"
            f" as {_quotedTime(layout)}"
        )

    def _wrong(self, text: str) -> ValueError:
        return ValueError(f"parsing time {_quotedTime(self._text)}{text}")


def _quotedTime(text: str) -> str:
    """The text in quotes, its bytes outside ASCII as numbers."""
    made = []
    for each in text:
        if each in '"\\':
            made.append(f"\\{each}")
        elif " " <= each < "\x80":
            made.append(each)
        else:
            made += [f"\\x{byte:02x}" for byte in each.encode("utf-8", "surrogatepass")]
    return f'"{"".join(made)}"'
