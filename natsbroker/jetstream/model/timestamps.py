"""
Points in time as JetStream's JSON has them: nanoseconds, and the offset that a client wrote.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND = 1_000_000_000


class Timestamp(int):
    """
    Nanoseconds since 1970, in UTC, with the offset in which the time is written.

    Go keeps the offset of a time that it reads, and writes the time with it again. The offset takes
    no part in comparisons: two times are equal if they are the same instant.

    @ivar offset: seconds east of UTC.
    """

    offset: int

    def __new__(cls, nanoseconds: int, offset: int = 0) -> Timestamp:
        """
        @param nanoseconds: since 1970; before that negative.
        @param offset: seconds east of UTC.
        """
        self = super().__new__(cls, nanoseconds)
        self.offset = offset
        return self

    def __repr__(self) -> str:
        return f"Timestamp({formatTime(self)})"


ZERO_TIME: Final = Timestamp(-62_135_596_800 * _SECOND)
"""Go's zero time, the first second of the year 1. Answers show it where a time is not known."""


def formatTime(time: int) -> str:
    """
    @param time: nanoseconds since 1970, or a L{Timestamp}.
    @return: the time in RFC 3339 without the zeros at the end of its fraction, as Go writes it.
    """
    offset = time.offset if isinstance(time, Timestamp) else 0
    seconds, fraction = divmod(int(time), _SECOND)
    moment = _EPOCH + timedelta(seconds=seconds + offset)
    text = moment.strftime("%m-%dT%H:%M:%S")
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    return f"{moment.year:04d}-{text}{_zone(offset)}"


def _zone(offset: int) -> str:
    """
    @return: the offset as RFC 3339 writes it, without its seconds.
    """
    if not offset:
        return "Z"
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"
