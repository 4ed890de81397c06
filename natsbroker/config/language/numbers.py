"""
The numbers and dates that unquoted values stand for.

This module promises an int, a float or a datetime from the text of a token.  It must
never know where the text stood.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

_SIZED = re.compile(r"(-?[0-9]+)([A-Za-z]*)")
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+")
_LARGEST = 1 << 63
_MOST_DIGITS = 400

_LETTERS = "kmgtpe"
_UNITS = {"": 1}
for _power, _letter in enumerate(_LETTERS, start=1):
    _UNITS[_letter] = 1000**_power
    for _binary in ("b", "i", "ib"):
        _UNITS[_letter + _binary] = 1024**_power


def integerFrom(text: str) -> int:
    """
    Read an integer with an optional size: C{k} is 1000 and C{kb}, C{ki}, C{kib} are
    1024, and so on for C{m g t p e}, in any case.

    @raise ValueError: for anything else, and for what needs more than 64 bits.
    """
    found = _SIZED.fullmatch(text)
    if found is None:
        raise ValueError(f"expected integer, but got '{text}'")
    digits, suffix = found.groups()
    unit = _UNITS.get(suffix.lower())
    if unit is None:
        raise ValueError(f"expected integer, but got '{text}'")
    if len(digits) <= _MOST_DIGITS:
        number = int(digits) * unit
        if -_LARGEST <= number < _LARGEST:
            return number
    raise ValueError(f"integer '{text}' is out of the range")


def floatFrom(text: str) -> float:
    """
    Read a decimal fraction.

    @raise ValueError: for anything else, and for what is larger than a double.
    """
    if _FLOAT.fullmatch(text) is None:
        raise ValueError(f"expected float, but got '{text}'")
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(f"float '{text}' is out of the range")
    return number


def datetimeFrom(text: str) -> datetime:
    """
    Read C{YYYY-MM-DDTHH:MM:SSZ}.

    @raise ValueError: for a day or an hour that does not exist.
    """
    try:
        if not text.isascii():
            raise ValueError
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise ValueError(f"expected Zulu formatted DateTime, but got '{text}'") from None


def booleanFrom(text: str) -> bool:
    """
    Read C{true}, C{yes}, C{on}, C{false}, C{no} or C{off}, in any case.
    """
    return text.lower() in ("true", "yes", "on")
