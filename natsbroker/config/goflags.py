"""
Flags as Go's C{flag} package reads them, with its messages: one dash or two, C{-flag value} or
C{-flag=value}, booleans only with C{=}, and the first argument that is no flag ends them. Sizes are
read as nats-streaming-server does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from natsbroker.config.errors import nearest
from natsbroker.config.language.scalars import integerFrom
from natsbroker.wire.durations import secondsFrom

FlagValue = str | int | bool | float


class FlagType(Enum):
    BOOLEAN = "boolean"
    INTEGER = "integer"
    STRING = "string"
    DURATION = "duration"
    SIZE = "size"


class FlagError(ValueError):
    """Wrong arguments; the text is Go's."""


_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_INTEGER = re.compile(
    r"([+-]?)(?:0[xX]((?:_?[0-9a-fA-F])+)|0[bB]((?:_?[01])+)|0[oO]?((?:_?[0-7])*)"
    r"|([1-9](?:_?[0-9])*))"
)
_BASES = (16, 2, 8, 10)
_LARGEST = 1 << 63
_MOST_DIGITS = 100


def parseFlags(
    arguments: Sequence[str], kinds: Mapping[str, FlagType]
) -> tuple[dict[str, FlagValue], list[str]]:
    """
    Take the flags from the beginning of a command line.

    @return: the value of each flag that was given, under the name that was used, the
        last one counting and standing last; and the arguments behind the flags.
    """
    values: dict[str, FlagValue] = {}
    rest = list(arguments)
    while rest and len(rest[0]) > 1 and rest[0].startswith("-"):
        argument = rest.pop(0)
        if argument == "--":
            break
        name, equals, text = _split(argument)
        kind = kinds.get(name)
        if kind is None:
            near = nearest(name, kinds)
            hint = f", did you mean -{near}?" if near else ""
            raise FlagError(f"flag provided but not defined: -{name}{hint}")
        values.pop(name, None)
        if kind is FlagType.BOOLEAN:
            values[name] = _boolean(name, text) if equals else True
            continue
        if not equals:
            if not rest:
                raise FlagError(f"flag needs an argument: -{name}")
            text = rest.pop(0)
        read, wording = _READERS[kind]
        try:
            values[name] = read(text)
        except ValueError as error:
            raise FlagError(wording.format(name=name, text=text, why=error)) from None
    return values, rest


def takeFlags(
    arguments: Sequence[str], kinds: Mapping[str, FlagType]
) -> tuple[dict[str, FlagValue], list[str]]:
    """Take some flags out of a command line that is not Go's, wherever they stand before C{--}."""
    taken: list[str] = []
    others: list[str] = []
    rest = list(arguments)
    while rest and rest[0] != "--":
        argument = rest.pop(0)
        body = argument[2:] if argument.startswith("--") else argument[1:]
        name, equals, _ = body.partition("=")
        if not argument.startswith("-") or name not in kinds:
            others.append(argument)
            continue
        taken.append(argument)
        if kinds[name] is not FlagType.BOOLEAN and not equals and rest:
            taken.append(rest.pop(0))
    values, _ = parseFlags(taken, kinds)
    return values, others + rest


def notUnderstood(others: Sequence[str], kinds: Mapping[str, FlagType]) -> FlagError:
    """
    @param others: the arguments that L{takeFlags} left, where none is expected.
    """
    name = others[0].lstrip("-").partition("=")[0]
    near = nearest(name, kinds) if others[0].startswith("-") else ""
    hint = f", did you mean --{near}?" if near else ""
    return FlagError(f"not understood: {' '.join(others)}{hint}")


def _split(argument: str) -> tuple[str, str, str]:
    body = argument[2:] if argument.startswith("--") else argument[1:]
    if not body or body[0] in "-=":
        raise FlagError(f"bad flag syntax: {argument}")
    return body.partition("=")


def _boolean(name: str, text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise FlagError(f'invalid boolean value "{text}" for -{name}: parse error')


def _integer(text: str) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError("parse error")
    for base, digits in zip(_BASES, match.groups()[1:], strict=True):
        if digits is None:
            continue
        digits = digits.replace("_", "").lstrip("0") or "0"
        number = int(digits, base) if len(digits) <= _MOST_DIGITS else _LARGEST
        number = -number if match[1] == "-" else number
        if -_LARGEST <= number < _LARGEST:
            return number
    raise ValueError("value out of range")


_WRONG = 'invalid value "{text}" for flag -{name}: '
_READERS: dict[FlagType, tuple[Callable[[str], FlagValue], str]] = {
    FlagType.INTEGER: (_integer, _WRONG + "{why}"),
    FlagType.STRING: (str, ""),
    FlagType.DURATION: (secondsFrom, _WRONG + "parse error"),
    # As in a configuration file: nats-streaming-server reads sizes so.
    FlagType.SIZE: (integerFrom, "{name} should be a size, got '{text}'"),
}
"""The reader of a flag's value by its type, and the error of one that is wrong."""
