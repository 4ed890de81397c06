"""
The parameters of a request, with nats-server's spellings of numbers and booleans and texts of
refusals (2.15). Client text in a refusal is cut and printable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Parameters by name, each with its first value.
Query = Mapping[str, str]

#: The rows of a page without C{limit}, and the most that it has.
DEFAULT_LIMIT = 1024
LARGEST_LIMIT = 16384

#: The most characters of a value that a refusal repeats.
_LONGEST = 64

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII)
_SIGNED_RANGE = range(-(1 << 63), 1 << 63)
_UNSIGNED_RANGE = range(1 << 64)

#: More digits than any number of 64 bits has.
_DIGITS = 20


class BadQuery(ValueError):
    """A parameter has a wrong value; the text is the body of the answer."""


def repeated(value: str) -> str:
    cut = value if len(value) <= _LONGEST else value[:_LONGEST] + "..."
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode("ascii")


def text(query: Query, name: str) -> str:
    return query.get(name, "")


def flag(query: Query, name: str) -> bool:
    value = query.get(name, "")
    if value in _TRUE:
        return True
    if value in _FALSE or not value:
        return False
    raise _undecodable("boolean", name, "strconv.ParseBool", value, "invalid syntax")


def integer(query: Query, name: str) -> int:
    return _ranged(query, name, "int", "strconv.Atoi", _INTEGER, _SIGNED_RANGE)


def unsigned(query: Query, name: str) -> int:
    return _ranged(query, name, "uint64", "strconv.ParseUint", _UNSIGNED, _UNSIGNED_RANGE)


def limitFrom(query: Query) -> int:
    """The parameter C{limit}: a number of rows, at most L{LARGEST_LIMIT}."""
    limit = integer(query, "limit")
    return min(limit, LARGEST_LIMIT) if limit > 0 else DEFAULT_LIMIT


def _ranged(
    query: Query, name: str, kind: str, function: str, spelling: re.Pattern[str], allowed: range
) -> int:
    value = query.get(name, "")
    if not value:
        return 0
    if not spelling.fullmatch(value):
        raise _undecodable(kind, name, function, value, "invalid syntax")
    number = _number(value)
    if number is None or number not in allowed:
        raise _undecodable(kind, name, function, value, "value out of range")
    return number


def _number(digits: str) -> int | None:
    significant = digits.lstrip("+-0")
    if len(significant) > _DIGITS:
        return None
    return int(significant or "0") * (-1 if digits.startswith("-") else 1)


def _undecodable(kind: str, name: str, function: str, value: str, why: str) -> BadQuery:
    quoted = repeated(value).replace('"', '\\"')
    return BadQuery(f"Error decoding {kind} for '{name}': {function}: parsing \"{quoted}\": {why}")
