"""
Tests for L{natsbroker.config.goflags}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.goflags import FlagError, FlagType, FlagValue, parseFlags, takeFlags

KINDS = {
    "b": FlagType.BOOLEAN,
    "bb": FlagType.BOOLEAN,
    "i": FlagType.INTEGER,
    "s": FlagType.STRING,
}

READABLE: list[tuple[str, dict[str, FlagValue], list[str]]] = [
    ("", {}, []),
    ("-b", {"b": True}, []),
    ("--b", {"b": True}, []),
    ("-bb", {"bb": True}, []),
    ("-b=false", {"b": False}, []),
    ("-b=T --bb=0", {"b": True, "bb": False}, []),
    ("-b false", {"b": True}, ["false"]),
    ("-i 5 -s x", {"i": 5, "s": "x"}, []),
    ("-i=5 --s=x=y", {"i": 5, "s": "x=y"}, []),
    ("-s=", {"s": ""}, []),
    ("-s -b", {"s": "-b"}, []),
    ("-i -1", {"i": -1}, []),
    ("-s a -s b", {"s": "b"}, []),
    ("-s a -b -s c", {"b": True, "s": "c"}, []),
    ("-b x -i 5", {"b": True}, ["x", "-i", "5"]),
    ("-b -- -i", {"b": True}, ["-i"]),
    ("- -b", {}, ["-", "-b"]),
]


@pytest.mark.parametrize(("line", "values", "rest"), READABLE)
def test_readable(line: str, values: dict[str, FlagValue], rest: list[str]) -> None:
    """Flags are before other arguments, with one dash or two. The last value of a flag counts."""
    flags, left = parseFlags(line.split(), KINDS)
    assert (flags, left) == (values, rest)
    assert list(flags) == list(values)


INTEGERS = [
    ("0", 0),
    ("-7", -7),
    ("+7", 7),
    ("0x1F", 31),
    ("-0X1f", -31),
    ("0b101", 5),
    ("0o17", 15),
    ("017", 15),
    ("00", 0),
    ("1_000", 1000),
    ("0x_1f", 31),
    ("9223372036854775807", 2**63 - 1),
]


@pytest.mark.parametrize(("text", "value"), INTEGERS)
def test_integers(text: str, value: int) -> None:
    """An integer is written as in Go source."""
    assert parseFlags([f"-i={text}"], KINDS) == ({"i": value}, [])


MISTAKES = [
    (["-x"], "flag provided but not defined: -x"),
    (["--x=1"], "flag provided but not defined: -x"),
    (["---b"], "bad flag syntax: ---b"),
    (["-=b"], "bad flag syntax: -=b"),
    (["--=b"], "bad flag syntax: --=b"),
    (["-s"], "flag needs an argument: -s"),
    (["-b=maybe"], 'invalid boolean value "maybe" for -b: parse error'),
    (["-b=TrUe"], 'invalid boolean value "TrUe" for -b: parse error'),
    (["-i", "x"], 'invalid value "x" for flag -i: parse error'),
    (["-i="], 'invalid value "" for flag -i: parse error'),
    (["-i=1__0"], 'invalid value "1__0" for flag -i: parse error'),
    (["-i=_1"], 'invalid value "_1" for flag -i: parse error'),
    (["-i=08"], 'invalid value "08" for flag -i: parse error'),
    (["-i=9223372036854775808"], 'invalid value "9223372036854775808" for flag -i: '
     "value out of range"),
    (["-i=" + "9" * 5000], f'invalid value "{"9" * 5000}" for flag -i: value out of range'),
    (["-i=\u0663"], 'invalid value "\u0663" for flag -i: parse error'),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes(arguments: list[str], message: str) -> None:
    """An invalid flag is reported with Go's error."""
    with pytest.raises(FlagError) as raised:
        parseFlags(arguments, KINDS)
    assert str(raised.value) == message


@given(st.lists(st.text("-=bisx01_ ", max_size=6), max_size=5))
def test_anyArguments(arguments: list[str]) -> None:
    """Any arguments are flags and other arguments, or a L{FlagError}."""
    try:
        _, rest = parseFlags(arguments, KINDS)
    except FlagError:
        return
    assert rest == arguments[len(arguments) - len(rest) :]


@pytest.mark.parametrize(
    ("line", "values", "others"),
    [
        ("", {}, []),
        ("-x 1 -i 5 y --s=z -b", {"i": 5, "s": "z", "b": True}, ["-x", "1", "y"]),
        ("--b=false -bx", {"b": False}, ["-bx"]),
        ("-s -x -i", {"s": "-x"}, None),
        ("-b -- -b -i 5", {"b": True}, ["--", "-b", "-i", "5"]),
        ("- -i -1 i", {"i": -1}, ["-", "i"]),
    ],
)
def test_take(line: str, values: dict[str, FlagValue], others: list[str] | None) -> None:
    """
    Known flags can be removed from another program's command line, whose other arguments are
    unchanged.
    """
    if others is None:
        with pytest.raises(FlagError, match="needs an argument"):
            takeFlags(line.split(), KINDS)
    else:
        assert takeFlags(line.split(), KINDS) == (values, others)
