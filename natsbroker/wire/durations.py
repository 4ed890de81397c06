"""Go's durations, with the values, texts and complaints of its C{ParseDuration}."""

from __future__ import annotations

import re

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
DURATION_PATTERN = r"[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:{}))+)".format("|".join(_UNITS))
"""Matches durations. Their length is not checked, nor whether values are too large."""

_LONGEST = 1 << 63
_MOST_CHARACTERS = 400
_PIECE = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^0-9.]*)")


def secondsFrom(text: str) -> float:
    """Read a duration such as C{1m30s}, C{-5ms} or C{1.5h}; C{ValueError} with Go's words."""
    return nanosecondsFrom(text) / 1e9


def nanosecondsFrom(text: str) -> int:
    shown = text if len(text) <= _MOST_CHARACTERS else text[:20] + "..."
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    if not unsigned or len(text) > _MOST_CHARACTERS:
        raise ValueError(f'time: invalid duration "{shown}"')
    total, offset = 0, 0
    while offset < len(unsigned):
        piece = _PIECE.match(unsigned, offset)
        if piece is None:
            raise ValueError(f'time: invalid duration "{shown}"')
        total += _pieceFrom(piece, shown)
        offset = piece.end()
    if text[0] == "-":
        total = -total
    if not -_LONGEST <= total < _LONGEST:
        raise ValueError(f'time: invalid duration "{shown}"')
    return total


def _pieceFrom(piece: re.Match[str], shown: str) -> int:
    whole, _, fraction, unit = piece.groups()
    if not whole and not fraction:
        raise ValueError(f'time: invalid duration "{shown}"')
    if not unit:
        raise ValueError(f'time: missing unit in duration "{shown}"')
    if unit not in _UNITS:
        raise ValueError(f'time: unknown unit "{unit}" in duration "{shown}"')
    size = _UNITS[unit]
    total = int(whole or 0) * size
    if fraction:
        total += int(fraction) * size // 10 ** len(fraction)
    return total


def durationText(seconds: float) -> str:
    """A duration as Go writes it: C{2m0s}, C{1.5s}, C{250ms}, C{0s}."""
    return nanosecondsText(round(seconds * 1e9))


def nanosecondsText(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    nanoseconds = abs(nanoseconds)
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("\u00b5s", 1_000), ("ns", 1)):
            if nanoseconds >= size:
                return sign + _decimal(nanoseconds, size) + unit
    minutes, rest = divmod(nanoseconds, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = _decimal(rest, 1_000_000_000) + "s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    if not rest:
        return str(whole)
    digits = str(rest).zfill(len(str(size)) - 1).rstrip("0")
    return f"{whole}.{digits}"
